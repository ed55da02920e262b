// Tests of the number of CPUs: quotas of control groups, versions 1 and 2.
#include "core/cpus.h"

#include <unistd.h>

#include <fstream>

#include "test/check.h"

namespace tokengrad {
namespace {

namespace fs = std::filesystem;

/// A file tree of its own, gone with the object.
class Tree {
 public:
  Tree() : root_(fs::temp_directory_path() / ("tokengrad-cpus-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~Tree() { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

TEST(cpus_without_control_groups_have_no_limit) {
  const Tree tree;
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 0);
  tree.write("proc/self/cgroup", "0::/");
  tree.write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 0);
}

TEST(cpus_version_2_takes_the_smallest_quota_of_the_ancestors_rounded_up) {
  const Tree tree;
  tree.write("proc/self/cgroup", "0::/outer/inner");
  tree.write("sys/fs/cgroup/outer/cpu.max", "250000 100000");
  tree.write("sys/fs/cgroup/outer/inner/cpu.max", "800000 100000");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 3);
}

TEST(cpus_version_2_in_a_container_sees_its_own_group_as_the_root) {
  const Tree tree;
  tree.write("proc/self/cgroup", "0::/not/visible/here");
  tree.write("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 1);
}

TEST(cpus_version_1_reads_quota_and_period) {
  const Tree tree;
  tree.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job");
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000");
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 4);
  tree.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 0);
}

TEST(cpus_broken_files_are_no_limit) {
  const Tree tree;
  tree.write("proc/self/cgroup", "nonsense\n0::/");
  tree.write("sys/fs/cgroup/cpu.max", "many of them");
  EXPECT_EQUAL(cgroup_cpus(tree.root()), 0);
}

TEST(cpus_there_is_at_least_one) { EXPECT(available_cpus() >= 1); }

}  // namespace
}  // namespace tokengrad
