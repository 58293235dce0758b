// Pictures for the documentation: node screens.mjs OUT LEAK.html TRAINING.html JOB.html COMPARED.html
import { launch, open } from "./test/browser.mjs";
import { resolve } from "node:path";

const [out, leak, training, job, compared] = process.argv.slice(2).map((word) => resolve(word));
const browser = await launch();

async function shoot(file, name, options, selector) {
  const { page, told } = await open(browser, file, { width: 1180, ...options });
  if (told.console.length + told.requests.length > 0) throw new Error(JSON.stringify(told));
  const target = selector ? page.locator(selector) : page;
  await target.screenshot({ path: `${out}/${name}.png` });
  await page.context().close();
}

/** A stretch around one of the steps whose stacks were kept. */
async function aroundStep(file, number) {
  const { page } = await open(browser, file);
  const at = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).allocs.moments.at);
  await page.context().close();
  return `#allocs&t=${((at[number - 1] + at[number]) / 2).toFixed(3)}..${((at[number] + at[number + 1]) / 2).toFixed(3)}`;
}

await shoot(leak, "report-first", { height: 720 });
await shoot(training, "report-allocs", { height: 900 }, "#allocs");
await shoot(training, "report-dark", { height: 720, dark: true });
await shoot(leak, "report-stretch", { height: 900, fragment: await aroundStep(leak, 8) }, "#chart-allocs");
await shoot(job, "report-ranks", { height: 900 }, "#ranks");
await shoot(compared, "report-compare", { height: 900, dark: true }, "#chart-compare");
await browser.close();
