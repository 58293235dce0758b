// The allocs view: an icicle of callers, its inversion, tables by function, line and library, and the sandwich of one.
import { bytes, percent } from "./format";
import { choice, element } from "./dom";
import { change, onChange, state } from "./state";
import { Icicle, nameOf } from "./icicle";
import { callers, inverted, matching, outermost, rows, sandwich } from "./stacks";
import type { Allocs, Frame } from "./model";
import type { Tree } from "./stacks";

const FIGURES: [string, string][] = [["0", "at the peak"], ["1", "at the end"], ["2", "ever"], ["3", "temporary"], ["4", "growth per step"]];
const SHAPES: [string, string][] = [
  ["callers", "callers first"], ["inverted", "what allocates first"], ["function", "by function"], ["line", "by line"], ["library", "by library"],
];
const MOST_ROWS = 200;

function keyOf(shape: string): (frame: Frame) => string {
  if (shape === "library") return (frame) => frame.library || "(no library)";
  if (shape === "function") return (frame) => frame.name;
  return nameOf;
}

export function stackView(figure: HTMLElement, allocs: Allocs): void {
  const bar = element("div", { class: "bar" });
  const place = element("div", { class: "plot" });
  const words = element("p", { class: "selection", "aria-live": "polite" });
  const beside = element("div", {});
  const search = element("input", { type: "search", placeholder: "search functions, files, libraries", "aria-label": "search" });
  search.value = state.search;
  search.addEventListener("input", () => change({ search: search.value }));
  figure.replaceChildren(bar, place, words, beside);
  const trees = new Map<number, Tree>();
  const tree = (): Tree => {
    const figure = state.figure;
    if (!trees.has(figure)) trees.set(figure, callers(allocs, figure));
    return trees.get(figure)!;
  };
  const width = () => place.clientWidth;
  let icicle: Icicle | null = null;
  let shown: Tree | null = null;

  const tellSearch = () => {
    const matches = matching(allocs.frames, state.search);
    icicle?.setMatches(matches);
    if (!matches) return void (words.textContent = "");
    const found = outermost(tree(), (frame) => matches[frame] === 1);
    const sum = found.weight.reduce((a, b) => a + b, 0);
    words.textContent = `"${state.search}": ${bytes(sum)}, ${percent(sum / Math.max(1, tree().total[0]))} of ${bytes(tree().total[0])}`;
  };

  const showSandwich = (frame: number) => {
    const { callers: up, callees: down } = sandwich(tree(), frame);
    const part = (title: string, one: Tree) => {
      const made = new Icicle(one, width);
      made.draw();
      return [element("h3", {}, title), made.canvas];
    };
    const name = nameOf(allocs.frames[frame]);
    beside.replaceChildren(...part(`what calls ${name}`, up), ...part(`what ${name} calls`, down));
  };

  const drawTable = () => {
    icicle = null;
    const whole = Math.max(1, tree().total[0]);
    const matches = matching(allocs.frames, state.search);
    const listed = rows(tree(), keyOf(state.shape), MOST_ROWS).filter((row) => !matches || matches[row.frame] === 1);
    const line = (row: (typeof listed)[number]) => {
      const button = element("button", { type: "button", class: "link" }, row.name);
      button.addEventListener("click", () => showSandwich(row.frame));
      const meter = element("meter", { min: "0", max: "1", value: String(row.own / whole) });
      return element("tr", {}, element("td", { class: "n" }, bytes(row.own)), element("td", { class: "n" }, bytes(row.total)),
        element("td", {}, meter), element("td", {}, state.shape === "library" ? row.name : button));
    };
    const head = element("tr", {}, ...["own", "with callees", "share", "who"].map((name) => element("th", {}, name)));
    place.replaceChildren(element("div", { class: "scroll tall" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...listed.map(line)))));
  };

  const drawIcicle = () => {
    shown = state.shape === "inverted" ? inverted(tree()) : tree();
    const pick = (node: number) => {
      if (node > 0 && shown) showSandwich(shown.frame[node]);
      else beside.replaceChildren();
    };
    icicle = new Icicle(shown, width, { pick, tell: (text) => (words.textContent = text) });
    place.replaceChildren(icicle.canvas);
    tellSearch();
    icicle.draw();
  };

  const draw = () => {
    const figures = FIGURES.filter(([number]) => number !== "4" || allocs.growth);
    bar.replaceChildren(
      choice("figure", figures, String(state.figure), (value) => change({ figure: Number(value) })),
      choice("shape", SHAPES, state.shape, (value) => change({ shape: value })),
      search,
    );
    if (state.shape === "callers" || state.shape === "inverted") drawIcicle();
    else drawTable();
  };
  onChange((_, changed) => {
    if (changed.has("figure") || changed.has("shape")) {
      beside.replaceChildren();
      draw();
    } else if (changed.has("search")) {
      if (search.value !== state.search) search.value = state.search;
      if (icicle) {
        tellSearch();
        icicle.draw();
      } else drawTable();
    } else if (changed.has("theme")) icicle?.draw();
  });
  window.addEventListener("resize", () => icicle?.draw());
  draw();
}
