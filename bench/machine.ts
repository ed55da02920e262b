// Where something was measured, and how busy that machine was.
import { existsSync, readFileSync } from "node:fs";
import { arch, availableParallelism, cpus, platform, totalmem } from "node:os";

/** The widest SIMD instructions of this CPU, as far as the system tells. */
function simd(): string {
  if (arch() === "arm64") return "NEON";
  if (!existsSync("/proc/cpuinfo")) return "SIMD unknown";
  const flags = /^flags\s*:(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1]?.split(" ") ?? [];
  return flags.includes("avx512f") ? "AVX-512" : flags.includes("avx2") ? "AVX2" : "neither AVX2 nor AVX-512";
}

export const machine = (): string =>
  `${cpus()[0]?.model.trim() ?? "unknown CPU"}, ${availableParallelism()} CPUs, ${simd()}, ` +
  `${Math.round(totalmem() / 2 ** 30)} GiB, ${platform()}`;

/** How busy the machine was, from its load average. */
export const idleness = (load: number): string =>
  `load ${load.toFixed(2)} when it began${load < 0.5 ? "" : ": other programs ran, which makes threads that wait for one another late, so the ratios are off"}`;
