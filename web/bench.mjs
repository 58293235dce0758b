// How fast the page and its parts answer: node bench.mjs PAGE.html; one JSON document on standard output.
import { launch, open } from "./test/browser.mjs";
import { statSync } from "node:fs";
import { resolve } from "node:path";

const ROUNDS = 5;
const file = resolve(process.argv[2]);
const browser = await launch();
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function opening() {
  const start = performance.now();
  const { page, told, context } = await open(browser, file);
  // Drawn means: the browser has painted after the script.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))));
  const took = performance.now() - start;
  const problems = [...told.console, ...told.requests];
  if (problems.length > 0) throw new Error(problems.join("\n"));
  await context.close();
  return took;
}

/** In the page: a million nodes in a tree as deep as real ones, and what a reader does with it. Of `functions`, the first are most. */
function icicle({ functions, skew }) {
  const n = 1_000_000;
  const parent = new Uint32Array(n);
  const frame = new Uint32Array(n);
  const ends = [];
  const own = [];
  let x = 1;
  // The low bits of this generator repeat soon.
  const next = (below) => ((x = (Math.imul(x, 1103515245) + 12345) >>> 0) >>> 8) % below;
  const path = [0];
  for (let i = 1; i < n; i++) {
    // Preorder: go deeper, or back to one of those above.
    const depth = path.length > 40 ? 5 : Math.max(1, path.length - Math.max(0, next(4) - 1));
    path.length = depth;
    parent[i] = path[depth - 1];
    frame[i] = Math.min(functions - 1, Math.floor(functions * (next(65536) / 65536) ** skew));
    path.push(i);
    ends.push(i);
    own.push(1 + next(1000));
  }
  const frames = Array.from({ length: functions }, (_, i) => ({ name: `function${i}`, file: `/a/module${i % 300}.py`, line: i, library: `package${i % 40}`, kind: i % 2 }));
  const allocs = { frames, parent, frame, ends: Uint32Array.from(ends), own: [Float64Array.from(own)], growth: false };
  const { Icicle, stacks } = window.nilo;
  const took = {};
  const time = (name, act) => {
    const start = performance.now();
    const made = act();
    took[name] = performance.now() - start;
    return made;
  };
  const tree = time("build", () => stacks.callers(allocs, 0));
  const view = time("first draw", () => {
    const made = new Icicle(tree, () => 1200);
    document.body.append(made.canvas);
    made.draw();
    return made;
  });
  time("zoom", () => view.zoom(tree.end[1] < n ? 1 : 2));
  time("back", () => view.zoom(0));
  time("search", () => {
    const matches = stacks.matching(frames, "function77");
    view.setMatches(matches);
    stacks.outermost(tree, (one) => matches[one] === 1);
    view.draw();
  });
  time("by function", () => stacks.rows(tree, (one) => one.name, 200));
  time("sandwich", () => stacks.sandwich(tree, 7));
  const turned = time("invert", () => stacks.inverted(tree));
  time("draw inverted", () => {
    view.setTree(turned);
    view.draw();
  });
  return took;
}

/** In the page: 4.2 million cells. */
function heatmap() {
  const [columns, rows] = [2048, 2048];
  const cells = new Uint8Array(columns * rows);
  for (let i = 0; i < cells.length; i++) cells[i] = (i * 2654435761) >>> 24;
  const took = {};
  const time = (name, act) => {
    const start = performance.now();
    const made = act();
    took[name] = performance.now() - start;
    return made;
  };
  const { Heatmap } = window.nilo;
  const view = time("paint", () => new Heatmap({ columns, rows, cells, words: () => [] }, () => 1200, 600));
  document.body.append(view.canvas);
  time("draw", () => view.draw());
  time("zoom", () => view.show({ x: 500, y: 500, width: 100, height: 100 }));
  return took;
}

async function rounds(part, argument) {
  const all = [];
  for (let round = 0; round < ROUNDS; round++) {
    const { page, context } = await open(browser, file);
    all.push(await page.evaluate(part, argument));
    await context.close();
  }
  return Object.fromEntries(Object.keys(all[0]).map((name) => [name, median(all.map((one) => one[name]))]));
}

const openings = [];
for (let round = 0; round < ROUNDS; round++) openings.push(await opening());
const result = {
  page_bytes: statSync(file).size,
  open_ms: median(openings),
  icicle_ms: await rounds(icicle, { functions: 8000, skew: 1 }),
  skewed_ms: await rounds(icicle, { functions: 2000, skew: 4 }),
  heatmap_ms: await rounds(heatmap),
};
await browser.close();
console.log(JSON.stringify(result));
