// What the stacks of a chosen stretch of time are, as far as was kept: at the peak, at the end, and at steps. Where that does not
// tell, it is said and the figure of the whole run stays.
import { bytes, count, duration, signed } from "./format";
import { callers, grown } from "./stacks";
import type { Allocs, Moments } from "./model";
import type { Tree } from "./stacks";

export const [PEAK, END, EVER, TEMPORARY, GROWTH] = [0, 1, 2, 3, 4];

export interface Shown {
  /** The same for the same stacks. */
  key: string;
  /** What is shown and what cannot be told, for a reader. */
  words: string;
  tree: () => Tree;
  /** The same bytes by who handed them out: of `typeNames`, and last what no stack tells. */
  types: () => Float64Array;
}

/** Shares of the highest that are worth a word. */
const WORTH = 1.01;

function whole(allocs: Allocs, figure: number, words: string): Shown {
  const types = () => {
    const sums = new Float64Array(allocs.typeNames.length + 1);
    allocs.types.forEach((type, i) => (sums[type] += Math.max(0, allocs.own[figure][i])));
    return sums;
  };
  return { key: String(figure), words, tree: () => callers(allocs, figure), types };
}

/** Sums of what stacks have in a stretch by `where` each belongs; what no stack tells of `all` is put at `rest`. */
function weights(moments: Moments, all: number, of: (row: Float64Array) => number, where: ArrayLike<number>, size: number, rest: number): Float64Array {
  const sums = new Float64Array(size);
  let told = 0;
  moments.bytes.forEach((row, i) => {
    const value = of(row);
    told += value;
    sums[where[i]] += Math.max(0, value);
  });
  sums[rest] = Math.max(0, all - told);
  return sums;
}

/** Stacks with these bytes each, of `all`. */
function made(allocs: Allocs, moments: Moments, key: string, words: string, all: number, of: (row: Float64Array) => number): Shown {
  const own = () => weights(moments, all, of, moments.nodes, allocs.parent.length, moments.rest);
  const kinds = allocs.typeNames.length;
  return { key, words, tree: () => grown(allocs, own()), types: () => weights(moments, all, of, moments.types, kinds + 1, kinds) };
}

function atStep(allocs: Allocs, moments: Moments, step: number, words: string): Shown {
  return made(allocs, moments, `step ${step}`, words, moments.live[step], (row) => row[step] ?? 0);
}

/** Step 7 (1.20 s). */
function named(moments: Moments, step: number): string {
  return `step ${count(moments.step[step])} (${duration(moments.at[step])})`;
}

function whyNot(moments: Moments, from: number, to: number): string {
  if (moments.at.length === 0) return "stacks are kept at steps, and none was marked (nilo run --steps …)";
  const distance = (at: number) => Math.min(Math.abs(at - from), Math.abs(at - to));
  let nearest = 0;
  moments.at.forEach((at, i) => {
    if (distance(at) < distance(moments.at[nearest])) nearest = i;
  });
  const which = moments.stride > 1 ? `each ${count(moments.stride)}. step` : "each step";
  return `stacks are kept as ${which} begins, and none does in it; the nearest is ${named(moments, nearest)}`;
}

/** All kept steps within. */
function inside(moments: Moments, from: number, to: number): number[] {
  return moments.at.map((_, i) => i).filter((i) => moments.at[i] >= from && moments.at[i] <= to);
}

function highest(allocs: Allocs, moments: Moments, from: number, to: number): Shown {
  if (moments.peakAt >= from && moments.peakAt <= to) {
    return whole(allocs, PEAK, `The peak, at ${duration(moments.peakAt)}, lies in the chosen stretch: these are its stacks.`);
  }
  const steps = inside(moments, from, to);
  if (steps.length === 0) {
    const words = `Cannot tell the stacks of the chosen stretch: ${whyNot(moments, from, to)}. These are those of the peak, at ${duration(moments.peakAt)}.`;
    return whole(allocs, PEAK, words);
  }
  const step = steps.reduce((a, b) => (moments.live[b] > moments.live[a] ? b : a));
  let between = 0;
  moments.curve.at.forEach((at, i) => {
    if (at >= from && at <= to) between = Math.max(between, moments.curve.value[i]);
  });
  const rose = between > moments.live[step] * WORTH ? ` Between steps it rose to ${bytes(between)}, of which no stacks are kept.` : "";
  const which = steps.length === 1 ? "the one kept step" : `the highest of ${count(steps.length)} kept steps`;
  return atStep(allocs, moments, step, `${bytes(moments.live[step])} live as ${named(moments, step)} began, ${which} in the chosen stretch.${rose}`);
}

function end(allocs: Allocs, moments: Moments, from: number, to: number): Shown {
  const { at } = moments.curve;
  if (at.length > 0 && to >= at[at.length - 1]) return whole(allocs, END, "The chosen stretch reaches to the end of the run: these are the stacks of what was not given back.");
  const steps = inside(moments, from, to);
  if (steps.length === 0) return whole(allocs, END, `Cannot tell the stacks at the end of the chosen stretch: ${whyNot(moments, from, to)}. These are those at the end of the run.`);
  const last = steps[steps.length - 1];
  return atStep(allocs, moments, last, `${bytes(moments.live[last])} live as ${named(moments, last)} began, the last kept step in the chosen stretch.`);
}

function growth(allocs: Allocs, moments: Moments, from: number, to: number): Shown {
  const steps = inside(moments, from, to);
  if (steps.length < 2) return whole(allocs, GROWTH, "Cannot tell the growth within the chosen stretch: fewer than two kept steps begin in it. This is that of the whole run.");
  const [first, last] = [steps[0], steps[steps.length - 1]];
  const span = Math.max(1, moments.step[last] - moments.step[first]);
  const all = (moments.live[last] - moments.live[first]) / span;
  const words = `${signed(all)}/step from ${named(moments, first)} to ${named(moments, last)}; drawn is what grew.`;
  return made(allocs, moments, `growth ${first} ${last}`, words, all, (row) => ((row[last] ?? 0) - (row[first] ?? 0)) / span);
}

/** The stacks of a figure in a stretch of time; of the whole run where there is none. */
export function shown(allocs: Allocs, figure: number, from: number | null, to: number | null): Shown {
  const { moments } = allocs;
  if (!moments || from === null || to === null) return whole(allocs, figure, "");
  if (figure === PEAK) return highest(allocs, moments, from, to);
  if (figure === END) return end(allocs, moments, from, to);
  if (figure === GROWTH) return growth(allocs, moments, from, to);
  return whole(allocs, figure, "This is of the whole run: when a block that is gone was handed out is not kept.");
}
