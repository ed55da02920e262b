// Stamps: what a step was last done for. A step whose inputs still hash to its stamp is not done again.
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

/** Set-up's own folder in the checkout. It is not build/, which node-gyp empties. */
export const STATE = ".build";

/**
 * One hash of the texts given and of the names and contents of files.
 * @param {string} root
 * @param {string[]} entries files, and folders taken with all that lies in them, relative to `root`
 * @param {unknown[]} facts
 */
export function hashOf(root, entries, ...facts) {
  const hash = createHash("sha256").update(JSON.stringify(facts));
  for (const file of entries.flatMap((entry) => filesIn(root, entry))) {
    hash.update(`\0${file}\0`).update(fs.readFileSync(path.join(root, file)));
  }
  return hash.digest("hex");
}

/**
 * The files under an entry in a fixed order, as paths relative to `root`; none if the entry does not exist.
 * @param {string} root
 * @param {string} entry
 * @returns {string[]}
 */
export function filesIn(root, entry) {
  const stat = fs.statSync(path.join(root, entry), { throwIfNoEntry: false });
  if (!stat?.isDirectory()) return stat ? [entry] : [];
  return fs
    .readdirSync(path.join(root, entry))
    .sort()
    .flatMap((name) => filesIn(root, path.join(entry, name)));
}

/** @param {string} root @param {string} step */
export function readStamp(root, step) {
  try {
    return fs.readFileSync(path.join(root, STATE, `${step}.stamp`), "utf8");
  } catch {
    return undefined;
  }
}

/**
 * Sets a step's stamp, or removes it while the step is being done.
 * @param {string} root @param {string} step @param {string} [value]
 */
export function writeStamp(root, step, value) {
  const file = path.join(root, STATE, `${step}.stamp`);
  if (value === undefined) {
    fs.rmSync(file, { force: true });
    return;
  }
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(`${file}.new`, value);
  fs.renameSync(`${file}.new`, file);
}
