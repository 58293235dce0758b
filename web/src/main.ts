// Makes the page answer: without this script it is readable, with it every view follows what is chosen.
import { element, hideTip } from "./dom";
import { bytes } from "./format";
import { courses } from "./courses";
import { growth } from "./growth";
import { Heatmap } from "./heatmap";
import { Icicle } from "./icicle";
import { rowMap } from "./rowmap";
import { stackView } from "./stackview";
import { change, onChange, read, state } from "./state";
import { tide } from "./tide";
import { unpack } from "./model";
import { waterfall } from "./waterfall";
import * as stacks from "./stacks";
import type { Model } from "./model";

const THEMES = ["", "light", "dark"];

function applyTheme(): void {
  if (state.theme === "light" || state.theme === "dark") document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
}

/** System's own, light, dark. */
function themeButton(): HTMLElement {
  const button = element("button", { type: "button", class: "theme" });
  const label = () => (button.textContent = `theme: ${state.theme || "system"}`);
  button.addEventListener("click", () => change({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] }));
  onChange(label);
  label();
  return button;
}

function goTo(view: string): void {
  const section = document.getElementById(view);
  if (!section) return;
  section.scrollIntoView();
  section.focus({ preventScroll: true });
  change({ view });
}

/** Digits go to the views in their order, t changes the theme, / searches, Esc lets go. */
function keys(event: KeyboardEvent, views: string[]): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "Escape") {
    hideTip();
    change({ from: null, to: null, search: "" });
    if (isTyping) (event.target as HTMLElement).blur();
  } else if (isTyping) return;
  else if (/^[0-9]$/.test(event.key)) goTo(views[Number(event.key)] ?? "");
  else if (event.key === "t") change({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] });
  else if (event.key === "/") {
    const search = document.querySelector<HTMLInputElement>("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  }
}

/** The curve for spreadsheets. */
function csv(model: Model): string {
  const lines = ["seconds,tree_low_bytes,tree_high_bytes"];
  let place = 0;
  model.high.at.forEach((at, i) => {
    while (place + 1 < model.low.at.length && model.low.at[place + 1] <= at) place += 1;
    lines.push(`${at.toFixed(3)},${model.low.value[place] ?? ""},${model.high.value[i]}`);
  });
  return `${lines.join("\n")}\n`;
}

function download(model: Model): void {
  const place = document.getElementById("download");
  if (!place || model.high.at.length === 0) return;
  const button = element("button", { type: "button" }, "download the curve as CSV");
  button.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([csv(model)], { type: "text/csv" }));
    element("a", { href: address, download: "run.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
  place.replaceChildren(button);
}

/** One view that cannot be drawn must not take the others with it: its static picture stays. */
function enhance(id: string, draw: (figure: HTMLElement) => void): void {
  const figure = document.getElementById(id);
  if (!figure) return;
  const before = [...figure.childNodes];
  try {
    draw(figure);
  } catch (problem) {
    figure.replaceChildren(...before);
    console.error(problem);
  }
}

function start(): void {
  const data = document.getElementById("data");
  if (!data) return;
  document.documentElement.classList.add("alive");
  Object.assign(state, read(location.hash));
  applyTheme();
  onChange((_, changed) => {
    if (changed.has("theme")) applyTheme();
  });
  const model = unpack(data.textContent ?? "");
  enhance("chart-run", (figure) => tide(figure, model));
  enhance("chart-where", (figure) => waterfall(figure, model));
  enhance("chart-leak", (figure) => growth(figure, model));
  enhance("chart-allocs", (figure) => model.allocs && stackView(figure, model.allocs));
  enhance("chart-pages", (figure) => model.pages && rowMap(figure, model.pages, "addresses down, time to the right; drag zooms, double click shows all"));
  enhance("chart-ranks", (figure) => model.ranks && rowMap(figure, model.ranks, `ranks down, time since each one's start to the right, strongest is ${bytes(model.ranks.full)}; drag zooms, double click shows all`));
  enhance("chart-compare", (figure) => model.compare && courses(figure, model.compare));
  download(model);
  const views = ["verdict", ...Array.from(document.querySelectorAll("section.view"), (view) => view.id)];
  document.querySelector("header.top nav")?.append(themeButton());
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href^='#']") : null;
    if (!link) return;
    event.preventDefault();
    goTo(link.hash.slice(1));
  });
  document.addEventListener("keydown", (event) => keys(event, views));
  window.addEventListener("hashchange", () => change(read(location.hash)));
  if (state.view !== "") document.getElementById(state.view)?.scrollIntoView();
}

// For tests and benchmarks of the parts with made-up data.
Object.assign(window, { nilo: { Heatmap, Icicle, stacks } });
start();
