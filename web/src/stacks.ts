// Stacks as trees in preorder: totals, subtrees, search, and the trees that put together what calls a function and what
// it calls. Everything is typed arrays in a few passes, so that a million nodes answer while one looks.
import type { Allocs, Frame } from "./model";

/** A tree in preorder: node 0 is the root; a subtree is the stretch up to `end`. */
export interface Tree {
  frames: Frame[];
  /** Of `frames`; the root has none. */
  frame: Uint32Array;
  parent: Uint32Array;
  end: Uint32Array;
  depth: Uint16Array;
  /** What a node stands for by itself, and with all below it. */
  own: Float64Array;
  total: Float64Array;
  /** Where a node begins on the axis of bytes. */
  left: Float64Array;
}

/** Smaller shares than this are no pixel on any screen. */
const LEAST_SHARE = 1 / 8000;
const DEEPEST = 250;

interface Shape {
  end: Uint32Array;
  depth: Uint16Array;
}

/** All figures of one recording have one shape. */
const shapes = new WeakMap<Uint32Array, Shape>();

function shape(parent: Uint32Array): Shape {
  const known = shapes.get(parent);
  if (known) return known;
  const n = parent.length;
  const end = new Uint32Array(n).fill(1);
  const depth = new Uint16Array(n);
  for (let i = n - 1; i > 0; i--) end[parent[i]] += end[i];
  for (let i = 0; i < n; i++) end[i] += i;
  for (let i = 1; i < n; i++) depth[i] = depth[parent[i]] + 1;
  const made = { end, depth };
  shapes.set(parent, made);
  return made;
}

/** Children one after the other from where their parent begins. */
function place(parent: Uint32Array, total: Float64Array): Float64Array {
  const left = new Float64Array(parent.length);
  const next = new Float64Array(parent.length);
  for (let i = 1; i < parent.length; i++) {
    const above = parent[i];
    left[i] = next[i] = next[above];
    next[above] += total[i];
  }
  return left;
}

/** The tree of what each node stands for by itself. */
export function grown(allocs: Pick<Allocs, "frames" | "frame" | "parent">, own: Float64Array): Tree {
  const { parent, frame, frames } = allocs;
  const total = own.slice();
  for (let i = total.length - 1; i > 0; i--) total[parent[i]] += total[i];
  return { frames, frame, parent, ...shape(parent), own, total, left: place(parent, total) };
}

/** The tree of one figure; nothing has less than nothing. */
export function callers(allocs: Allocs, figure: number): Tree {
  const { ends, parent } = allocs;
  const own = new Float64Array(parent.length);
  const values = allocs.own[figure];
  for (let i = 0; i < ends.length; i++) own[ends[i]] += Math.max(0, values[i]);
  return grown(allocs, own);
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
    const own = total.slice();
    for (let i = 1; i < own.length; i++) own[parent[i]] -= total[i];
    return { frames: this.frames, frame: Uint32Array.from(this.frame), parent, ...shape(parent), own, total, left: place(parent, total) };
  }
}

/** Nodes of a tree and what each stands for. */
interface Group {
  nodes: number[];
  weight: number[];
}

/** Nodes, their frames, and what each stands for; `node` is null where they are all nodes in order. */
interface Level {
  node: Uint32Array | null;
  frame: Uint32Array;
  weight: Float64Array;
}

/**
 * Puts nodes with the same frame together, level by level. Levels are stretches of columns that grow and shrink like a stack. A
 * level whose largest sum is no pixel is left before anything is copied, which most are; and what is copied is already what the
 * next level reads, one after the other.
 */
class Merging {
  private node = new Uint32Array(0);
  private frame = new Uint32Array(0);
  private weight = new Float64Array(0);
  /** For whom an entry was made: two ways to one node are one. */
  private made = new Uint32Array(0);
  private top = 0;
  private readonly sum: Float64Array;
  /** Which of the shown frames it is, from one on, while a level is copied. */
  private readonly number: Uint32Array;
  /** Where a node was put, plus one; what an earlier level left here is seen to be so. */
  private readonly put: Uint32Array;
  private readonly grown: Growing;
  private readonly least: number;

