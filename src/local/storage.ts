// The trainer's object storage: payloads in memory and checkpoint files, reached by addresses that are permissions.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { invalid, missing, Problem } from "./problem.ts";

/** What an address gives: bytes, or a file on disk. */
export type Stored = { readonly bytes: Buffer } | { readonly path: string; readonly size: number };

interface Payload {
  readonly id: string;
  readonly session: string;
  readonly expires: number;
  /** Undefined until it is uploaded. */
  bytes: Buffer | undefined;
}

interface Address {
  readonly expires: number;
  readonly use: { readonly put: Payload } | { readonly get: Stored };
}

/** Payloads and addresses are kept for an hour. @unit milliseconds */
const LIFETIME_MS = 3_600_000;
/** Payloads beyond this push out the oldest. @unit bytes */
const MOST_BYTES = 2 ** 30;

export class Storage {
  readonly #payloads = new Map<string, Payload>();
  readonly #addresses = new Map<string, Address>();

  /** Room for an upload, and the token of its address. */
  createUpload(session: string): { readonly id: string; readonly token: string } {
    const payload = this.#add(session, undefined);
    return { id: payload.id, token: this.#address({ put: payload }) };
  }

  /** Takes the bytes of an upload. */
  upload(token: string, bytes: Buffer): void {
    const { use } = this.#addressed(token);
    if (!("put" in use)) throw new Problem(403, "forbidden", "this address is for reading");
    use.put.bytes = bytes;
    this.#trim();
  }

  /** What the address stands for. */
  download(token: string): Stored {
    const { use } = this.#addressed(token);
    if (!("get" in use)) throw new Problem(403, "forbidden", "this address is for writing");
    return use.get;
  }

  /** Keeps a result and gives its id. */
  keep(session: string, bytes: Buffer): string {
    const { id } = this.#add(session, bytes);
    this.#trim();
    return id;
  }

  /** The token of an address from which a payload of the session can be read. */
  addressOf(session: string, id: string): string {
    const payload = this.#payloads.get(id);
    if (payload?.session !== session || payload.bytes === undefined) throw missing("payload", id);
    return this.#address({ get: { bytes: payload.bytes } });
  }

  /** The token of an address from which a file can be read. */
  addressOfFile(path: string, size: number): string {
    return this.#address({ get: { path, size } });
  }

  /** An uploaded payload of the session, and a digest of it. */
  uploaded(session: string, id: string): { readonly bytes: Buffer; readonly digest: string } {
    const payload = this.#payloads.get(id);
    if (payload?.session !== session)
      throw invalid("payload_id", "expected the id of an upload of this session");
    if (payload.bytes === undefined) throw invalid("payload_id", "expected an upload that has come");
    return { bytes: payload.bytes, digest: createHash("sha256").update(payload.bytes).digest("hex") };
  }

  #add(session: string, bytes: Buffer | undefined): Payload {
    const payload = { id: randomUUID(), session, expires: Date.now() + LIFETIME_MS, bytes };
    this.#payloads.set(payload.id, payload);
    return payload;
  }

  #address(use: Address["use"]): string {
    const token = randomBytes(24).toString("base64url");
    this.#addresses.set(token, { expires: Date.now() + LIFETIME_MS, use });
    return token;
  }

  #addressed(token: string): Address {
    const address = this.#addresses.get(token);
    if (address !== undefined && address.expires > Date.now()) return address;
    throw new Problem(403, "expired", "this address is not or no longer valid");
  }

  #trim(): void {
    const now = Date.now();
    for (const [token, { expires }] of this.#addresses) if (expires <= now) this.#addresses.delete(token);
    let bytes = 0;
    for (const payload of this.#payloads.values()) bytes += payload.bytes?.length ?? 0;
    for (const [id, payload] of this.#payloads) {
      if (payload.expires > now && bytes <= MOST_BYTES) return;
      bytes -= payload.bytes?.length ?? 0;
      this.#payloads.delete(id);
    }
  }
}
