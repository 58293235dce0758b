// The run's curve: the tree's band, its processes, or what the largest process was made of; choosing a stretch here
// makes every other view speak of that stretch.
import uPlot from "uplot";
import { byteTicks, bytes, count, duration, signed } from "./format";
import { choice, color, element, inkColor } from "./dom";
import { change, onChange, state } from "./state";
import type { Model, Series } from "./model";

const HEIGHT = 300;
/** A limit farther above the curve than this would flatten it. */
const NEAR = 3;
const MOST_STEPS = 60;
const SERIES = 8;

interface Curve {
  label: string;
  value: (number | null)[];
  ink: string;
  fill: boolean;
}

/** The value of a series at some times: each holds until the next; nothing before the first or long after the last. */
function held(series: Series, times: ArrayLike<number>, until: number): (number | null)[] {
  let place = -1;
  return Array.from(times, (time) => {
    while (place + 1 < series.at.length && series.at[place + 1] <= time + 1e-9) place += 1;
    return place < 0 || time > until ? null : series.value[place];
  });
}

function lastOf(series: Series): number {
  const last = series.at.length - 1;
  return last < 1 ? Infinity : series.at[last] + 2 * (series.at[last] - series.at[last - 1]);
}

/** What is drawn, by mode: the times, and a curve each. */
function curves(model: Model, mode: string): { at: number[]; curves: Curve[]; stacked: boolean } {
  const at = Array.from(model.high.at);
  if (mode === "parts" && model.ledgers) {
    const { moments, lines, inks } = model.ledgers;
    const pid = moments[model.ledgers.nearest].pid;
    const own = moments.filter((moment) => moment.pid === pid);
    const below = new Float64Array(own.length);
    const parts = lines.map((label, line) => {
      own.forEach((moment, i) => (below[i] += moment.parts[line]));
      return { label, value: Array.from(below), ink: inks[line], fill: true };
    });
    return { at: own.map((moment) => moment.at), curves: parts.reverse(), stacked: true };
  }
  if (mode === "processes") {
    const lines = model.processes.map((one, i) => ({
      label: `${one.pid} ${one.role}`,
      value: held(one.rss, at, lastOf(one.rss)),
      ink: `i-s${i % SERIES}`,
      fill: false,
    }));
    return { at, curves: lines, stacked: false };
  }
  const high = { label: "at most", value: Array.from(model.high.value), ink: "i-s4", fill: true };
  const low = { label: "at least", value: held(model.low, at, Infinity), ink: "i-s0", fill: true };
  return { at, curves: [high, low], stacked: false };
}

/** Phases, else steps if they are few, as stripes behind the curve. */
function stripes(model: Model): [string, number, number][] {
  if (model.phases.length > 0) return model.phases;
  const { start, end } = model.steps;
  if (start.length > MOST_STEPS) return [];
  return start.map((from, i) => ["", from, end[i] - from]);
}

