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
  own: Float64Array[];
  growth: boolean;
}

/** Touched memory: one byte a cell, row by row; 0 where nothing is resident, else 1 to 255. */
export interface PageMap {
  times: number[];
  end: number;
  names: string[];
  sizes: number[];
  cells: Uint8Array;
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
  pages: PageMap | null;
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
  const size = raw.parent.length + 1;
  const parent = new Uint32Array(size);
  const frame = new Uint32Array(size);
  for (let i = 1; i < size; i++) {
    parent[i] = i - raw.parent[i - 1];
    frame[i] = raw.frame[i - 1];
  }
  const own = raw.own.map((column: number[]) => Float64Array.from(column));
  return { frames, parent, frame, ends: Uint32Array.from(sums(raw.ends)), own, growth: raw.growth };
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
    pages: raw.pages && { ...raw.pages, cells: Uint8Array.from(atob(raw.pages.cells), (letter) => letter.charCodeAt(0)) },
  };
}
