// Levels by step, or by time where there are no steps, and the slope within what was chosen.
import uPlot from "uplot";
import { byteTicks, bytes, count, duration, signed } from "./format";
import { color, element } from "./dom";
import { onChange, state } from "./state";
import type { Model } from "./model";

const HEIGHT = 240;
/** Slopes of all pairs are taken of so many points at the most. */
const MOST = 300;

/** The median of the slopes of all pairs: one wild point does not move it. */
export function theilSen(x: number[], y: number[]): { slope: number; base: number } | null {
  const stride = Math.max(1, Math.ceil(x.length / MOST));
  const kept = x.map((_, i) => i).filter((i) => i % stride === 0);
  const slopes: number[] = [];
  for (let a = 0; a < kept.length; a++) {
    for (let b = a + 1; b < kept.length; b++) {
      const run = x[kept[b]] - x[kept[a]];
      if (run > 0) slopes.push((y[kept[b]] - y[kept[a]]) / run);
    }
  }
  if (slopes.length < 3) return null;
  const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1];
  const slope = middle(slopes);
  return { slope, base: middle(kept.map((i) => y[i] - slope * x[i])) };
}

export function growth(figure: HTMLElement, model: Model): void {
  const bySteps = model.steps.start.length > 2;
  const times = bySteps ? model.steps.start : Array.from(model.low.at);
  const x = bySteps ? Array.from(model.steps.number) : times;
  const y = Array.from(bySteps ? model.steps.level : model.low.value);
  if (x.length < 3) return;
  const unit = bySteps ? "step" : "s";
  const caption = element("figcaption", {});
  const place = element("div", { class: "plot" });
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    const from = state.from ?? model.leak?.from ?? -Infinity;
    const to = state.to ?? Infinity;
    const inside = times.map((time, i) => (time >= from && time <= to ? i : -1)).filter((i) => i >= 0);
    const fit = theilSen(inside.map((i) => x[i]), inside.map((i) => y[i]));
    const line = x.map((at, i) => (fit && times[i] >= from && times[i] <= to ? fit.base + fit.slope * at : null));
    const top = Math.max(...y, 1) * 1.06;
    const axis = { stroke: () => color("faint"), grid: { stroke: () => color("grid") }, ticks: { stroke: () => color("grid") } };
    plot = new uPlot(
      {
        width: figure.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false }, y: { range: [0, top] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((tick) => (!bySteps ? duration(tick) : Number.isInteger(tick) ? count(tick) : "")) },
          { ...axis, size: 76, splits: () => byteTicks(top), values: (_, ticks) => ticks.map(bytes) },
        ],
        series: [
          { label: bySteps ? "step" : "time", value: (_, v) => (v === null ? "–" : bySteps ? count(v) : duration(v)) },
          { label: "level", stroke: () => color("s0"), width: 1.5, points: { show: false }, value: (_, v) => (v === null ? "–" : bytes(v)) },
          { label: "trend", stroke: () => color(model.leak?.grows ? "limit" : "faint"), width: 2, points: { show: false }, value: (_, v) => (v === null ? "–" : bytes(v)) },
        ],
        cursor: { drag: { x: false, y: false } },
      },
      [x, y, line] as uPlot.AlignedData,
      place,
    );
    const where = state.from === null ? "after warm-up" : "in the chosen stretch";
    caption.textContent = fit ? `${signed(fit.slope)}/${unit} ${where} (median slope of ${count(inside.length)} points)` : `too few points ${where}`;
    figure.replaceChildren(caption, place);
  };
  onChange((_, changed) => {
    if (changed.has("from") || changed.has("to") || changed.has("theme")) draw();
  });
  window.addEventListener("resize", () => plot?.setSize({ width: figure.clientWidth, height: HEIGHT }));
  draw();
}
