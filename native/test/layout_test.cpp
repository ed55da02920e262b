// Tests of the layout: what fits and what does not, and where a trained token lies.
#include "core/layout.h"

#include "test/check.h"

namespace tokengrad {
namespace {

struct Parts {
  std::vector<uint32_t> row_lengths;
  std::vector<uint32_t> run_counts;
  std::vector<uint32_t> runs;
  std::vector<uint32_t> group_sizes;

  LayoutSpec spec() const { return {row_lengths, run_counts, runs, group_sizes}; }
};

/// Rows of 5, 3, 0 and 4 positions; trained: 1 2 4 of the first, none of the second and third, 0 to
/// 3 of the fourth.
Parts parts() { return {{5, 3, 0, 4}, {2, 0, 0, 1}, {1, 2, 4, 1, 0, 4}, {2, 1, 1}}; }

TEST(layout_counts_and_places) {
  const Parts given = parts();
  const Layout layout(given.spec(), at::kCPU);
  EXPECT_EQUAL(layout.positions(), 12);
  EXPECT_EQUAL(layout.size(Axis::kToken), 7);
  EXPECT_EQUAL(layout.size(Axis::kSample), 4);
  EXPECT_EQUAL(layout.size(Axis::kGroup), 3);
  EXPECT_EQUAL(layout.size(Axis::kBatch), 1);
  const std::vector<std::pair<int64_t, int64_t>> places{{0, 1}, {0, 2}, {0, 4}, {3, 0},
                                                        {3, 1}, {3, 2}, {3, 3}};
  for (size_t token = 0; token < places.size(); ++token) {
    EXPECT_EQUAL(layout.place(token).sample, places[token].first);
    EXPECT_EQUAL(layout.place(token).position, places[token].second);
  }
}

TEST(layout_nests_its_axes) {
  const Parts given = parts();
  const Layout layout(given.spec(), at::kCPU);
  const auto offsets = [&layout](Axis fine, Axis coarse) {
    return layout.segments(fine, coarse)->offsets();
  };
  EXPECT(offsets(Axis::kToken, Axis::kSample) == (std::vector<int64_t>{0, 3, 3, 3, 7}));
  EXPECT(offsets(Axis::kToken, Axis::kGroup) == (std::vector<int64_t>{0, 3, 3, 7}));
  EXPECT(offsets(Axis::kToken, Axis::kBatch) == (std::vector<int64_t>{0, 7}));
  EXPECT(offsets(Axis::kSample, Axis::kGroup) == (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT(offsets(Axis::kSample, Axis::kBatch) == (std::vector<int64_t>{0, 4}));
  EXPECT(offsets(Axis::kGroup, Axis::kBatch) == (std::vector<int64_t>{0, 3}));
}

TEST(layout_that_does_not_fit_is_refused) {
  const auto refuses = [](void (*spoil)(Parts&)) {
    Parts given = parts();
    spoil(given);
    return test::code_of([&] { Layout(given.spec(), at::kCPU); }) == "ERR_REQUEST";
  };
  EXPECT(refuses([](Parts& given) { given.row_lengths.clear(); }));
  EXPECT(refuses([](Parts& given) { given.run_counts.pop_back(); }));
  EXPECT(refuses([](Parts& given) { given.runs.pop_back(); }));          // half a pair
  EXPECT(refuses([](Parts& given) { given.run_counts[1] = 7; }));        // more than there are
  EXPECT(refuses([](Parts& given) { given.run_counts[3] = 0; }));        // fewer than there are
  EXPECT(refuses([](Parts& given) { given.runs[1] = 4; }));              // over the next run
  EXPECT(refuses([](Parts& given) { given.runs[1] = 0; }));              // empty
  EXPECT(refuses([](Parts& given) { given.runs[5] = 5; }));              // over the row's end
  EXPECT(refuses([](Parts& given) { given.runs[4] = 0xffffffff; }));     // far over it
  EXPECT(refuses([](Parts& given) { given.runs[2] = 0; }));              // not ascending
  EXPECT(refuses([](Parts& given) { given.group_sizes = {2, 1}; }));     // too few samples
  EXPECT(refuses([](Parts& given) { given.group_sizes = {2, 2, 1}; }));  // too many
  EXPECT(refuses([](Parts& given) { given.group_sizes.clear(); }));
  EXPECT(refuses([](Parts& given) { given = {{3}, {0}, {}, {1}}; }));  // no trained token
}

}  // namespace
}  // namespace tokengrad
