// How the tests run. Set-up has built the addons and dist/ before: `npm test` sees to it.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // A process for each file: a crash of native code fails that file alone, and no state leaks into the next.
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
