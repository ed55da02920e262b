// What the server answers when it does not do what it was asked.
import { TokengradError } from "../errors.ts";

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  404: "not_found_error",
  409: "conflict_error",
};

/** An HTTP error answer. `code` is the `error.code` of its body. */
export class Problem extends TokengradError {
  readonly status: number;
  /** Path of the field at fault, such as `samples[0].model_input`. */
  readonly param: string | undefined;

  constructor(status: number, code: string, message: string, param?: string) {
    super(code, message);
    this.status = status;
    this.param = param;
  }

  /** The body: `error` with `message`, `type`, `param` and `code`. */
  body(): object {
    const type = TYPES[this.status] ?? (this.status < 500 ? "invalid_request_error" : "server_error");
    return { error: { message: this.message, type, param: this.param ?? null, code: this.code } };
  }
}

/** A field of the request has the wrong type or value: status 422. */
export function invalid(path: string, problem: string): Problem {
  const place = path === "" ? "body" : path;
  return new Problem(422, "invalid_value", `${place}: ${problem}`, path === "" ? undefined : path);
}

/** Something named in the request does not exist: status 404. */
export function missing(what: string, id: string, param?: string): Problem {
  return new Problem(404, "not_found", `there is no ${what} ${JSON.stringify(id.slice(0, 100))}`, param);
}
