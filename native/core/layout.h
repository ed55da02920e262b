// Where the samples, groups and trained tokens of a batch lie.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "core/segments.h"

namespace tokengrad {

/// A batch's layout as it arrives. A sample's row has one position per target; its trained tokens
/// are those of weight above 0 and come in runs of consecutive positions. The spans are read in
/// place and must outlive the layout.
struct LayoutSpec {
  /// Positions of each sample's row.
  std::span<const uint32_t> row_lengths;
  /// Runs of trained tokens in each sample's row.
  std::span<const uint32_t> run_counts;
  /// First position within its row, and length, of each run; ascending and apart from each other
  /// within a row.
  std::span<const uint32_t> runs;
  /// Samples of each group.
  std::span<const uint32_t> group_sizes;
};

/// The first of a sample's things in the lists of the whole batch.
struct Row {
  int64_t position;
  int64_t run;
  int64_t token;
};

/// A trained token as a caller knows it.
struct Place {
  int64_t sample;
  int64_t position;
};

class Layout {
 public:
  /// Throws `ERR_REQUEST` if the parts do not fit together.
  Layout(const LayoutSpec& spec, at::Device device);

  /// Elements of an axis: 1 of batch, else groups, samples or trained tokens.
  int64_t size(Axis axis) const;
  /// Positions of all rows together.
  int64_t positions() const { return rows_.back().position; }
  int64_t samples() const { return static_cast<int64_t>(rows_.size()) - 1; }
  /// One row per sample, and one behind the last.
  const std::vector<Row>& rows() const { return rows_; }
  std::span<const uint32_t> runs() const { return spec_.runs; }
  std::span<const uint32_t> group_sizes() const { return spec_.group_sizes; }

  /// How the elements of an axis lie in those of a coarser one.
  const SegmentsPtr& segments(Axis fine, Axis coarse) const;
  /// Sample and position of a trained token.
  Place place(int64_t token) const;

 private:
  void read_rows();
  void read_groups(at::Device device);

  LayoutSpec spec_;
  std::vector<Row> rows_;
  std::array<std::array<SegmentsPtr, kAxes>, kAxes> segments_;
};

}  // namespace tokengrad
