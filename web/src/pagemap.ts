// The map of touched memory: named rows of addresses, time to the right; a chosen stretch shows its columns only.
import { bytes, duration, percent } from "./format";
import { color, element, sharpen } from "./dom";
import { Heatmap } from "./heatmap";
import { onChange, state } from "./state";
import type { PageMap } from "./model";

const HEIGHT = 420;
const NAMES = 220;

export function pageMap(figure: HTMLElement, map: PageMap): void {
  const { times, end, names, sizes, cells } = map;
  const [columns, rows] = [times.length, names.length];
  if (columns === 0 || rows === 0) return;
  const caption = element("figcaption", {}, "addresses down, time to the right; drag zooms, double click shows all");
  const labels = element("canvas", { "aria-hidden": "true" });
  const names_width = () => Math.min(NAMES, figure.clientWidth * 0.3);
  const words = (column: number, row: number, value: number) => [
    names[row],
    `${bytes(sizes[row])} resident`,
    value === 0 ? "nothing resident" : `${percent((value - 1) / 254)} touched`,
    duration(times[column]),
  ];
  const heat = new Heatmap({ columns, rows, cells, words }, () => figure.clientWidth - names_width(), HEIGHT);
  /** A name where its rows begin, if there is room. */
  const drawLabels = () => {
    const width = names_width();
    const context = sharpen(labels, width, HEIGHT);
    const { y: first, height } = heat.shown();
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.fillStyle = color("text");
    let last = -20;
    for (let row = Math.floor(first); row < Math.min(rows, first + height); row++) {
      const y = ((row - first) / height) * HEIGHT;
      if ((row > first && names[row] === names[row - 1]) || y - last < 12) continue;
      context.fillText(names[row], width - 6, y + 10, width - 8);
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
