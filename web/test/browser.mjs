// A page of the report in a real browser: opened as a file, with every request and every word on the console kept.
import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export async function launch() {
  const executablePath = process.env.NILO_CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, headless: true, args: FLAGS });
}

/** Opens a file; `told` collects what a good page never has. */
export async function open(browser, path, { width = 1280, height = 800, dark = false, fragment = "", script = true } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: dark ? "dark" : "light", javaScriptEnabled: script, acceptDownloads: true,
  });
  const page = await context.newPage();
  const told = { console: [], requests: [] };
  page.on("console", (message) => told.console.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => told.console.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { told.console.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  const address = pathToFileURL(path).href;
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== address && !request.url().startsWith("blob:")) told.requests.push(request.url());
  });
  await page.goto(address + fragment);
  return { page, told, context };
}
