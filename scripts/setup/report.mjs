// What set-up prints, all on standard error: a line that rewrites itself on a terminal, plain lines elsewhere.

const PLAIN_EVERY_MS = 10_000;

/** @param {string} text */
export function say(text) {
  process.stderr.write(`set-up: ${text}\n`);
}

/** One step's lines: begun, how far it is, done. */
export class Progress {
  #began = Date.now();
  #shown = Date.now();
  #open = false;
  #title;

  /** @param {string} title what is being done, as in "building the native code" */
  constructor(title) {
    this.#title = title;
    say(`${title} ...`);
  }

  /** @param {string} text how far the step is */
  update(text) {
    const line = `${this.#title}: ${text}`;
    if (process.stderr.isTTY) {
      process.stderr.write(`\r\x1b[Kset-up: ${line.slice(0, (process.stderr.columns ?? 80) - 10)}`);
      this.#open = true;
    } else if (Date.now() - this.#shown >= PLAIN_EVERY_MS) {
      this.#shown = Date.now();
      say(line);
    }
  }

  /** Leaves the line that rewrites itself, so that others can print. */
  pause() {
    if (this.#open) process.stderr.write("\r\x1b[K");
    this.#open = false;
  }

  done() {
    this.pause();
    say(`${this.#title}: done in ${((Date.now() - this.#began) / 1000).toFixed(1)} s`);
  }
}
