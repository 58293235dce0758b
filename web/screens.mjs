// Pictures for the documentation: node screens.mjs OUT LEAK.html TRAINING.html
import { launch, open } from "./test/browser.mjs";
import { resolve } from "node:path";

const [out, leak, training] = process.argv.slice(2).map((word) => resolve(word));
const browser = await launch();

async function shoot(file, name, options, selector) {
  const { page } = await open(browser, file, { width: 1180, ...options });
  const target = selector ? page.locator(selector) : page;
  await target.screenshot({ path: `${out}/${name}.png` });
  await page.context().close();
}
await shoot(leak, "report-first", { height: 720 });
await shoot(training, "report-allocs", { height: 900 }, "#allocs");
await shoot(training, "report-dark", { height: 720, dark: true });
await browser.close();
