// The options that several benchmarks have.
import { Option } from "commander";
import { CASES } from "./cases.ts";
import { WORKLOADS } from "./workload.ts";

export const lossesOption = () =>
  new Option("--losses <names...>", "only these losses").choices(Object.keys(CASES));

export const workloadsOption = () =>
  new Option("--workloads <names...>", "only these workloads").choices(WORKLOADS);

export const threadsOption = () =>
  new Option(
    "--threads <count>",
    "threads of everyone; default: the CPUs that this process may use",
  ).argParser(Number);

export const writeOption = () =>
  new Option("--write", "write what was measured into bench/results.md").default(false);
