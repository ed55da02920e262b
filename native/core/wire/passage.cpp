// Passages of a row that are left to be read later, by anyone.
#include "core/wire/passage.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace tokengrad {
namespace {

/// In lanes, for the compiler to vectorise.
size_t count_commas(std::string_view text) {
  constexpr size_t kLanes = 64;
  size_t count = 0;
  while (text.size() >= kLanes) {
    std::array<uint8_t, kLanes> lanes{};
    const size_t steps = std::min<size_t>(text.size() / kLanes, UINT8_MAX);
    for (size_t step = 0; step < steps; ++step) {
      for (size_t i = 0; i < kLanes; ++i) lanes[i] += text[step * kLanes + i] == ',';
    }
    count = std::accumulate(lanes.begin(), lanes.end(), count);
    text.remove_prefix(steps * kLanes);
  }
  return count + std::count(text.begin(), text.end(), ',');
}

}  // namespace

const char* leave_passage(RowReader& row, const char* at, const char* end, Passages& passages) {
  if (!row.before_value()) return at;
  // A reader gets to the first bracket, or finds a fault on its way: strings are none of a row's
  // values.
  const auto* const bracket = static_cast<const char*>(std::memchr(at, ']', end - at));
  const std::string_view text(at, bracket == nullptr ? end : bracket);
  // Nothing of a value that the next bytes may go on with.
  const size_t length = text.rfind(',') + 1;
  if (length == 0 || length < passages.least) return at;
  passages.found.push_back({row, at, at + length, end});
  // A reader takes one value a comma, or finds a fault.
  row.skip(count_commas(text.substr(0, length)));
  return at + length;
}

}  // namespace tokengrad
