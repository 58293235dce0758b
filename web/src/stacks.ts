// Stacks as trees in preorder: totals, subtrees, search, and the trees that put together what calls a function and what
// it calls. Everything is typed arrays in one or two passes, so that a million nodes answer while one looks.
import type { Allocs, Frame } from "./model";

/** A tree in preorder: node 0 is the root; a subtree is the stretch up to `end`. */
export interface Tree {
  frames: Frame[];
  /** Of `frames`; the root has none. */
  frame: Uint32Array;
  parent: Uint32Array;
  end: Uint32Array;
  depth: Uint16Array;
  total: Float64Array;
  /** Where a node begins on the axis of bytes. */
  left: Float64Array;
}

/** Smaller shares than this are no pixel on any screen. */
const LEAST_SHARE = 1 / 8000;
const DEEPEST = 250;

function shape(parent: Uint32Array): { end: Uint32Array; depth: Uint16Array } {
  const n = parent.length;
  const end = new Uint32Array(n).fill(1);
  const depth = new Uint16Array(n);
  for (let i = n - 1; i > 0; i--) end[parent[i]] += end[i];
  for (let i = 0; i < n; i++) end[i] += i;
  for (let i = 1; i < n; i++) depth[i] = depth[parent[i]] + 1;
  return { end, depth };
}

/** Children one after the other from where their parent begins. */
function place(parent: Uint32Array, total: Float64Array): Float64Array {
  const left = new Float64Array(parent.length);
  const next = new Float64Array(parent.length);
  for (let i = 1; i < parent.length; i++) {
    left[i] = next[i] = next[parent[i]];
    next[parent[i]] += total[i];
  }
  return left;
}

/** The tree of one figure; nothing has less than nothing. */
export function callers(allocs: Allocs, figure: number): Tree {
  const total = new Float64Array(allocs.parent.length);
  const own = allocs.own[figure];
  allocs.ends.forEach((node, i) => (total[node] += Math.max(0, own[i])));
  for (let i = total.length - 1; i > 0; i--) total[allocs.parent[i]] += total[i];
  const { parent, frame, frames } = allocs;
  return { frames, frame, parent, ...shape(parent), total, left: place(parent, total) };
}

/** A tree that grows in preorder. */
class Growing {
  private parent: number[] = [0];
  private frame: number[] = [0];
  private total: number[];

  constructor(private frames: Frame[], whole: number) {
    this.total = [whole];
  }

  add(parent: number, frame: number, total: number): number {
    this.parent.push(parent);
    this.frame.push(frame);
    this.total.push(total);
    return this.parent.length - 1;
  }

  done(): Tree {
    const parent = Uint32Array.from(this.parent);
    const total = Float64Array.from(this.total);
    return { frames: this.frames, frame: Uint32Array.from(this.frame), parent, ...shape(parent), total, left: place(parent, total) };
  }
}

/** Nodes of a tree and what each stands for. */
interface Group {
  nodes: number[];
  weight: number[];
}

/** Puts nodes with the same frame together, level by level; `next` says what comes below a node. */
function merge(tree: Tree, seeds: Group, next: (group: Group) => Group, whole: number): Tree {
  const made = new Growing(tree.frames, whole);
  const least = whole * LEAST_SHARE;
  const sum = new Float64Array(tree.frames.length);
  const visit = (group: Group, parent: number, depth: number) => {
    const frames: number[] = [];
    group.nodes.forEach((node, i) => {
      const frame = tree.frame[node];
      if (sum[frame] === 0) frames.push(frame);
      sum[frame] += group.weight[i];
    });
    const shown = frames.filter((frame) => sum[frame] >= least).sort((a, b) => sum[b] - sum[a]);
    const totals = shown.map((frame) => sum[frame]);
    const index = new Map(shown.map((frame, i) => [frame, i]));
    for (const frame of frames) sum[frame] = 0;
    const parts: Group[] = shown.map(() => ({ nodes: [], weight: [] }));
    group.nodes.forEach((node, i) => {
      const part = index.get(tree.frame[node]);
      if (part === undefined) return;
      parts[part].nodes.push(node);
      parts[part].weight.push(group.weight[i]);
    });
    shown.forEach((frame, i) => {
      const node = made.add(parent, frame, totals[i]);
      if (depth < DEEPEST) visit(next(parts[i]), node, depth + 1);
    });
  };
  visit(seeds, 0, 0);
  return made.done();
}

