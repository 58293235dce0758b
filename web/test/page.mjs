// The page of real runs in a real browser. NILO names the binary; screenshots go to NILO_SCREENS.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { launch, open } from "./browser.mjs";

const exec = promisify(execFile);
const nilo = resolve(process.env.NILO ?? "../target/debug/nilo");
const root = resolve("..");
const envs = join(process.env.NILO_TEST_CACHE ?? join(homedir(), ".cache/nilometer"), "envs");
const torch = join(envs, "torch-2.15/bin/python");
const numpy = [join(envs, "3.11.7-numpy/bin/python"), torch].find(existsSync);
const screens = resolve(process.env.NILO_SCREENS ?? "../target/nilo-screens");

let folder, browser;
const made = {};

async function run(...words) {
  return exec(nilo, words, { cwd: folder, maxBuffer: 1 << 26, env: { ...process.env, NO_COLOR: "1" } });
}

/** Records a command and writes its page; the verdict is what the terminal said. */
async function record(name, options, command) {
  const { stderr } = await run("run", "-o", `${name}.nilo`, ...options, "--", ...command);
  await run("report", `${name}.nilo`, "--html", "-o", `${name}.html`);
  made[name] = { file: join(folder, `${name}.html`), verdict: stderr };
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "nilo-page-"));
  await mkdir(screens, { recursive: true });
  browser = await launch();
  await record("leak", ["--allocs", "--heap=2s"], ["python3", join(root, "examples/tree_lstm.py"), "--leak", "--steps", "24"]);
  await record("hostile", ["--allocs=all", "--interval", "20ms"], ["python3", join(root, "web/test/programs/hostile.py"), folder]);
  if (existsSync(torch)) await record("cnn", ["--allocs"], [torch, join(root, "web/test/programs/cnn.py")]);
});

after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

const text = (page, selector) => page.locator(selector).innerText();
const flat = (words) => words.replace(/\s+/g, "");

/** Opens, does something, and insists that the page stayed silent. */
async function visit(name, options, act) {
  const { page, told, context } = await open(browser, made[name]?.file ?? name, options);
  await act(page);
  assert.deepEqual(told, { console: [], requests: [] });
  await context.close();
}

/** The same, and what was found. */
async function visitFor(name, options, act) {
  let found;
  await visit(name, options, async (page) => (found = await act(page)));
  return found;
}

test("three widths and both themes are silent, fit, and are kept as pictures", async () => {
  for (const name of ["leak", "cnn"].filter((name) => made[name])) {
    for (const width of [390, 820, 1280]) {
      for (const dark of [false, true]) {
        await visit(name, { width, dark }, async (page) => {
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(overflow <= 0, `${name} at ${width}: ${overflow} px too wide`);
          const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
          assert.equal(ground, dark ? "rgb(20, 24, 29)" : "rgb(255, 255, 255)");
          await page.screenshot({ path: join(screens, `${name}-${width}-${dark ? "dark" : "light"}.png`), fullPage: true });
        });
      }
    }
  }
});

test("the first screen answers five questions, in the terminal's words", async () => {
  await visit("leak", { width: 1280, height: 800 }, async (page) => {
    const bottom = await page.locator("#verdict").evaluate((strip) => strip.getBoundingClientRect().bottom);
    assert.ok(bottom < 800, `the verdict ends at ${bottom}`);
    const strip = await text(page, "#verdict");
    assert.match(strip, /PEAK\s+[\d.]+ MiB\s+at [\d.]+ s/i);
    assert.match(strip, /LIMIT[^]*headroom [\d.]+ GiB/i);
    assert.match(strip, /MADE OF/i);
    assert.match(strip, /LEAK\s+grows\s*: \+[\d.]+ MiB\/step \(95 %: [\d.]+ to [\d.]+\)/i);
    assert.match(strip, /NEXT\s+nilo /i);
    const peak = /peak +(.*)/.exec(made.leak.verdict)[1];
    assert.ok(flat(strip).includes(flat(peak)), `${peak} in ${strip}`);
  });
});

test("the leak's rate and the icicle's total are the run's own", async () => {
  const { stdout } = await run("report", "leak.nilo", "--allocs", "--json");
  const allocs = JSON.parse(stdout);
  await visit("leak", {}, async (page) => {
    const total = await page.evaluate(() => {
      const raw = JSON.parse(document.getElementById("data").textContent);
      return raw.allocs.own.slice(0, 3).map((column) => column.reduce((a, b) => a + b, 0));
    });
    const near = (found, truth) => assert.ok(Math.abs(found - truth) <= 1e-6 * truth + 1, `${found} is not ${truth}`);
    const sites = (key) => allocs.sites.reduce((sum, site) => sum + site[key], allocs.rest[key]);
    near(total[0], sites("peak_bytes"));
    near(total[1], sites("live_end_bytes"));
    near(total[2], sites("cumulative_bytes"));
    const caption = await text(page, "#chart-leak figcaption");
    assert.match(caption, /^\+1\.[6-9]\d? MiB\/step/, caption);
  });
});

