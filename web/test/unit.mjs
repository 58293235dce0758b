// The parts without a browser: stacks against a slow and obvious way, numbers as the terminal writes them, links.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = await mkdtemp(join(tmpdir(), "nilo-web-"));
async function load(name) {
  const outfile = join(folder, `${name}.mjs`);
  await build({ entryPoints: [`src/${name}.ts`], outfile, bundle: true, format: "esm", logLevel: "error" });
  return import(pathToFileURL(outfile).href);
}
const stacks = await load("stacks");
const format = await load("format");
const state = await load("state");
const model = await load("model");
const { shown } = await load("stretch");
process.on("exit", () => rmSync(folder, { recursive: true, force: true })); // nothing is waited for there

/** Random stacks of a few functions, recursion included. */
function random(seed, count) {
  let x = seed;
  const next = (below) => (x = (x * 1103515245 + 12345) % 2147483648) % below;
  return Array.from({ length: count }, () => ({
    stack: Array.from({ length: 1 + next(6) }, () => next(5)),
    bytes: 500 + next(500), // none below what inversion leaves out
  }));
}

/** As the page carries it: preorder with the ends' own bytes. */
function allocs(sites) {
  const root = { frame: -1, own: 0, children: new Map() };
  for (const { stack, bytes } of sites) {
    let at = root;
    for (const frame of stack) {
      if (!at.children.has(frame)) at.children.set(frame, { frame, own: 0, children: new Map() });
      at = at.children.get(frame);
    }
    at.own += bytes;
  }
  const [parent, frame, ends, own] = [[], [], [], []];
  const walk = (node, above) => {
    const number = parent.length;
    parent.push(above);
    frame.push(Math.max(0, node.frame));
    if (node.own > 0) {
      ends.push(number);
      own.push(node.own);
    }
    for (const child of node.children.values()) walk(child, number);
  };
  walk(root, 0);
  const frames = Array.from({ length: 5 }, (_, i) => ({ name: `f${i}`, file: `/a/b/m${i % 2}.py`, line: i, library: `l${i % 2}`, kind: 0 }));
  const types = Uint8Array.from(ends, (_, i) => i % 2);
  const columns = { parent: Uint32Array.from(parent), frame: Uint32Array.from(frame), ends: Uint32Array.from(ends), types };
  return { frames, ...columns, typeNames: ["malloc", "mappings"], own: [Float64Array.from(own)], growth: false };
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

/** All paths of a tree with their totals. */
function paths(tree) {
  const found = new Map();
  for (let i = 1; i < tree.parent.length; i++) {
    const path = [];
    for (let at = i; at !== 0; at = tree.parent[at]) path.unshift(tree.frame[at]);
    found.set(path.join(","), tree.total[i]);
  }
  return found;
}

/** The same by adding up every prefix of every path. */
function expected(sites, path) {
  const found = new Map();
  for (const site of sites) {
    for (const words of path(site.stack)) {
      for (let length = 1; length <= words.length; length++) {
        const key = words.slice(0, length).join(",");
        found.set(key, (found.get(key) ?? 0) + site.bytes);
      }
    }
  }
  return found;
}

test("callers and inversion hold every byte of random stacks", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const sites = random(seed, 60);
    const tree = stacks.callers(allocs(sites), 0);
    assert.equal(tree.total[0], sum(sites.map((site) => site.bytes)));
    assert.deepEqual(paths(tree), new Map([...paths(tree).keys()].map((key) => [key, expected(sites, (s) => [s]).get(key)])));
    const turned = paths(stacks.inverted(tree));
    const truth = expected(sites, (stack) => [[...stack].reverse()]);
    assert.equal(turned.size, truth.size);
    for (const [key, value] of truth) assert.equal(turned.get(key), value, `${seed}: ${key}`);
  }
});

