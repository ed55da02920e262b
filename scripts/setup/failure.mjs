// A problem of set-up that the reader can mend: one sentence, shown without a stack trace.

export class SetupFailure extends Error {
  /** @param {string} sentence reads well after "tokengrad set-up: " */
  constructor(sentence) {
    super(sentence);
    this.name = "SetupFailure";
  }
}
