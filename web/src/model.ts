// The document that the page carries (crates/report/src/html/document.rs writes it), unpacked into columns.

/** A series in bytes over seconds. */
export interface Series {
  at: Float64Array;
  value: Float64Array;
}

export interface Moment {
  at: number;
  pid: number;
  rss: number;
  residual: number;
  parts: number[];
}

export interface Ledgers {
  lines: string[];
  inks: string[];
  nearest: number;
  moments: Moment[];
}

export interface Frame {
  name: string;
  file: string;
  line: number;
  library: string;
  /** 0 Python, 1 native, 2 a note of ours. */
  kind: number;
}

export interface Allocs {
  frames: Frame[];
  parent: Uint32Array;
  frame: Uint32Array;
  ends: Uint32Array;
  /** Who handed it out, of each end: of `typeNames`. */
  types: Uint8Array;
  typeNames: string[];
  own: Float64Array[];
  growth: boolean;
  moments: Moments | null;
}

/** What was live at the steps that were kept. */
export interface Moments {
  peakAt: number;
  /** Every so many-th step was kept. */
  stride: number;
  step: Float64Array;
  at: number[];
  live: Float64Array;
  /** The highest sum of each stretch of time. */
  curve: Series;
  /** Nodes where stacks end, and their bytes at each step. */
  nodes: Uint32Array;
  types: Uint8Array;
  bytes: Float64Array[];
  /** The node for what was not kept stack by stack. */
  rest: number;
}

/** Named rows over time: one byte a cell, row by row; 0 where there is nothing, else 1 to 255. */
export interface RowMap {
  times: number[];
  end: number;
  names: string[];
  sizes: number[];
  /** What 255 stands for; 0 where that is all of the row. */
  full: number;
  cells: Uint8Array;
}

export interface Side {
  x: number[];
  value: Float64Array;
}

export interface Courses {
  base: string;
  other: string;
  pairs: { by: string; base: Side; other: Side }[];
}

export interface Steps {
  number: Float64Array;
  start: number[];
  end: number[];
  peak: Float64Array;
  level: Float64Array;
}

export interface Model {
  name: string;
  low: Series;
  high: Series;
  processes: { pid: number; role: string; rss: Series }[];
  available: Series;
  swap: Series;
  limit: { bytes: number; source: string } | null;
  peak: { bytes: number; at: number } | null;
  steps: Steps;
  phases: [string, number, number][];
  events: [number, string, string][];
  ledgers: Ledgers | null;
  leak: { from: number; grows: boolean } | null;
  allocs: Allocs | null;
  pages: RowMap | null;
  ranks: RowMap | null;
  compare: Courses | null;
}

/** Sums of differences. */
export function sums(differences: number[], unit = 1): Float64Array {
  const out = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < differences.length; i++) {
    sum += differences[i];
    out[i] = sum * unit;
  }
  return out;
}

interface Packed {
  start: number;
  width: number;
  at: number[];
  kib: number[];
}

export function series(packed: Packed): Series {
  const at = sums(packed.at, packed.width);
  for (let i = 0; i < at.length; i++) at[i] += packed.start;
  return { at, value: sums(packed.kib, 1024) };
}

type Raw = Record<string, any>;

function allocs(raw: Raw): Allocs {
  const strings: string[] = raw.strings;
  const frames = raw.frames.map((frame: number[]) => ({
    name: strings[frame[0]],
    file: strings[frame[1]],
    line: frame[2],
    library: strings[frame[3]],
    kind: frame[4],
  }));
  // The last node is a child of the root for what no stack of a moment tells.
  const size = raw.parent.length + 2;
  const rest = size - 1;
  frames.push({ name: "stacks whose bytes at steps were not kept", file: "", line: 0, library: "", kind: 2 });
  const parent = new Uint32Array(size);
  const frame = new Uint32Array(size);
  frame[rest] = frames.length - 1;
  for (let i = 1; i < rest; i++) {
    parent[i] = i - raw.parent[i - 1];
    frame[i] = raw.frame[i - 1];
  }
  const own = raw.own.map((column: number[]) => Float64Array.from(column));
  const ends = Uint32Array.from(sums(raw.ends));
  const types = Uint8Array.from(raw.types);
  return { frames, parent, frame, ends, types, typeNames: raw.type_names, own, growth: raw.growth, moments: moments(raw.moments, rest) };
}

function moments(raw: Raw, rest: number): Moments {
  return {
    peakAt: raw.peak_at,
    stride: raw.stride,
    step: sums(raw.step),
    at: raw.at,
    live: sums(raw.live),
    curve: { at: Float64Array.from(raw.curve_at), value: sums(raw.curve_kib, 1024) },
    nodes: Uint32Array.from(sums(raw.nodes)),
    types: Uint8Array.from(raw.types),
    bytes: raw.bytes.map((row: number[]) => sums(row)),
    rest,
  };
}

function rowMap(raw: Raw): RowMap {
  return { ...(raw as RowMap), cells: Uint8Array.from(atob(raw.cells), (letter) => letter.charCodeAt(0)) };
}

function courses(raw: Raw): Courses {
  const side = (one: Raw): Side => ({ x: one.x, value: sums(one.kib, 1024) });
  const pairs = raw.pairs.map((pair: Raw) => ({ by: pair.by, base: side(pair.base), other: side(pair.other) }));
  return { base: raw.base, other: raw.other, pairs };
}

function ledgers(raw: Raw): Ledgers {
  const moments = raw.moments.map((moment: Raw) => ({
    at: moment.at,
    pid: moment.pid,
    rss: moment.rss * 1024,
    residual: moment.residual * 1024,
    parts: moment.parts.map((kib: number) => kib * 1024),
  }));
  return { lines: raw.lines, inks: raw.inks, nearest: raw.nearest, moments };
}

export function unpack(text: string): Model {
  const raw: Raw = JSON.parse(text);
  if (raw.version !== 1) throw new Error(`data of version ${raw.version}`);
  return {
    name: raw.name,
    low: series(raw.tree.low),
    high: series(raw.tree.high),
    processes: raw.processes.map((one: Raw) => ({ pid: one.pid, role: one.role, rss: series(one.rss) })),
    available: series(raw.available),
    swap: series(raw.swap),
    limit: raw.limit,
    peak: raw.peak,
    steps: {
      number: sums(raw.steps.number),
      start: raw.steps.start,
      end: raw.steps.end,
      peak: sums(raw.steps.peak, 1024),
      level: sums(raw.steps.level, 1024),
    },
    phases: raw.phases,
    events: raw.events,
    ledgers: raw.ledgers && ledgers(raw.ledgers),
    leak: raw.leak,
    allocs: raw.allocs && allocs(raw.allocs),
    pages: raw.pages && rowMap(raw.pages),
    ranks: raw.ranks && rowMap(raw.ranks),
    compare: raw.compare && courses(raw.compare),
  };
}