test("what is too small for a pixel is left out, and what is not keeps every byte", () => {
  const few = random(3, 50).map((site) => ({ ...site, bytes: site.bytes * 1000 }));
  const dust = random(4, 500).map((site) => ({ ...site, bytes: 1 }));
  const sites = [...few, ...dust];
  const tree = stacks.callers(allocs(sites), 0);
  const truth = expected(sites, (stack) => [[...stack].reverse()]);
  const turned = paths(stacks.inverted(tree));
  const least = sum(sites.map((site) => site.bytes)) / 8000;
  const large = [...truth].filter(([, value]) => value >= least);
  assert.ok(large.length < truth.size && large.length > 50);
  assert.deepEqual(new Map([...turned].sort()), new Map(large.sort()));
});

/** Two stacks over three steps, a third part of the bytes without a stack. */
function overTime() {
  const made = allocs([{ stack: [0, 1], bytes: 100 }, { stack: [0, 2], bytes: 50 }]);
  const [rest, frame] = [made.parent.length, made.frames.length];
  const frames = [...made.frames, { name: "not kept", file: "", line: 0, library: "", kind: 2 }];
  const moments = {
    peakAt: 9, stride: 1, step: Float64Array.of(4, 5, 6), at: [1, 2, 3], live: Float64Array.of(60, 95, 80),
    curve: { at: Float64Array.of(1, 2.5, 9, 10), value: Float64Array.of(60, 120, 150, 40) },
    nodes: made.ends, types: made.types, bytes: [Float64Array.of(10, 40, 20), Float64Array.of(30, 30, 50)], rest,
  };
  const own = [made.own[0], Float64Array.of(7, 0), Float64Array.of(900, 900), Float64Array.of(1, 1), Float64Array.of(2, 3)];
  return { ...made, frames, parent: Uint32Array.of(...made.parent, 0), frame: Uint32Array.of(...made.frame, frame), own, growth: true, moments };
}

test("a stretch of time shows the stacks of its highest step, and what has no stack is told apart", () => {
  const made = overTime();
  const found = shown(made, 0, 1.5, 3.5);
  assert.match(found.words, /^95 B live as step 5 \(2\.00 s\) began, the highest of 2 kept steps in the chosen stretch\. Between steps it rose to 120 B/);
  assert.deepEqual(paths(found.tree()), new Map([["0", 70], ["0,1", 40], ["0,2", 30], ["5", 25]]));
  assert.equal(found.tree().total[0], 95);
  assert.deepEqual([...found.types()], [40, 30, 25]);
  const end = shown(made, 1, 0, 3.5);
  assert.match(end.words, /^80 B live as step 6/);
  assert.equal(end.tree().total[0], 80);
  const growth = shown(made, 4, 0, 3.5);
  assert.match(growth.words, /^\+10 B\/step from step 4 \(1\.00 s\) to step 6/);
  assert.deepEqual(paths(growth.tree()), new Map([["0", 15], ["0,1", 5], ["0,2", 10], ["5", 0]]));
});

test("where a stretch cannot be told it is said, and the whole run stays", () => {
  const made = overTime();
  assert.deepEqual([shown(made, 0, null, null).words, shown(made, 0, null, null).tree().total[0]], ["", 150]);
  assert.match(shown(made, 0, 8, 9.5).words, /^The peak, at 9\.00 s, lies in the chosen stretch/);
  const between = shown(made, 0, 4, 5);
  assert.match(between.words, /^Cannot tell the stacks of the chosen stretch: .*the nearest is step 6 \(3\.00 s\)\. These are those of the peak, at 9\.00 s/);
  assert.equal(between.tree().total[0], 150);
  assert.match(shown(made, 4, 1.5, 2.5).words, /^Cannot tell the growth/);
  assert.match(shown(made, 1, 8, 10).words, /reaches to the end of the run/);
  assert.match(shown(made, 2, 1, 3).words, /of the whole run/);
  const unmarked = { ...made, moments: { ...made.moments, at: [], step: new Float64Array(0), live: new Float64Array(0) } };
  assert.match(shown(unmarked, 0, 1, 3).words, /none was marked \(nilo run --steps/);
});

test("a sandwich counts a recursion once", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const sites = random(seed, 60);
    const tree = stacks.callers(allocs(sites), 0);
    const { callers, callees } = stacks.sandwich(tree, 2);
    const within = sites.filter((site) => site.stack.includes(2));
    const whole = sum(within.map((site) => site.bytes));
    assert.equal(callers.total[0], whole);
    assert.equal(callees.total[0], whole);
    const up = expected(within, (stack) => [stack.slice(0, stack.indexOf(2) + 1).reverse()]);
    assert.deepEqual(new Map([...paths(callers)].sort()), new Map([...up].sort()));
    const down = expected(within, (stack) => [stack.slice(stack.indexOf(2))]);
    assert.deepEqual(new Map([...paths(callees)].sort()), new Map([...down].sort()));
  }
});

