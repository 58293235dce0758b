// The allocs view: an icicle of callers, its inversion, tables by function, line, library, owner and type, and the sandwich of one.
import { bytes, percent } from "./format";
import { choice, element } from "./dom";
import { change, onChange, state } from "./state";
import { Icicle, nameOf } from "./icicle";
import { inverted, matching, outermost, owners, rows, sandwich } from "./stacks";
import { shown as figureShown } from "./stretch";
import type { Allocs, Frame } from "./model";
import type { Row, Tree } from "./stacks";

const FIGURES: [string, string][] = [["0", "at the peak"], ["1", "at the end"], ["2", "ever"], ["3", "temporary"], ["4", "growth per step"]];
const IN_STRETCH: [string, string][] = [["0", "highest in the stretch"], ["1", "at its end"], ["2", "ever"], ["3", "temporary"], ["4", "growth in it"]];
/** Trees that are kept: a figure each, and some stretches. */
const MOST_TREES = 8;
const SHAPES: [string, string][] = [
  ["callers", "callers first"], ["inverted", "what allocates first"], ["function", "by function"], ["line", "by line"], ["library", "by library"],
  ["owner", "by owner"], ["type", "by type"],
];
const UNTOLD = "stacks that were not kept";
const MOST_ROWS = 200;
/** A row that stands for no function. */
const NO_FRAME = -1;

function keyOf(shape: string): (frame: Frame) => string {
  if (shape === "library") return (frame) => frame.library || "(no library)";
  if (shape === "function") return (frame) => frame.name;
  return nameOf;
}

export function stackView(figure: HTMLElement, allocs: Allocs): void {
  const bar = element("div", { class: "bar" });
  const place = element("div", { class: "plot" });
  const words = element("p", { class: "selection", "aria-live": "polite" });
  const stretch = element("p", { class: "stretch", "aria-live": "polite" });
  const beside = element("div", {});
  const search = element("input", { type: "search", placeholder: "search functions, files, libraries", "aria-label": "search" });
  search.value = state.search;
  search.addEventListener("input", () => change({ search: search.value }));
  figure.replaceChildren(bar, stretch, place, words, beside);
  const trees = new Map<string, Tree>();
  const chosen = () => figureShown(allocs, state.figure, state.from, state.to);
  const tree = (): Tree => {
    const { key, tree: make } = chosen();
    if (!trees.has(key)) {
      if (trees.size >= MOST_TREES) trees.delete(trees.keys().next().value!);
      trees.set(key, make());
    }
    return trees.get(key)!;
  };
  let drawn = "";
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

  const tableRows = (): Row[] => {
    if (state.shape === "owner") return owners(tree(), nameOf, MOST_ROWS);
    if (state.shape !== "type") return rows(tree(), keyOf(state.shape), MOST_ROWS);
    const named = [...chosen().types()].map((own, i) => ({ name: allocs.typeNames[i] ?? UNTOLD, own, total: own, frame: NO_FRAME }));
    return named.filter((row) => row.own > 0).sort((a, b) => b.own - a.own);
  };

  const drawTable = () => {
    icicle = null;
    const whole = Math.max(1, tree().total[0]);
    const matches = matching(allocs.frames, state.search);
    const listed = tableRows().filter((row) => !matches || row.frame === NO_FRAME || matches[row.frame] === 1);
    const line = (row: Row) => {
      const button = element("button", { type: "button", class: "link" }, row.name);
      button.addEventListener("click", () => showSandwich(row.frame));
      const meter = element("meter", { min: "0", max: "1", value: String(row.own / whole) });
      return element("tr", {}, element("td", { class: "n" }, bytes(row.own)), element("td", { class: "n" }, bytes(row.total)),
        element("td", {}, meter), element("td", {}, state.shape === "library" || row.frame === NO_FRAME ? row.name : button));
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

  const choices = () => {
    const figures = (state.from === null ? FIGURES : IN_STRETCH).filter(([number]) => number !== "4" || allocs.growth);
    bar.replaceChildren(
      choice("figure", figures, String(state.figure), (value) => change({ figure: Number(value) })),
      choice("shape", SHAPES, state.shape, (value) => change({ shape: value })),
      search,
    );
  };

  const draw = () => {
    const { key, words: told } = chosen();
    drawn = key;
    stretch.textContent = told;
    choices();
    if (state.shape === "callers" || state.shape === "inverted") drawIcicle();
    else drawTable();
  };
  onChange((_, changed) => {
    if (search.value !== state.search) search.value = state.search;
    const isMoved = changed.has("from") || changed.has("to");
    if (changed.has("figure") || changed.has("shape") || (isMoved && chosen().key !== drawn)) {
      beside.replaceChildren();
      return draw();
    }
    if (isMoved) {
      stretch.textContent = chosen().words;
      choices();
    }
    if (changed.has("search") && !icicle) drawTable();
    else if (changed.has("search")) tellSearch();
    if (changed.has("search") || changed.has("theme")) icicle?.draw();
  });
  window.addEventListener("resize", () => icicle?.draw());
  draw();
}
