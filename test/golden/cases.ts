// The golden cases that the tests bring along.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseCase } from "../../src/verify/cases.ts";

export const folder = join(import.meta.dirname, "cases");

export const cases = readdirSync(folder).map((file) => parseCase(readFileSync(join(folder, file), "utf8")));
