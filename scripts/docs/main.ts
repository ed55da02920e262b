// `npm run docs`: writes the pages of the ready losses.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pages } from "./pages.ts";

const folder = join(import.meta.dirname, "../../docs/losses");
const made = pages();
mkdirSync(folder, { recursive: true });
for (const file of readdirSync(folder)) if (!Object.hasOwn(made, file)) rmSync(join(folder, file));
for (const [file, text] of Object.entries(made)) writeFileSync(join(folder, file), text);
process.stdout.write(`${Object.keys(made).length} pages in docs/losses\n`);
