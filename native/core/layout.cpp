// Where the samples, groups and trained tokens of a batch lie.
#include "core/layout.h"

#include <string>

#include "core/error.h"

namespace tokengrad {
namespace {

[[noreturn]] void refuse(const std::string& problem) { throw Error("ERR_REQUEST", problem); }

size_t index_of(Axis axis) { return static_cast<size_t>(axis); }

}  // namespace

Layout::Layout(const LayoutSpec& spec, at::Device device) : spec_(spec) {
  read_rows();
  read_groups(device);
}

void Layout::read_rows() {
  const size_t samples = spec_.row_lengths.size();
  if (samples == 0) refuse("rowLengths: expected at least one sample");
  if (spec_.run_counts.size() != samples) refuse("runCounts: expected one entry per sample");
  if (spec_.runs.size() % 2 != 0) refuse("runs: expected pairs");
  const int64_t all_runs = static_cast<int64_t>(spec_.runs.size() / 2);

  rows_.reserve(samples + 1);
  Row row{0, 0, 0};
  for (size_t s = 0; s < samples; ++s) {
    rows_.push_back(row);
    const int64_t end = row.run + spec_.run_counts[s];
    if (end > all_runs) refuse("runs: expected more of them");
    int64_t free_from = 0;
    for (; row.run < end; ++row.run) {
      const int64_t start = spec_.runs[2 * row.run];
      const int64_t length = spec_.runs[2 * row.run + 1];
      if (start < free_from || length == 0 || start + length > spec_.row_lengths[s]) {
        refuse("runs: run " + std::to_string(row.run) + " does not fit into row " +
               std::to_string(s));
      }
      free_from = start + length;
      row.token += length;
    }
    row.position += spec_.row_lengths[s];
  }
  if (row.run != all_runs) refuse("runs: expected fewer of them");
  rows_.push_back(row);
  if (row.token == 0) refuse("runs: expected at least one trained token");
}

void Layout::read_groups(at::Device device) {
  std::vector<int64_t> group_of_samples{0};
  for (const uint32_t size : spec_.group_sizes)
    group_of_samples.push_back(group_of_samples.back() + size);
  if (group_of_samples.size() == 1) refuse("groupSizes: expected at least one group");
  if (group_of_samples.back() != samples()) {
    refuse("groupSizes: expected a sum of " + std::to_string(samples()) + ", got " +
           std::to_string(group_of_samples.back()));
  }
  std::vector<int64_t> tokens_of_samples;
  for (const Row& row : rows_) tokens_of_samples.push_back(row.token);
  std::vector<int64_t> tokens_of_groups;
  for (const int64_t sample : group_of_samples) tokens_of_groups.push_back(rows_[sample].token);

  const auto set = [&](Axis fine, Axis coarse, std::vector<int64_t> offsets) {
    segments_[index_of(fine)][index_of(coarse)] =
        c10::make_intrusive<Segments>(std::move(offsets), device);
  };
  set(Axis::kToken, Axis::kSample, std::move(tokens_of_samples));
  set(Axis::kToken, Axis::kGroup, std::move(tokens_of_groups));
  set(Axis::kToken, Axis::kBatch, {0, rows_.back().token});
  set(Axis::kSample, Axis::kBatch, {0, samples()});
  set(Axis::kGroup, Axis::kBatch, {0, static_cast<int64_t>(group_of_samples.size()) - 1});
  set(Axis::kSample, Axis::kGroup, std::move(group_of_samples));
}

int64_t Layout::size(Axis axis) const {
  switch (axis) {
    case Axis::kBatch:
      return 1;
    case Axis::kGroup:
      return static_cast<int64_t>(spec_.group_sizes.size());
    case Axis::kSample:
      return samples();
    case Axis::kToken:
      return rows_.back().token;
  }
  return 0;
}

const SegmentsPtr& Layout::segments(Axis fine, Axis coarse) const {
  return segments_[index_of(fine)][index_of(coarse)];
}

Place Layout::place(int64_t token) const {
  const int64_t sample = segments(Axis::kToken, Axis::kSample)->segment_of(token);
  int64_t rest = token - rows_[sample].token;
  int64_t run = rows_[sample].run;
  while (rest >= spec_.runs[2 * run + 1]) rest -= spec_.runs[2 * run++ + 1];
  return {sample, spec_.runs[2 * run] + rest};
}

}  // namespace tokengrad
