// A tree of stacks on a canvas: callers above, what they called below. Only what is wider than half a pixel is drawn, and
// a subtree that is not is skipped whole; what was skipped side by side is one grey stretch.
import { bytes, percent } from "./format";
import { color, element, hideTip, sharpen, showTip } from "./dom";
import type { Frame } from "./model";
import type { Tree } from "./stacks";

const ROW = 19;
const NARROWEST = 0.5;
const MOST_ROWS = 120;
const PYTHON = ["s0", "s4", "s7"];
const NATIVE = ["s1", "s2", "s3", "s5", "s6"];

const letters = new TextEncoder();

export function nameOf(frame: Frame): string {
  const file = frame.file.split("/").pop() ?? "";
  if (file !== "") return `${frame.name} (${file}${frame.line > 0 ? `:${frame.line}` : ""})`;
  return frame.library === "" ? frame.name : `${frame.name} (${frame.library})`;
}

/** The same hash as in the static picture, so that a library keeps its colour. */
function ink(frame: Frame): string {
  if (frame.kind === 2) return "rest";
  const inks = frame.kind === 0 ? PYTHON : NATIVE;
  if (frame.library === "") return inks[0];
  let hash = 5381;
  for (const byte of letters.encode(frame.library)) hash = ((hash * 33) % 65521) + byte;
  return inks[hash % inks.length];
}

/** Told once for all trees of a recording. */
const known = new WeakMap<Frame[], string[]>();

function inksOf(frames: Frame[]): string[] {
  const inks = known.get(frames) ?? frames.map(ink);
  known.set(frames, inks);
  return inks;
}

interface Box {
  node: number;
  x: number;
  width: number;
  row: number;
}

export interface IcicleEvents {
  /** A node was chosen, by click or Enter. */
  pick?: (node: number) => void;
  /** In words, for the line below. */
  tell?: (text: string) => void;
}

export class Icicle {
  readonly canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": "stacks: arrow keys move, Enter zooms, Backspace goes back" });
  private boxes: Box[] = [];
  private rows: Box[][] = [];
  private root = 0;
  private current = 0;
  private matches: Uint8Array | null = null;
  private inks: string[] = [];

  constructor(private tree: Tree, private width: () => number, private events: IcicleEvents = {}) {
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", hideTip);
    this.canvas.addEventListener("click", (event) => {
      const box = this.at(event);
      if (box) this.zoom(box.node);
    });
    this.canvas.addEventListener("keydown", (event) => this.steer(event));
    this.setTree(tree);
  }

  setTree(tree: Tree): void {
    this.tree = tree;
    this.root = this.current = 0;
    this.inks = inksOf(tree.frames);
  }

  setMatches(matches: Uint8Array | null): void {
    this.matches = matches;
  }

  zoom(node: number): void {
    this.root = node === this.root ? this.tree.parent[node] : node;
    this.current = this.root;
    this.draw();
    this.events.pick?.(this.root);
    this.tell(this.root);
  }

  /** What is wide enough, left to right and top to bottom: first those above the root, at full width. */
  private layout(width: number): void {
    const { tree, root } = this;
    const { total, left, end, depth, parent } = tree;
    const scale = total[root] > 0 ? width / total[root] : 0;
    this.boxes = [];
    const above: number[] = [];
    for (let node = root; node !== 0; node = parent[node]) above.unshift(node);
    above.forEach((node, row) => this.boxes.push({ node, x: 0, width, row }));
    const first = depth[root] + 1;
    const offset = above.length;
    let more: Box | null = null;
    for (let i = root + 1; i < end[root]; ) {
      const size = total[i] * scale;
      const row = depth[i] - first + offset;
      const x = (left[i] - left[root]) * scale;
      if (size >= NARROWEST && row < MOST_ROWS) {
        this.boxes.push({ node: i, x, width: size, row });
        i += 1;
        continue;
      }
      if (more && more.row === row && x - (more.x + more.width) < 1) more.width = x + size - more.x;
      else {
        more = { node: -1, x, width: size, row };
        this.boxes.push(more);
      }
      i = end[i];
    }
    this.boxes = this.boxes.filter((box) => box.width >= NARROWEST);
    this.rows = [];
    for (const box of this.boxes) (this.rows[box.row] ??= []).push(box);
  }

