// Maps with named rows and time to the right: touched memory, ranks. A chosen stretch shows its columns only.
import { bytes, duration, percent } from "./format";
import { color, element, sharpen } from "./dom";
import { Heatmap } from "./heatmap";
import { onChange, state } from "./state";
import type { RowMap } from "./model";

const NAMES = 220;
/** The most, and a row each where there are few. */
const HEIGHT = 420;
const ROW = 22;

/** What a cell says: of what is resident, or of what the largest had. */
function told(map: RowMap, row: number, value: number): string[] {
  if (map.full > 0) return [value === 0 ? "nothing recorded" : bytes(((value - 1) / 254) * map.full), `peak ${bytes(map.sizes[row])}`];
  return [`${bytes(map.sizes[row])} resident`, value === 0 ? "nothing resident" : `${percent((value - 1) / 254)} touched`];
}

export function rowMap(figure: HTMLElement, map: RowMap, about: string): void {
  const { times, end, names, cells } = map;
  const [columns, rows] = [times.length, names.length];
  if (columns === 0 || rows === 0) return;
  const height = map.full > 0 ? Math.min(HEIGHT, Math.max(60, rows * ROW)) : HEIGHT;
  const caption = element("figcaption", {}, about);
  const labels = element("canvas", { "aria-hidden": "true" });
  const names_width = () => Math.min(NAMES, figure.clientWidth * 0.3);
  const words = (column: number, row: number, value: number) => [names[row], ...told(map, row, value), duration(times[column])];
  const heat = new Heatmap({ columns, rows, cells, words }, () => figure.clientWidth - names_width(), height, about);
  /** A name where its rows begin, if there is room. */
  const drawLabels = () => {
    const width = names_width();
    const context = sharpen(labels, width, height);
    const { y: first, height: count } = heat.shown();
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.fillStyle = color("text");
    let last = -20;
    for (let row = Math.floor(first); row < Math.min(rows, first + count); row++) {
      const y = ((row - first) / count) * height;
      if ((row > first && names[row] === names[row - 1]) || y - last < 12) continue;
      const middle = Math.max(10, Math.min(height / count, ROW) / 2 + 4);
      context.fillText(names[row], width - 6, y + middle, width - 8);
      last = y;
    }
  };
  const draw = () => {
    const { from, to } = state;
    const whole = { x: 0, y: 0, width: columns, height: rows };
    if (from === null || to === null) heat.show(whole);
    else {
      const at = (time: number) => Math.max(0, times.findLastIndex((start) => start <= time));
      const x = at(from);
      heat.show({ ...whole, x, width: Math.max(1, (to >= end ? columns : at(to) + 1) - x) });
    }
  };
  heat.onShow = drawLabels;
  onChange((_, changed) => {
    if (changed.has("theme")) heat.paint();
    if (changed.has("from") || changed.has("to") || changed.has("theme")) draw();
  });
  window.addEventListener("resize", draw);
  figure.replaceChildren(caption, element("div", { class: "beside" }, labels, heat.canvas));
  draw();
}
