// What resident memory is made of, at the ledger nearest to the chosen stretch, else to the peak: bars that add up.
import { bytes, duration, percent } from "./format";
import { color, element, inkColor, sharpen } from "./dom";
import { onChange, state } from "./state";
import type { Ledgers, Model, Moment } from "./model";

const ROW = 22;
const VALUES = 130;

/** The largest within what was chosen, else the one nearest to it. */
export function chosen(ledgers: Ledgers): Moment {
  const { from, to } = state;
  const atPeak = ledgers.moments[ledgers.nearest];
  if (from === null || to === null) return atPeak;
  const inside = ledgers.moments.filter((moment) => moment.at >= from && moment.at <= to);
  if (inside.length > 0) return inside.reduce((a, b) => (b.rss > a.rss ? b : a));
  const distance = (moment: Moment) => Math.min(Math.abs(moment.at - from), Math.abs(moment.at - to));
  return ledgers.moments.reduce((a, b) => (distance(b) < distance(a) ? b : a));
}

interface Row {
  name: string;
  bytes: number;
  from: number;
  color: string;
}

function rows(ledgers: Ledgers, moment: Moment): Row[] {
  const order = ledgers.lines.map((_, i) => i).filter((i) => moment.parts[i] > 0);
  order.sort((a, b) => moment.parts[b] - moment.parts[a]);
  let from = 0;
  const made: Row[] = [];
  for (const i of order) {
    made.push({ name: ledgers.lines[i], bytes: moment.parts[i], from, color: inkColor(ledgers.inks[i]) });
    from += moment.parts[i];
  }
  made.push({ name: "residual", bytes: moment.residual, from, color: color("limit") });
  made.push({ name: "RSS", bytes: moment.rss, from: 0, color: color("faint") });
  return made;
}

export function waterfall(figure: HTMLElement, model: Model): void {
  const ledgers = model.ledgers;
  if (!ledgers || ledgers.moments.length === 0) return;
  const canvas = element("canvas", { role: "img" });
  const caption = element("figcaption", {});
  figure.replaceChildren(caption, canvas);
  const draw = () => {
    const moment = chosen(ledgers);
    const all = rows(ledgers, moment);
    const width = figure.clientWidth;
    const names = Math.min(230, width * 0.35);
    const context = sharpen(canvas, width, all.length * ROW + 6);
    const whole = Math.max(...all.map((row) => row.from + Math.max(0, row.bytes)), 1);
    const room = Math.max(20, width - names - VALUES);
    context.font = "12px system-ui, sans-serif";
    all.forEach((row, i) => {
      const y = i * ROW;
      const left = names + (Math.min(row.from, row.from + row.bytes) / whole) * room;
      const size = Math.max(1, (Math.abs(row.bytes) / whole) * room);
      context.fillStyle = row.color;
      context.fillRect(left, y + 3, size, ROW - 6);
      context.fillStyle = color("text");
      context.textAlign = "right";
      context.fillText(row.name, names - 8, y + 15, names - 10);
      context.textAlign = "left";
      context.fillStyle = color("faint");
      context.fillText(`${bytes(row.bytes)}  ${percent(row.bytes / Math.max(1, moment.rss))}`, left + size + 6, y + 15);
    });
    const words = `process ${moment.pid} at ${duration(moment.at)}: ${bytes(moment.rss)} resident`;
    caption.textContent = words;
    canvas.setAttribute("aria-label", `${words}: ${all.map((row) => `${row.name} ${bytes(row.bytes)}`).join(", ")}`);
  };
  onChange((_, changed) => {
    if (changed.has("from") || changed.has("to") || changed.has("theme")) draw();
  });
  window.addEventListener("resize", draw);
  draw();
}