test("rows by library add up, and a recursion counts once", () => {
  const sites = random(7, 80);
  const tree = stacks.callers(allocs(sites), 0);
  const rows = stacks.rows(tree, (frame) => frame.library, 10);
  assert.equal(sum(rows.map((row) => row.own)), tree.total[0]);
  for (const row of rows) {
    const number = Number(row.name.slice(1));
    const truth = sum(sites.filter((site) => site.stack.some((frame) => frame % 2 === number)).map((site) => site.bytes));
    assert.equal(row.total, truth);
  }
});

test("an owner is the innermost line of one's own code, and types add up", () => {
  const sites = random(9, 80);
  const made = allocs(sites);
  const frames = made.frames.map((frame, i) => (i % 2 ? frame : { ...frame, library: frame.file.split("/").pop() }));
  const tree = stacks.callers({ ...made, frames }, 0);
  const owned = (stack) => stack.findLast((frame) => frame % 2 === 0);
  const truth = new Map();
  for (const { stack, bytes } of sites) {
    const owner = owned(stack);
    const name = owner === undefined ? "no code of its own: l1" : `f${owner}`;
    truth.set(name, (truth.get(name) ?? 0) + bytes);
  }
  const rows = stacks.owners(tree, (frame) => frame.name, 10);
  assert.deepEqual(new Map(rows.map((row) => [row.name, row.own])), new Map([...truth].sort((a, b) => b[1] - a[1])));
  assert.equal(sum([...shown(made, 0, null, null).types()]), sum(sites.map((site) => site.bytes)));
});

test("a search finds functions, files and libraries", () => {
  const { frames } = allocs([]);
  assert.deepEqual([...stacks.matching(frames, "M1.py")], [0, 1, 0, 1, 0]);
  assert.equal(stacks.matching(frames, "  "), null);
});

test("numbers are written as the terminal writes them", () => {
  const { bytes, duration, count, percent, signed, byteTicks } = format;
  assert.deepEqual([0, 1023, 1024, 999.4 * 1024, 999.5 * 1024, 131 * 2 ** 20].map(bytes), ["0 B", "1023 B", "1.00 KiB", "999 KiB", "0.98 MiB", "131 MiB"]);
  assert.deepEqual([0.0123, 4.21, 17.14, 192, 7500, 273600].map(duration), ["12 ms", "4.21 s", "17.1 s", "3 m 12 s", "2 h 05 m", "3 d 04 h"]);
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([percent(0.012), percent(0.5), percent(0)], ["1.2 %", "50 %", "0 %"]);
  assert.equal(signed(-2048), "-2.00 KiB");
  assert.deepEqual(byteTicks(300 * 2 ** 20).map(bytes), ["0 B", "64.0 MiB", "128 MiB", "192 MiB", "256 MiB"]);
});

test("a link holds what was chosen, and a broken one does no harm", () => {
  const chosen = { view: "allocs", from: 1.5, to: 9, mode: "parts", by: "time", figure: 1, shape: "inverted", search: "a&b=c#", theme: "dark" };
  assert.deepEqual(state.read(`#${state.write(chosen)}`), chosen);
  for (const broken of ["", "#", "#run&t=x", "#run&t=1", "#run&f=9&q=%E0%A4%A&=&&", "#<script>"]) {
    const read = state.read(broken);
    assert.equal(read.figure, 0);
    assert.equal(read.from, null);
  }
});

test("series come back from their differences", () => {
  const series = model.series({ start: -1, width: 0.5, at: [0, 2, 1], kib: [4, -2, 1] });
  assert.deepEqual([...series.at], [-1, 0, 0.5]);
  assert.deepEqual([...series.value], [4096, 2048, 3072]);
});
