// How many CPUs this process may really use.
#pragma once

#include <filesystem>
#include <string>

namespace tokengrad {

/// The smaller of the affinity mask and the CPU quota of the process' control groups, at least 1.
int available_cpus();

/// CPUs that the control groups grant, from `root`/proc/self/cgroup and `root`/sys/fs/cgroup
/// (version 1 and 2), rounded up; 0 where there is no limit.
int cgroup_cpus(const std::filesystem::path& root);

}  // namespace tokengrad
