// A progress line: redrawn in place on a terminal, now and then a plain line elsewhere.

export interface ProgressReport {
  /** Steps done so far. */
  readonly done: number;
  /** Tokens processed since the start. */
  readonly tokens: number;
  /** Figures to show, such as `{ loss: 2.31 }`. */
  readonly figures?: Readonly<Record<string, number>>;
}

const BAR_WIDTH = 24;
const REDRAW_MS = 100;
const PLAIN_LINES = 5;

const count = (n: number) => (n >= 10_000 ? `${Math.round(n / 1000)}k` : Math.round(n).toString());

/**
 * Reports the steps of one stage on a stream, by default the standard output.
 *
 * @example
 * const progress = new Progress("reference", samples.length);
 * await referenceLogprobs(session, samples, { onProgress: (report) => progress.update(report) });
 */
export class Progress {
  readonly #label: string;
  readonly #total: number;
  readonly #stream: NodeJS.WriteStream;
  readonly #started = performance.now();
  #drawn = 0;
  #plainLines = 0;

  constructor(label: string, total: number, stream: NodeJS.WriteStream = process.stdout) {
    this.#label = label;
    this.#total = total;
    this.#stream = stream;
  }

  update(report: ProgressReport): void {
    const last = report.done >= this.#total;
    if (this.#stream.isTTY) {
      const now = performance.now();
      if (!last && now - this.#drawn < REDRAW_MS) return;
      this.#drawn = now;
      this.#stream.write(`\r\x1b[K${this.#line(report)}${last ? "\n" : ""}`);
    } else if (last || report.done >= ((this.#plainLines + 1) * this.#total) / PLAIN_LINES) {
      this.#plainLines = Math.floor((report.done / this.#total) * PLAIN_LINES);
      this.#stream.write(`${this.#line(report)}\n`);
    }
  }

  #line({ done, tokens, figures = {} }: ProgressReport): string {
    const seconds = (performance.now() - this.#started) / 1000;
    const left = (seconds / Math.max(done, 1)) * (this.#total - done);
    const shown = Object.entries(figures).map(([name, value]) => `${name} ${value.toFixed(3)}`);
    const time = done >= this.#total ? `${seconds.toFixed(1)} s` : `${Math.ceil(left)} s left`;
    const rate = `${count(tokens / Math.max(seconds, 1e-3))} tokens/s`;
    const text = [`${done}/${this.#total}`, ...shown, rate, time].join("  ");
    const label = this.#label.padEnd(18);
    if (!this.#stream.isTTY) return `${label} ${text}`;
    // A line that wraps could not be redrawn: the bar gives way to the text, and the text to the edge.
    const columns = (this.#stream.columns || 80) - 1;
    const width = Math.max(0, Math.min(BAR_WIDTH, columns - label.length - text.length - 2));
    const full = Math.round((done / this.#total) * width);
    return `${label} ${"█".repeat(full)}${"░".repeat(width - full)} ${text}`.slice(0, columns);
  }
}