/** The callers of some nodes: each parent once, with what its children stand for. */
function above(tree: Tree): (group: Group) => Group {
  const sum = new Float64Array(tree.parent.length);
  return ({ nodes, weight }) => {
    const found: number[] = [];
    nodes.forEach((node, i) => {
      const parent = tree.parent[node];
      if (parent === 0) return;
      if (sum[parent] === 0) found.push(parent);
      sum[parent] += weight[i];
    });
    const group = { nodes: found, weight: found.map((node) => sum[node]) };
    for (const node of found) sum[node] = 0;
    return group;
  };
}

function below(tree: Tree): (group: Group) => Group {
  return ({ nodes }) => {
    const group: Group = { nodes: [], weight: [] };
    for (const node of nodes) {
      for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
        group.nodes.push(child);
        group.weight.push(tree.total[child]);
      }
    }
    return group;
  };
}

/** What a node stands for by itself. */
export function ownOf(tree: Tree): Float64Array {
  const own = tree.total.slice();
  for (let i = 1; i < own.length; i++) own[tree.parent[i]] -= tree.total[i];
  return own;
}

/** From what allocated, outwards. */
export function inverted(tree: Tree): Tree {
  const own = ownOf(tree);
  const seeds: Group = { nodes: [], weight: [] };
  const least = tree.total[0] * 1e-9;
  for (let i = 1; i < own.length; i++) {
    if (own[i] <= least) continue;
    seeds.nodes.push(i);
    seeds.weight.push(own[i]);
  }
  return merge(tree, seeds, above(tree), tree.total[0]);
}

/** Outermost nodes whose frame is wanted: a recursion counts once. */
export function outermost(tree: Tree, wanted: (frame: number) => boolean): Group {
  const group: Group = { nodes: [], weight: [] };
  for (let i = 1; i < tree.parent.length; ) {
    if (wanted(tree.frame[i])) {
      group.nodes.push(i);
      group.weight.push(tree.total[i]);
      i = tree.end[i];
    } else i += 1;
  }
  return group;
}

/** What calls a function, and what it calls. */
export function sandwich(tree: Tree, frame: number): { callers: Tree; callees: Tree } {
  const seeds = outermost(tree, (one) => one === frame);
  const whole = seeds.weight.reduce((a, b) => a + b, 0);
  return { callers: merge(tree, seeds, above(tree), whole), callees: merge(tree, seeds, below(tree), whole) };
}

export interface Row {
  name: string;
  own: number;
  total: number;
  frame: number;
}

/** By function, line or library: what each allocates itself and with all it calls. */
export function rows(tree: Tree, keyOf: (frame: Frame) => string, most: number): Row[] {
  const keys = new Map<string, number>();
  const key = tree.frames.map((frame) => {
    const name = keyOf(frame);
    if (!keys.has(name)) keys.set(name, keys.size);
    return keys.get(name)!;
  });
  const made: Row[] = [...keys.keys()].map((name) => ({ name, own: 0, total: 0, frame: -1 }));
  tree.frames.forEach((_, frame) => {
    if (made[key[frame]].frame < 0) made[key[frame]].frame = frame;
  });
  const own = ownOf(tree);
  const open = new Uint16Array(made.length);
  const path: number[] = [];
  for (let i = 1; i < tree.parent.length; i++) {
    while (path.length >= tree.depth[i]) open[path.pop()!] -= 1;
    const row = key[tree.frame[i]];
    made[row].own += own[i];
    if (open[row] === 0) made[row].total += tree.total[i];
    open[row] += 1;
    path.push(row);
  }
  return made.filter((row) => row.total > 0).sort((a, b) => b.own - a.own || b.total - a.total).slice(0, most);
}

/** Frames whose words hold what is searched for. */
export function matching(frames: Frame[], search: string): Uint8Array | null {
  const word = search.trim().toLowerCase();
  if (word === "") return null;
  return Uint8Array.from(frames, (frame) =>
    `${frame.name} ${frame.file}:${frame.line} ${frame.library}`.toLowerCase().includes(word) ? 1 : 0,
  );
}
