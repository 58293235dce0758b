// Two runs over each other: by step, so that runs of different speed can be compared, or by time; a chosen stretch of time is
// what is shown of the latter.
import uPlot from "uplot";
import { byteTicks, bytes, count, duration } from "./format";
import { choice, color, element } from "./dom";
import { change, onChange, state } from "./state";
import type { Courses, Side } from "./model";

const HEIGHT = 260;

/** Both on one axis: a value where a side has a point, and nothing elsewhere. */
function joined(base: Side, other: Side): [number[], (number | null)[], (number | null)[]] {
  const all = [...new Set([...base.x, ...other.x])].sort((a, b) => a - b);
  const on = (side: Side) => {
    const known = new Map(side.x.map((x, i) => [x, side.value[i]]));
    return all.map((x) => known.get(x) ?? null);
  };
  return [all, on(base), on(other)];
}

export function courses(figure: HTMLElement, model: Courses): void {
  if (model.pairs.length === 0) return;
  const place = element("div", { class: "plot" });
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    const pair = model.pairs.find(({ by }) => by === state.by) ?? model.pairs[0];
    const isTime = pair.by === "time";
    const data = joined(pair.base, pair.other);
    const top = Math.max(1, ...pair.base.value, ...pair.other.value) * 1.06;
    const axis = { stroke: () => color("faint"), grid: { stroke: () => color("grid") }, ticks: { stroke: () => color("grid") } };
    const line = (label: string, ink: string, dash?: number[]) => ({
      label, stroke: () => color(ink), dash, width: 1.5, spanGaps: true, points: { show: false },
      value: (_: uPlot, value: number | null) => (value === null ? "–" : bytes(value)),
    });
    const isPart = isTime && state.from !== null && state.to !== null;
    plot = new uPlot(
      {
        width: figure.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false, ...(isPart ? { range: [state.from!, state.to!] } : {}) }, y: { range: [0, top] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((tick) => (isTime ? duration(tick) : Number.isInteger(tick) ? count(tick) : "")) },
          { ...axis, size: 76, splits: () => byteTicks(top), values: (_, ticks) => ticks.map(bytes) },
        ],
        series: [
          { label: isTime ? "time" : "step", value: (_, value) => (value === null ? "–" : isTime ? duration(value) : count(value)) },
          line(`${model.base} (dashed)`, "s1", [6, 4]),
          line(model.other, "s0"),
        ],
        cursor: { drag: { x: false, y: false } },
      },
      data as uPlot.AlignedData,
      place,
    );
    const names: [string, string][] = model.pairs.map(({ by }) => [by, `by ${by}`]);
    const bar = element("div", { class: "bar" }, choice("along what", names, pair.by, (by) => change({ by })));
    figure.replaceChildren(...(names.length > 1 ? [bar] : []), place);
  };
  onChange((_, changed) => {
    if (["by", "from", "to", "theme"].some((key) => changed.has(key as keyof typeof state))) draw();
  });
  window.addEventListener("resize", () => plot?.setSize({ width: figure.clientWidth, height: HEIGHT }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