function drawStripes(plot: uPlot, model: Model): void {
  const { ctx, bbox } = plot;
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${11 * ratio}px sans-serif`;
  stripes(model).forEach(([name, from, length], i) => {
    const left = plot.valToPos(from, "x", true);
    const width = plot.valToPos(from + length, "x", true) - left;
    ctx.fillStyle = color(i % 2 === 0 ? "stripe" : "ground");
    ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.fillStyle = color("faint");
    if (width > ctx.measureText(name).width + 8) ctx.fillText(name, left + 4, bbox.top + 13 * ratio);
  });
  ctx.restore();
}

/** The limit, the peak's flag, and a tick for each event. */
function drawMarks(plot: uPlot, model: Model): void {
  const { ctx, bbox } = plot;
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.font = `${11 * ratio}px sans-serif`;
  ctx.fillStyle = color("flag");
  for (const [at] of model.events) {
    const x = plot.valToPos(at, "x", true);
    if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(x, bbox.top + bbox.height - 6 * ratio, ratio, 6 * ratio);
  }
  const top = plot.scales.y.max ?? 0;
  if (model.limit && model.limit.bytes <= top) {
    const y = plot.valToPos(model.limit.bytes, "y", true);
    ctx.strokeStyle = ctx.fillStyle = color("limit");
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.textAlign = "right";
    ctx.fillText(`${bytes(model.limit.bytes)} (${model.limit.source})`, bbox.left + bbox.width - 4, y - 5 * ratio);
  }
  if (model.peak && state.mode === "tree") {
    const [x, y] = [plot.valToPos(model.peak.at, "x", true), plot.valToPos(model.peak.bytes, "y", true)];
    const isRight = x > bbox.left + bbox.width / 2;
    ctx.fillStyle = color("flag");
    ctx.fillRect(x - 3.5 * ratio, y - 3.5 * ratio, 7 * ratio, 7 * ratio);
    ctx.textAlign = isRight ? "right" : "left";
    const label = `peak ${bytes(model.peak.bytes)} at ${duration(model.peak.at)}`;
    ctx.fillText(label, x + (isRight ? -8 : 8) * ratio, Math.max(y - 8 * ratio, bbox.top + 10 * ratio));
  }
  ctx.restore();
}

function topOf(model: Model, drawn: Curve[]): number {
  let highest = 1;
  for (const curve of drawn) for (const value of curve.value) highest = Math.max(highest, value ?? 0);
  if (model.peak && state.mode === "tree") highest = Math.max(highest, model.peak.bytes);
  const limit = model.limit?.bytes ?? 0;
  return (limit <= highest * NEAR ? Math.max(highest, limit) : highest) * 1.06;
}

function options(model: Model, drawn: Curve[], stacked: boolean, width: number): uPlot.Options {
  const top = topOf(model, drawn);
  const axis = { stroke: () => color("faint"), grid: { stroke: () => color("grid") }, ticks: { stroke: () => color("grid") } };
  return {
    width,
    height: HEIGHT,
    scales: { x: { time: false }, y: { range: [0, top] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map(duration) },
      { ...axis, size: 76, splits: () => byteTicks(top), values: (_, ticks) => ticks.map(bytes) },
    ],
    series: [
      { label: "time", value: (_, value) => (value === null ? "–" : duration(value)) },
      ...drawn.map((curve) => ({
        label: curve.label,
        stroke: () => inkColor(curve.ink),
        fill: curve.fill ? () => inkColor(curve.ink) + (stacked ? "cc" : "55") : undefined,
        width: 1.5,
        points: { show: false },
        value: (_: uPlot, value: number | null) => (value === null ? "–" : bytes(value)),
      })),
    ],
    cursor: { drag: { x: true, y: false, setScale: false } },
    hooks: {
      drawClear: [(plot) => drawStripes(plot, model)],
      draw: [(plot) => drawMarks(plot, model)],
      setSelect: [(plot) => choose(plot)],
    },
  };
}

/** A drag chooses; a click, or a drag of nearly nothing, does not. */
function choose(plot: uPlot): void {
  const { left, width } = plot.select;
  if (width < 3) return;
  change({ from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x") });
}

/** Shows what was chosen elsewhere: in a link, by keys. */
function showChosen(plot: uPlot): void {
  if (state.from === null || state.to === null) {
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    return;
  }
  const left = plot.valToPos(state.from, "x");
  const width = plot.valToPos(state.to, "x") - left;
  plot.setSelect({ left, top: 0, width, height: plot.bbox.height / (window.devicePixelRatio || 1) }, false);
}

/** The chosen stretch in words. */
export function describe(model: Model): string {
  const { from, to } = state;
  if (from === null || to === null) return "Drag over the curve, or use the arrow keys on it, to choose a stretch: the views below follow.";
  let [low, high, first, last] = [Infinity, 0, NaN, NaN];
  model.high.at.forEach((at, i) => {
    if (at < from || at > to) return;
    low = Math.min(low, model.high.value[i]);
    high = Math.max(high, model.high.value[i]);
    if (Number.isNaN(first)) first = model.high.value[i];
    last = model.high.value[i];
  });
  const steps = model.steps.start.filter((start) => start >= from && start <= to).length;
  const what = Number.isNaN(first)
    ? "no sample"
    : `highest ${bytes(high)}, lowest ${bytes(low)}, change ${signed(last - first)}`;
  return `Chosen: ${duration(from)} to ${duration(to)} (${duration(to - from)}): ${what}${steps > 0 ? `, ${count(steps)} steps` : ""}. Esc lets go.`;
}

/** Left and right move the stretch, with shift they widen it. */
function steer(event: KeyboardEvent, model: Model): void {
  const direction = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
  if (direction === 0 || model.high.at.length < 2) return;
  event.preventDefault();
  const [first, last] = [model.high.at[0], model.high.at[model.high.at.length - 1]];
  const step = (last - first) / 50;
  const from = state.from ?? Math.max(first, (model.peak?.at ?? first) - step * 2);
  const to = state.to ?? Math.min(last, from + step * 4);
  if (event.shiftKey) change({ from, to: Math.min(last, Math.max(from + step / 2, to + direction * step)) });
  else if (from + direction * step >= first && to + direction * step <= last + step / 2) {
    change({ from: from + direction * step, to: to + direction * step });
  } else change({ from, to });
}

export function tide(figure: HTMLElement, model: Model): void {
  if (model.high.at.length < 2) return;
  const words = document.getElementById("selection");
  const modes: [string, string][] = [["tree", "tree"]];
  if (model.processes.length > 0) modes.push(["processes", "processes"]);
  if ((model.ledgers?.moments.length ?? 0) > 1) modes.push(["parts", "made of"]);
  const place = element("div", { tabindex: "0", class: "plot", "aria-label": "memory over time; arrow keys choose a stretch" });
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    const mode = modes.some(([name]) => name === state.mode) ? state.mode : "tree";
    const { at, curves: drawn, stacked } = curves(model, mode);
    const data = [at, ...drawn.map((curve) => curve.value)] as uPlot.AlignedData;
    plot = new uPlot(options(model, drawn, stacked, figure.clientWidth), data, place);
    showChosen(plot);
    const bar = choice("what the curve shows", modes, mode, (value) => change({ mode: value }));
    figure.replaceChildren(...(modes.length > 1 ? [bar] : []), place);
    if (words) words.textContent = describe(model);
  };
  place.addEventListener("dblclick", () => change({ from: null, to: null }));
  place.addEventListener("keydown", (event) => steer(event, model));
  onChange((_, changed) => {
    if (changed.has("mode") || changed.has("theme")) draw();
    if (plot && (changed.has("from") || changed.has("to"))) {
      showChosen(plot);
      if (words) words.textContent = describe(model);
    }
  });
  window.addEventListener("resize", () => plot?.setSize({ width: figure.clientWidth, height: HEIGHT }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
