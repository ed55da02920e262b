// How many CPUs this process may really use.
#include "core/cpus.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace tokengrad {
namespace {

namespace fs = std::filesystem;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// CPUs that `quota` microseconds in every `period` are worth. A quota of `max` or -1 is no limit.
double cpus_of(const std::string& quota, const std::string& period) {
  double quota_us = -1;
  double period_us = -1;
  std::istringstream(quota) >> quota_us;
  std::istringstream(period) >> period_us;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : kNoLimit;
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

double limit_v2(const fs::path& folder) {
  std::istringstream line(first_line(folder / "cpu.max"));
  std::string quota;
  std::string period;
  line >> quota >> period;
  return cpus_of(quota, period);
}

double limit_v1(const fs::path& folder) {
  return cpus_of(first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us"));
}

/// The smallest limit from a group up to the root of its tree: every ancestor's quota holds too.
/// Inside a container the path may name groups that cannot be seen; the tree's root then is the
/// container's own group.
double smallest_limit(const fs::path& tree, const std::string& group,
                      double (*limit)(const fs::path&)) {
  double smallest = limit(tree);
  fs::path folder = tree;
  for (const fs::path& part : fs::path(group).relative_path()) {
    folder /= part;
    smallest = std::min(smallest, limit(folder));
  }
  return smallest;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

int cgroup_cpus(const fs::path& root) {
  double smallest = kNoLimit;
  std::ifstream groups(root / "proc/self/cgroup");
  // Each line is `id:controllers:path`; version 2 has id 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers.empty()) {
      smallest = std::min(smallest, smallest_limit(mount, group, limit_v2));
    } else if (names_cpu(controllers)) {
      smallest = std::min({smallest, smallest_limit(mount / controllers, group, limit_v1),
                           smallest_limit(mount / "cpu", group, limit_v1)});
    }
  }
  return smallest == kNoLimit ? 0 : static_cast<int>(std::ceil(smallest));
}

int available_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  // More CPUs than a cpu_set_t holds make the call fail: the count above stands then.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const int granted = cgroup_cpus("/"); granted > 0) cpus = std::min(cpus, granted);
#endif
  return std::max(cpus, 1);
}

}  // namespace tokengrad
