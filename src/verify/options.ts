// From a case's parameters to options.

// biome-ignore lint/suspicious/noExplicitAny: a case's parameters become options by name, which what they are given to checks
export type Options = any;

/** Without what is absent: options are left out, never undefined. */
export const present = (options: Readonly<Record<string, unknown>>): Options =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null));
