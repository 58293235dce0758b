// Writes dist/report.js and dist/report.css: the same bytes from the same sources, so that a build can be compared.
import { build } from "esbuild";
import { readFileSync } from "node:fs";

const MOST_BYTES = 150_000;
const out = process.argv[2] ?? "dist";

const common = {
  bundle: true,
  minify: true,
  charset: "ascii", // nothing that a wrong encoding could change
  target: ["es2022"],
  legalComments: "inline",
  logLevel: "warning",
};
await build({ ...common, entryPoints: ["src/main.ts"], outfile: `${out}/report.js`, format: "iife" });
await build({ ...common, entryPoints: ["src/style.css"], outfile: `${out}/report.css` });

const sizes = ["report.js", "report.css"].map((name) => {
  const text = readFileSync(`${out}/${name}`, "latin1");
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end its own element`);
  return text.length;
});
const total = sizes[0] + sizes[1];
console.log(`report.js ${sizes[0]}, report.css ${sizes[1]}, together ${total} of ${MOST_BYTES} bytes`);
if (total > MOST_BYTES) throw new Error("the bundle is too large");
