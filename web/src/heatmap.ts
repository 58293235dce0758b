// Address by time as colours: one byte a cell, drawn through a palette in one go; zooming draws a part of it larger.
import { color, element, hideTip, sharpen, showTip } from "./dom";

export interface Heat {
  columns: number;
  rows: number;
  /** Row by row; 0 is cold. */
  cells: Uint8Array;
  /** In words, for a cell. */
  words: (column: number, row: number, value: number) => string[];
}

interface Part {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** From the ground's colour over blue and orange to nearly white: lighter is hotter, also without colours. */
function palette(): Uint32Array {
  const dark = color("ground").startsWith("#1");
  const stops = dark
    ? [[20, 24, 29], [0, 70, 130], [200, 90, 20], [255, 240, 180]]
    : [[255, 255, 255], [120, 180, 230], [225, 130, 20], [90, 10, 10]];
  const made = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (place - low)));
    made[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return made;
}

export class Heatmap {
  readonly canvas: HTMLCanvasElement;
  private plane = document.createElement("canvas");
  private part: Part;
  /** Called after each drawing. */
  onShow: () => void = () => {};
  private start: { x: number; y: number } | null = null;

  constructor(private heat: Heat, private width: () => number, private height: number, about = "a map of rows by time") {
    this.canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": about });
    this.part = { x: 0, y: 0, width: heat.columns, height: heat.rows };
    this.paint();
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", hideTip);
    this.canvas.addEventListener("mousedown", (event) => (this.start = this.cell(event)));
    this.canvas.addEventListener("mouseup", (event) => this.zoom(this.cell(event)));
    this.canvas.addEventListener("dblclick", () => this.show({ x: 0, y: 0, width: heat.columns, height: heat.rows }));
  }

  /** The whole plane once; a new theme paints it again. */
  paint(): void {
    const { columns, rows, cells } = this.heat;
    this.plane.width = columns;
    this.plane.height = rows;
    const context = this.plane.getContext("2d")!;
    const image = context.createImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const colors = palette();
    for (let i = 0; i < cells.length; i++) pixels[i] = colors[cells[i]];
    context.putImageData(image, 0, 0);
  }

  draw(): void {
    const context = sharpen(this.canvas, this.width(), this.height);
    context.imageSmoothingEnabled = this.part.width > this.width();
    const { x, y, width, height } = this.part;
    context.drawImage(this.plane, x, y, width, height, 0, 0, this.width(), this.height);
    this.onShow();
  }

  shown(): Part {
    return this.part;
  }

  show(part: Part): void {
    this.part = part;
    this.draw();
  }

  private cell(event: MouseEvent): { x: number; y: number } {
    const bounds = this.canvas.getBoundingClientRect();
    const { x, y, width, height } = this.part;
    const column = Math.floor(x + ((event.clientX - bounds.left) / bounds.width) * width);
    const row = Math.floor(y + ((event.clientY - bounds.top) / bounds.height) * height);
    return { x: Math.min(Math.max(column, 0), this.heat.columns - 1), y: Math.min(Math.max(row, 0), this.heat.rows - 1) };
  }

  private zoom(to: { x: number; y: number }): void {
    const from = this.start;
    this.start = null;
    if (!from || Math.abs(to.x - from.x) < 2 || Math.abs(to.y - from.y) < 2) return;
    const [x, y] = [Math.min(from.x, to.x), Math.min(from.y, to.y)];
    this.show({ x, y, width: Math.abs(to.x - from.x) + 1, height: Math.abs(to.y - from.y) + 1 });
  }

  private hover(event: MouseEvent): void {
    const { x, y } = this.cell(event);
    showTip(event.clientX, event.clientY, this.heat.words(x, y, this.heat.cells[y * this.heat.columns + x]));
  }
}