test("a stretch of time drives every view, and its link shows the same", async () => {
  const name = made.cnn ? "cnn" : "leak"; // torch is large enough for ledgers
  const told = (page) => Promise.all(["#selection", "#chart-leak figcaption", ...(made.cnn ? ["#chart-where figcaption"] : [])].map((one) => text(page, one)));
  let link, chosen;
  await visit(name, {}, async (page) => {
    const before = await told(page);
    const over = await page.locator("#chart-run .u-over").boundingBox();
    await page.mouse.move(over.x + over.width * 0.1, over.y + 50);
    await page.mouse.down();
    await page.mouse.move(over.x + over.width * 0.45, over.y + 60, { steps: 5 });
    await page.mouse.up();
    chosen = await told(page);
    assert.match(chosen[0], /^Chosen: .* highest [\d.]+ MiB/);
    assert.match(chosen[1], /in the chosen stretch/);
    chosen.slice(0, 2).forEach((words, i) => assert.notEqual(words, before[i])); // there may be one ledger only
    link = await page.evaluate(() => location.hash);
    assert.match(link, /t=[\d.]+\.\.[\d.]+/);
    await page.keyboard.press("Escape");
    assert.deepEqual(await told(page), before);
  });
  await visit(name, { fragment: link }, async (page) => assert.deepEqual(await told(page), chosen));
});

/** As the page and the terminal write sizes. */
function size(bytes) {
  const unit = bytes < 999.5 * 1024 ? ["KiB", 1024] : bytes < 999.5 * 2 ** 20 ? ["MiB", 2 ** 20] : ["GiB", 2 ** 30];
  const value = bytes / unit[1];
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit[0]}`;
}

test("a stretch of time shows the stacks that lived in it, and says where it cannot", async () => {
  const { stdout } = await run("report", "leak.nilo", "--allocs", "--json");
  const { step_numbers: numbers, by_category: categories } = JSON.parse(stdout);
  assert.ok(numbers.length > 8, "steps are kept");
  const raw = async (page) => page.evaluate(() => JSON.parse(document.getElementById("data").textContent).allocs.moments);
  const kept = await visitFor("leak", {}, raw);
  // Around the fifth kept step, without its neighbours.
  const [before, at, after] = [3, 4, 5].map((i) => kept.at[i]);
  const around = `#run&t=${((before + at) / 2).toFixed(3)}..${((at + after) / 2).toFixed(3)}`;
  await visit("leak", { fragment: around }, async (page) => {
    const told = await text(page, "#chart-allocs .stretch");
    assert.match(told, new RegExp(`live as step ${numbers[4]} \\([^)]*\\) began, the one kept step in the chosen stretch`));
    // The same sum by another way: what was live at that step, category by category.
    const live = categories.reduce((sum, one) => sum + (one.step_bytes[4] ?? 0), 0);
    assert.ok(told.startsWith(`${size(live)} live`), `${told}: ${size(live)}`);
    await page.locator("#chart-allocs input").fill("python");
    const found = await text(page, "#chart-allocs .selection");
    assert.ok(found.endsWith(` of ${size(live)}`), `${found}: ${size(live)}`);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#chart-allocs .stretch").innerText(), "");
    assert.ok(await page.locator("#chart-allocs button", { hasText: "at the peak" }).isVisible());
  });
  const nothing = `#run&t=${(at + 0.001).toFixed(3)}..${(at + 0.002).toFixed(3)}`;
  await visit("leak", { fragment: nothing }, async (page) => {
    const told = await text(page, "#chart-allocs .stretch");
    assert.match(told, new RegExp(`^Cannot tell the stacks of the chosen stretch: .*the nearest is step ${numbers[4]} .*These are those of the peak`));
  });
});