  draw(): void {
    const width = this.width();
    this.layout(width);
    const context = sharpen(this.canvas, width, Math.max(1, this.rows.length) * ROW + 2);
    const palette: Record<string, string> = {};
    for (const name of [...PYTHON, ...NATIVE, "rest", "text", "ground", "flag", "faint"]) palette[name] = color(name);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const box of this.boxes) this.box(context, box, palette);
  }

  private box(context: CanvasRenderingContext2D, box: Box, palette: Record<string, string>): void {
    const { tree } = this;
    const y = box.row * ROW;
    const frame = box.node < 0 ? -1 : tree.frame[box.node];
    const isMatch = frame >= 0 && this.matches !== null && this.matches[frame] === 1;
    context.globalAlpha = this.matches !== null && !isMatch ? 0.25 : 0.55;
    context.fillStyle = frame < 0 ? palette.rest : isMatch ? palette.flag : palette[this.inks[frame]];
    context.fillRect(box.x, y, Math.max(NARROWEST, box.width - 0.5), ROW - 1);
    context.globalAlpha = 1;
    if (box.node === this.current && box.node > 0) {
      context.strokeStyle = palette.text;
      context.strokeRect(box.x + 0.5, y + 0.5, Math.max(1, box.width - 1.5), ROW - 2);
    }
    if (frame < 0 || box.width < 28) return;
    context.save();
    context.beginPath();
    context.rect(box.x, y, box.width - 2, ROW);
    context.clip();
    context.fillStyle = palette.text;
    context.fillText(nameOf(tree.frames[frame]), box.x + 3, y + ROW / 2);
    context.restore();
  }

  private at(event: MouseEvent): Box | null {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const row = this.rows[Math.floor((event.clientY - bounds.top) / ROW)] ?? [];
    return row.find((box) => box.node >= 0 && x >= box.x && x <= box.x + box.width) ?? null;
  }

  private hover(event: MouseEvent): void {
    const box = this.at(event);
    if (!box) return hideTip();
    showTip(event.clientX, event.clientY, this.words(box.node));
  }

  words(node: number): string[] {
    const { tree } = this;
    const share = tree.total[0] > 0 ? tree.total[node] / tree.total[0] : 0;
    if (node === 0) return [`all: ${bytes(tree.total[0])}`];
    const frame = tree.frames[tree.frame[node]];
    const where = [frame.file && `${frame.file}${frame.line > 0 ? `:${frame.line}` : ""}`, frame.library].filter((word) => word);
    return [frame.name, ...where, `${bytes(tree.total[node])}, ${percent(share)}`];
  }

  private tell(node: number): void {
    this.events.tell?.(this.words(node).join(" · "));
  }

  private steer(event: KeyboardEvent): void {
    const row = this.rows.findIndex((boxes) => boxes?.some((box) => box.node === this.current));
    const named = (boxes: Box[] | undefined) => (boxes ?? []).filter((box) => box.node >= 0);
    const here = named(this.rows[row]);
    const place = here.findIndex((box) => box.node === this.current);
    let next: number | undefined;
    if (event.key === "ArrowRight") next = here[place + 1]?.node;
    else if (event.key === "ArrowLeft") next = here[place - 1]?.node;
    else if (event.key === "ArrowUp") next = this.current > 0 ? this.tree.parent[this.current] : undefined;
    else if (event.key === "ArrowDown") {
      const below = named(this.rows[row + 1]);
      next = (below.find((box) => this.tree.parent[box.node] === this.current) ?? (row < 0 ? below[0] : undefined))?.node;
    } else if (event.key === "Enter") return this.zoom(this.current);
    else if (event.key === "Backspace") return this.zoom(this.root);
    else return;
    event.preventDefault();
    if (next === undefined) return;
    this.current = next;
    this.draw();
    this.tell(next);
  }
}