  constructor(private tree: Tree, private up: boolean, whole: number) {
    this.sum = new Float64Array(tree.frames.length);
    this.number = new Uint32Array(tree.frames.length);
    this.put = new Uint32Array(up ? tree.parent.length : 0);
    this.grown = new Growing(tree.frames, whole);
    this.least = whole * LEAST_SHARE;
  }

  done(level: Level, from: number, to: number): Tree {
    this.split(level, from, to, 0, 0);
    return this.grown.done();
  }

  private reserve(more: number): void {
    if (this.top + more <= this.node.length) return;
    const room = Math.ceil((this.top + more) * 1.25) + 4096;
    const moved = <T extends Uint32Array | Float64Array>(into: T, from: T): T => {
      into.set(from.subarray(0, this.top));
      return into;
    };
    this.node = moved(new Uint32Array(room), this.node);
    this.frame = moved(new Uint32Array(room), this.frame);
    this.made = moved(new Uint32Array(room), this.made);
    this.weight = moved(new Float64Array(room), this.weight);
  }

  private level(): Level {
    return { node: this.node, frame: this.frame, weight: this.weight };
  }

  /** A level by frame, below a node of the new tree. */
  private split(level: Level, from: number, to: number, parent: number, depth: number): void {
    const { sum, least } = this;
    const { frame, weight } = level;
    const frames: number[] = [];
    let largest = 0;
    for (let i = from; i < to; i++) {
      const own = weight[i];
      if (own <= 0) continue;
      const one = frame[i];
      const before = sum[one];
      if (before === 0) frames.push(one);
      const after = before + own;
      sum[one] = after;
      if (after > largest) largest = after;
    }
    const shown = largest < least ? [] : frames.filter((one) => sum[one] >= least).sort((a, b) => sum[b] - sum[a]);
    const totals = shown.map((one) => sum[one]);
    for (const one of frames) sum[one] = 0;
    if (shown.length === 0) return;
    const base = this.top;
    const parts = depth < DEEPEST ? this.copy(level, from, to, shown) : null;
    shown.forEach((one, i) => {
      const node = this.grown.add(parent, one, totals[i]);
      if (parts) this.descend(parts[2 * i], parts[2 * i + 1], node, depth + 1);
    });
    this.top = base;
  }

  /** Upwards a part is the next level already; downwards its nodes' children are. */
  private descend(from: number, to: number, parent: number, depth: number): void {
    if (from === to) return;
    if (this.up) return this.split(this.level(), from, to, parent, depth);
    const { end, total, frame: frameOf } = this.tree;
    const base = this.top;
    let [{ node, frame, weight }, top] = [this, base];
    for (let i = from; i < to; i++) {
      const last = end[node[i]];
      for (let child = node[i] + 1; child < last; child = end[child]) {
        if (top === node.length) {
          this.top = top;
          this.reserve(1);
          ({ node, frame, weight } = this);
        }
        node[top] = child;
        frame[top] = frameOf[child];
        weight[top++] = total[child];
      }
    }
    this.top = top;
    this.split(this.level(), base, top, parent, depth);
    this.top = base;
  }

  /** The nodes of the shown frames on top, frame by frame, or those that call them; where each frame's stretch begins and ends. */
  private copy(level: Level, from: number, to: number, shown: number[]): Uint32Array {
    const { number, up, put } = this;
    shown.forEach((one, i) => (number[one] = i + 1));
    const counts = new Uint32Array(shown.length + 1);
    for (let i = from; i < to; i++) counts[number[level.frame[i]]] += 1;
    const parts = new Uint32Array(2 * shown.length);
    let at = this.top;
    shown.forEach((_, i) => {
      parts[2 * i] = parts[2 * i + 1] = at;
      at += counts[i + 1];
    });
    const isOwn = level.node === this.node;
    this.reserve(at - this.top);
    // Reserving may have moved the level that is read.
    const source = isOwn ? this.level() : level;
    const { parent, frame: frameOf } = this.tree;
    const { node, frame, weight, made } = this;
    const { node: nodes, frame: frames, weight: weights } = source;
    for (let i = from; i < to; i++) {
      const which = number[frames[i]];
      const own = weights[i];
      if (which === 0 || own <= 0) continue;
      const one = nodes === null ? i : nodes[i];
      const next = up ? parent[one] : one;
      if (next === 0) continue;
      const slot = parts[2 * which - 1];
      if (up) {
        const known = put[one] - 1;
        if (known >= parts[2 * which - 2] && known < slot && made[known] === one) {
          weight[known] += own;
          continue;
        }
        put[one] = slot + 1;
        made[slot] = one;
      }
      node[slot] = next;
      frame[slot] = frameOf[next];
      weight[slot] = own;
      parts[2 * which - 1] = slot + 1;
    }
    for (const one of shown) number[one] = 0;
    this.top = at;
    return parts;
  }
}

