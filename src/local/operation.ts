// Operations of one session: queued, run in order, answered again for a repeated key.
import { randomUUID } from "node:crypto";
import { Problem } from "./problem.ts";

export const OPERATION_KINDS = [
  "forward-backward",
  "custom-forward-backward",
  "optim-step",
  "weights-sync",
  "sample",
  "inference-checkpoint",
  "training-checkpoint",
] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

/** Does an operation's work; what it resolves to makes the `output`, when somebody asks for it. */
export type Work = () => Promise<() => object>;

/** Finished operations that a session remembers; older ones, and their keys, are forgotten. */
const REMEMBERED = 1000;

/** Codes of the trainer's errors as the API names them. */
const ERROR_CODES: Readonly<Record<string, string>> = {
  ERR_INPUT: "INVALID_INPUT",
  ERR_NON_FINITE: "NON_FINITE_LOSS",
  ERR_ABORTED: "SESSION_NOT_ACTIVE",
  ERR_DISPOSED: "SESSION_NOT_ACTIVE",
};

export class Operation {
  readonly id = randomUUID();
  readonly kind: OperationKind;
  readonly key: string;
  /** Digest of the request; the same key with another one is a conflict. */
  readonly digest: string;
  /** Resolves when the operation has completed or failed. */
  readonly finished: Promise<void>;
  #status: "PENDING" | "RUNNING" | "COMPLETED" | "FAILED" = "PENDING";
  #output: (() => object) | undefined;
  #error: { readonly code: string; readonly message: string } | undefined;
  #finish!: () => void;

  constructor(kind: OperationKind, key: string, digest: string) {
    this.kind = kind;
    this.key = key;
    this.digest = digest;
    this.finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  get isPending(): boolean {
    return this.#status === "PENDING";
  }

  get isFinished(): boolean {
    return this.#status === "COMPLETED" || this.#status === "FAILED";
  }

  async run(work: Work): Promise<void> {
    if (this.isFinished) return;
    this.#status = "RUNNING";
    try {
      this.#output = await work();
      this.#status = "COMPLETED";
      this.#finish();
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      this.fail(ERROR_CODES[code ?? ""] ?? "INTERNAL_ERROR", message);
    }
  }

  fail(code: string, message: string): void {
    this.#error = { code: `TRAINING_OPERATION_ERROR_CODE_${code}`, message };
    this.#status = "FAILED";
    this.#finish();
  }

  body(): object {
    return {
      id: this.id,
      status: `TRAINING_OPERATION_STATUS_${this.#status}`,
      ...(this.#output ? { output: this.#output() } : {}),
      ...(this.#error ? { error: this.#error } : {}),
    };
  }
}

/** The operations of one session. */
export class OperationQueue {
  readonly #byId = new Map<string, Operation>();
  readonly #byKey = new Map<string, Operation>();
  #last: Promise<void> = Promise.resolve();
  #closed = false;

  /**
   * The operation that `key` named before, if any.
   *
   * @throws {Problem} 409 if that was for another request.
   */
  repeated(key: string, digest: string): Operation | undefined {
    const known = this.#byKey.get(key);
    if (known !== undefined && known.digest !== digest) {
      throw new Problem(
        409,
        "idempotency_conflict",
        "Idempotency-Key: this key was used for another request; a changed request needs a new key",
        "Idempotency-Key",
      );
    }
    return known;
  }

  /** Queues work behind what came before. In a closed queue the operation fails at once. */
  add(kind: OperationKind, key: string, digest: string, work: Work): Operation {
    const operation = new Operation(kind, key, digest);
    this.#byId.set(operation.id, operation);
    this.#byKey.set(key, operation);
    if (this.#closed) this.#refuse(operation);
    this.#last = this.#last.then(() => operation.run(work));
    this.#forget();
    return operation;
  }

  get(kind: OperationKind, id: string): Operation | undefined {
    const operation = this.#byId.get(id);
    return operation?.kind === kind ? operation : undefined;
  }

  /** Whether an operation of this kind waits or runs. */
  has(kind: OperationKind): boolean {
    return this.#unfinished().some((operation) => operation.kind === kind);
  }

  get isIdle(): boolean {
    return this.#unfinished().length === 0;
  }

  /** Fails what has not begun, and resolves when what runs has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const operation of this.#unfinished()) {
      if (operation.isPending) this.#refuse(operation);
    }
    await this.#last;
  }

  #refuse(operation: Operation): void {
    operation.fail("SESSION_NOT_ACTIVE", "the session has been stopped");
  }

  #unfinished(): Operation[] {
    return [...this.#byId.values()].filter((operation) => !operation.isFinished);
  }

  #forget(): void {
    for (const operation of this.#byId.values()) {
      if (this.#byId.size <= REMEMBERED || !operation.isFinished) return;
      this.#byId.delete(operation.id);
      this.#byKey.delete(operation.key);
    }
  }
}
