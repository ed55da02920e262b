// The base of every error that tokengrad throws, and how its messages name a value.

/** Any error of tokengrad. Match on `code`, which is stable; messages may change. */
export class TokengradError extends Error {
  /** Stable, machine-readable reason, such as `ERR_AXIS`. */
  readonly code: string;

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A call was stopped by its `AbortSignal`; `cause` holds the signal's reason. */
export class AbortError extends TokengradError {
  constructor(message: string, options?: { cause?: unknown }) {
    super("ERR_ABORTED", message, options);
  }
}

/** libtorch or the addon failed in a way that is no fault of the arguments. */
export class NativeError extends TokengradError {
  constructor(message: string, options?: { cause?: unknown }) {
    super("ERR_NATIVE", message, options);
  }
}

/** An argument has the wrong type, length or value; the message names its path, what was expected and what came. */
export class InputError extends TokengradError {
  /** Path of the argument, such as `inputs.reference`. */
  readonly path: string;
  /** Index of the sample in its batch, where the fault lies in one. */
  readonly sample: number | undefined;
  /** Index of the position in the sample's row of targets, where the fault lies in one. */
  readonly position: number | undefined;

  constructor(path: string, problem: string, at: { sample?: number; position?: number } = {}) {
    const place = [
      at.sample === undefined ? [] : [`sample ${at.sample}`],
      at.position === undefined ? [] : [`position ${at.position}`],
    ].flat();
    super("ERR_INPUT", `${[path, ...place].join(", ")}: ${problem}`);
    this.path = path;
    this.sample = at.sample;
    this.position = at.position;
  }
}

/** How a value is named in a message: whatever it is, on one short line. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 60)) + (value.length > 60 ? "…" : "");
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (typeof value !== "object" || value === null) return String(value);
  // The prototype's, since an object from outside may bring a `constructor` of its own.
  const name: string = Object.getPrototypeOf(value)?.constructor?.name || "Object";
  const kind = name === "Array" || name === "Object" ? name.toLowerCase() : name;
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  return `${/^[aeio]/i.test(kind) ? "an" : "a"} ${kind}${isList ? ` of ${(value as ArrayLike<unknown>).length}` : ""}`;
}