test("everything can be done by keys", async () => {
  await visit("leak", {}, async (page) => {
    const focused = () => page.evaluate(() => document.activeElement?.id || document.activeElement?.tagName);
    await page.keyboard.press("3");
    assert.equal(await focused(), "allocs");
    await page.keyboard.press("/");
    await page.keyboard.type("backward");
    assert.match(await text(page, "#chart-allocs .selection"), /"backward": [\d.]+ MiB, \d+/);
    await page.keyboard.press("Escape");
    await page.locator("#chart-allocs canvas").first().focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const told = await text(page, "#chart-allocs .selection");
    assert.match(told, /MiB, \d+ %$/);
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("#chart-allocs h3").count(), 2, "a sandwich below the zoomed function");
    await page.locator("#chart-run .plot").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "#selection"), /^Chosen/);
    await page.keyboard.press("t");
    await page.keyboard.press("t");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.keyboard.press("1");
    assert.equal(await focused(), "run");
  });
});

test("figures, shapes and tables of the stacks agree", async () => {
  await visit("leak", {}, async (page) => {
    const press = (name) => page.locator("#chart-allocs button", { hasText: name }).first().click();
    for (const shape of ["what allocates first", "by function", "by line", "by library", "by owner", "by type", "callers first"]) {
      await press(shape);
      if (!shape.startsWith("by")) continue;
      const rows = await page.locator("#chart-allocs tbody tr").count();
      assert.ok(rows > 0, shape);
    }
    await press("ever");
    await press("by function");
    await page.locator("#chart-allocs tbody button").first().click();
    assert.equal(await page.locator("#chart-allocs h3").count(), 2);
  });
});

test("without script it is readable, with pictures", async () => {
  await visit("leak", { script: false }, async (page) => {
    assert.ok((await page.locator("figure svg").count()) >= 4);
    assert.match(await text(page, "#verdict"), /PEAK[^]*LIMIT[^]*LEAK[^]*NEXT/i);
    assert.match(await text(page, "#leak .sentence"), /^GROWS \+1\.\d+ MiB\/step/);
    await page.screenshot({ path: join(screens, "leak-noscript.png"), fullPage: true });
  });
});

test("hostile names are text everywhere", async () => {
  await visit("hostile", {}, async (page) => {
    for (const summary of await page.locator("summary").all()) await summary.click();
    const body = await text(page, "body");
    assert.ok(body.includes("<img src=x onerror=alert(1)>"), "shown as it is");
    assert.equal(await page.locator("img, main script, main b b, iframe").count(), 0);
    await page.locator("#chart-allocs button", { hasText: "by function" }).click();
    assert.ok((await text(page, "#chart-allocs")).includes("<img src=x onerror=alert(1)>"));
    await page.locator("#chart-allocs button", { hasText: "callers first" }).click();
    const box = await page.locator("#chart-allocs canvas").first().boundingBox();
    await page.mouse.move(box.x + box.width / 4, box.y + 50);
  });
});

test("the curve can be downloaded, and is the curve", async () => {
  await visit("leak", {}, async (page) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#download button").click()]);
    const lines = (await readFile(await download.path(), "utf8")).trim().split("\n");
    assert.equal(lines[0], "seconds,tree_low_bytes,tree_high_bytes");
    const { stdout } = await run("report", "leak.nilo", "--json");
    const truth = JSON.parse(stdout).curve.tree_high.points;
    assert.equal(lines.length - 1, truth.length);
    const highest = Math.max(...lines.slice(1).map((line) => Number(line.split(",")[2])));
    assert.equal(highest, Math.max(...truth.map((point) => point.max)));
  });
});

test("on paper there are no controls", async () => {
  await visit("leak", {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("nav").isVisible(), false);
    assert.equal(await page.locator("#verdict").isVisible(), true);
    assert.equal(await page.locator("#chart-allocs .bar").isVisible(), false);
  });
});

test("a sweep and a comparison have their views", { skip: numpy ? false : "needs numpy" }, async () => {
  const attention = [numpy, join(root, "examples/attention.py"), "--steps", "3", "--batch", "{batch}"];
  await run("sweep", "-o", "sweep.d", "--set", "batch=4,8,16,32", "--", ...attention).catch((error) => assert.fail(error.stderr));
  await run("report", "sweep.d", "--html", "-o", "sweep.html", "--base", "leak.nilo");
  await visit(join(folder, "sweep.html"), {}, async (page) => {
    assert.match(await text(page, "#sweep .sentence"), /peak = /);
    assert.equal(await page.locator("#sweep tbody tr").count(), 4);
    assert.match(await text(page, "#compare .sentence"), /peak [\d.]+ MiB → [\d.]+ MiB/);
    await page.screenshot({ path: join(screens, "sweep.png"), fullPage: true });
  });
});

