// Whether the engine finds a GPU here, for the tests that need one. Such tests have "cuda" in their names.
import { createEngine } from "../../src/engine/engine.ts";

// Before anything else computes with libtorch: see `EngineOptions.device`.
const probe = await createEngine();
const { cuda } = probe.info;
probe.dispose();

/** Why there is no GPU to test on; undefined where there is one. */
export const NO_GPU = cuda.state === "ready" ? undefined : `there is no GPU to test on: ${cuda.reason}`;