function merge(tree: Tree, seeds: Group, up: boolean, whole: number): Tree {
  const node = Uint32Array.from(seeds.nodes);
  const level = { node, frame: node.map((one) => tree.frame[one]), weight: Float64Array.from(seeds.weight) };
  return new Merging(tree, up, whole).done(level, 0, node.length);
}

/** From what allocated, outwards. */
export function inverted(tree: Tree): Tree {
  const level = { node: null, frame: tree.frame, weight: tree.own };
  return new Merging(tree, true, tree.total[0]).done(level, 1, tree.own.length);
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
  return { callers: merge(tree, seeds, true, whole), callees: merge(tree, seeds, false, whole) };
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
  const firsts: number[] = [];
  const key = Uint32Array.from(tree.frames, (frame, i) => {
    const name = keyOf(frame);
    const known = keys.get(name);
    if (known !== undefined) return known;
    keys.set(name, keys.size);
    return firsts.push(i) - 1;
  });
  const [own, total] = [new Float64Array(keys.size), new Float64Array(keys.size)];
  // Until which node a row is open: what is inside counts there already.
  const open = new Uint32Array(keys.size);
  for (let i = 1; i < tree.parent.length; i++) {
    const row = key[tree.frame[i]];
    own[row] += tree.own[i];
    if (i < open[row]) continue;
    open[row] = tree.end[i];
    total[row] += tree.total[i];
  }
  const made = [...keys.keys()].map((name, i) => ({ name, own: own[i], total: total[i], frame: firsts[i] }));
  return made.filter((row) => row.total > 0).sort((a, b) => b.own - a.own || b.total - a.total).slice(0, most);
}

/** Python code of the program itself: in no installed package and not in the standard library (`name::is_own` says the same). */
export function isOwn(frame: Frame): boolean {
  return frame.kind === 0 && frame.library !== "" && frame.file.split("/").pop() === frame.library && !frame.file.startsWith("<__");
}

/** By the innermost line of the program's own code; what has none by library. */
export function owners(tree: Tree, nameOf: (frame: Frame) => string, most: number): Row[] {
  const own = Uint8Array.from(tree.frames, (frame) => (isOwn(frame) ? 1 : 0));
  // The node whose frame owns a node, 0 for none.
  const owner = new Uint32Array(tree.parent.length);
  const found = new Map<string, Row>();
  for (let i = 1; i < tree.parent.length; i++) {
    owner[i] = own[tree.frame[i]] ? i : owner[tree.parent[i]];
    if (tree.own[i] <= 0) continue;
    const frame = tree.frame[owner[i] || i];
    const { kind, name: words, library } = tree.frames[frame];
    const unowned = kind === 2 ? words : `no code of its own: ${library || "(code in no file)"}`;
    const name = owner[i] ? nameOf(tree.frames[frame]) : unowned;
    const row = found.get(name) ?? { name, own: 0, total: 0, frame };
    row.own = row.total += tree.own[i];
    found.set(name, row);
  }
  return [...found.values()].sort((a, b) => b.own - a.own).slice(0, most);
}

/** Frames whose words hold what is searched for. */
export function matching(frames: Frame[], search: string): Uint8Array | null {
  const word = search.trim().toLowerCase();
  if (word === "") return null;
  return Uint8Array.from(frames, (frame) =>
    `${frame.name} ${frame.file}:${frame.line} ${frame.library}`.toLowerCase().includes(word) ? 1 : 0,
  );
}