test("touched memory has its map", async (context) => {
  const command = ["python3", join(root, "examples/tree_lstm.py"), "--steps", "6"];
  const looked = await run("pages", "-q", "-o", "pages.d", "--window", "300ms", "--", ...command).catch((error) => error);
  if (looked.code === 5) return context.skip(`needs pages: ${looked.stderr}`);
  await run("report", "leak.nilo", "--html", "-o", "pages.html", "--pages", "pages.d");
  await visit(join(folder, "pages.html"), {}, async (page) => {
    assert.match(await text(page, "#pages .sentence"), /of [\d.]+ MiB resident \(\d+.* %\) are touched within 300 ms/);
    assert.equal(await page.locator("#chart-pages canvas").count(), 2);
    const { cells, rows, columns } = await mapOf(page, "pages");
    assert.ok(rows > 0 && columns > 0 && cells === rows * columns);
    const { stdout } = await run("pages", "pages.d", "--json");
    const { reuse, reuse_why_not: why } = JSON.parse(stdout);
    if (reuse) assert.match(await page.locator("#chart-misses svg title").textContent(), /would miss/);
    else assert.ok((await text(page, "#pages")).includes(`No curve of misses: ${why}`));
  });
});

const mapOf = (page, name) => page.evaluate((name) => {
  const raw = JSON.parse(document.getElementById("data").textContent)[name];
  return { cells: atob(raw.cells).length, rows: raw.names.length, columns: raw.times.length, names: raw.names };
}, name);

test("ranks have a strip each, and the one that needs most is the strongest", async () => {
  const command = (rank) => ["python3", join(root, "examples/tree_lstm.py"), "--steps", "6", ...(rank === 2 ? ["--leak"] : [])];
  const env = (rank) => ({ ...process.env, NO_COLOR: "1", NILO_RANK: String(rank), NILO_RUN: "job" });
  const start = (rank) => exec(nilo, ["run", "--", ...command(rank)], { cwd: folder, env: env(rank), maxBuffer: 1 << 26 });
  await Promise.all([0, 1, 2, 3].map(start));
  await run("report", "job.nilo", "--html", "-o", "job.html");
  await visit(join(folder, "job.html"), {}, async (page) => {
    const { cells, rows, columns, names } = await mapOf(page, "ranks");
    assert.deepEqual(names, ["rank 0", "rank 1", "rank 2", "rank 3"]);
    assert.equal(cells, rows * columns);
    assert.equal(await page.locator("#chart-ranks canvas").count(), 2);
    await page.locator("#chart-ranks").scrollIntoViewIfNeeded();
    const box = await page.locator("#chart-ranks canvas").last().boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.6); // at the very start a process has a few KiB
    const tip = await text(page, ".tip");
    const { stdout } = await run("report", "job.nilo", "--json");
    const peak = JSON.parse(stdout).ranks[2].peak_bytes;
    assert.match(tip, /^rank 2\n[\d.]+ MiB\n/);
    assert.ok(tip.includes(`peak ${size(peak)}`), `${tip}: ${size(peak)}`);
    await page.locator("#ranks").screenshot({ path: join(screens, "ranks.png") });
  });
});

test("two runs lie over each other, by step and by time, with what changed", async () => {
  await run("run", "-o", "flat.nilo", "--", "python3", join(root, "examples/tree_lstm.py"), "--steps", "24");
  await run("report", "flat.nilo", "--html", "-o", "flat.html", "--base", "leak.nilo");
  await visit(join(folder, "flat.html"), {}, async (page) => {
    const pressed = () => text(page, "#chart-compare button[aria-pressed=true]");
    assert.equal(await pressed(), "by step");
    assert.match(await text(page, "#chart-compare .u-legend"), /leak\.nilo \(dashed\)[^]*flat\.nilo/);
    await page.locator("#chart-compare button", { hasText: "by time" }).click();
    assert.equal(await pressed(), "by time");
    assert.match(await page.evaluate(() => location.hash), /by=time/);
    // The bars are the table's own differences.
    const bars = await page.locator("#chart-parts svg text").allTextContents();
    const rows = await page.locator("#compare tbody tr").allInnerTexts();
    const row = rows.find((words) => words.includes("made.anonymous"));
    const change = /[+-][\d.]+ [KMG]iB/.exec(row)[0];
    assert.ok(bars.includes("anonymous") && bars.includes(change), `${change} in ${bars}`);
    await page.locator("#compare").screenshot({ path: join(screens, "compare.png") });
  });
});

test("a redacted page keeps arguments and directories to itself", async () => {
  await run("report", "leak.nilo", "--html", "-o", "redacted.html", "--redact");
  const page = await readFile(join(folder, "redacted.html"), "utf8");
  for (const secret of ["examples/tree_lstm.py", folder, "--leak"]) assert.ok(!page.includes(secret), secret);
});
