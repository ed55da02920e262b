// A batch cut into pieces of work for threads.
#include "core/fused/units.h"

#include <algorithm>

namespace tokengrad::fused {

std::vector<Unit> make_units(const Layout& layout) {
  std::vector<Unit> units;
  units.reserve(static_cast<size_t>(layout.samples() + layout.size(Axis::kToken) / kUnitTokens));
  const std::vector<int64_t>& groups = layout.segments(Axis::kSample, Axis::kGroup)->offsets();
  int64_t group = 0;
  for (int64_t sample = 0; sample < layout.samples(); ++sample) {
    while (groups[group + 1] <= sample) ++group;
    const int64_t end = layout.rows()[sample + 1].token;
    int64_t begin = layout.rows()[sample].token;
    RowCursor row = begin_row(layout, sample);
    while (end - begin > kUnitTokens) {
      units.push_back({sample, group, begin, begin + kUnitTokens, row, false});
      skip_tokens(layout, row, kUnitTokens);
      begin += kUnitTokens;
    }
    units.push_back({sample, group, begin, end, row, true});
  }
  return units;
}

}  // namespace tokengrad::fused
