// Where in a JSON text a reader is: what is open there, and how far that leads to a row.
#include "core/wire/row_place.h"

#include <algorithm>
#include <utility>

#include "core/wire/json_key.h"
#include "core/wire/result_fault.h"

namespace tokengrad {
namespace {

constexpr size_t kMaxName = 40;

}  // namespace

RowPlace::RowPlace(RowPath path, size_t depth)
    : path_(std::move(path)),
      path_length_(static_cast<int>(path_.size())),
      each_(static_cast<int>(std::find(path_.begin(), path_.end(), kEachSample) - path_.begin())),
      depth_(depth) {
  const auto long_name = [](const std::string& name) { return name.size() > kMaxName; };
  if (std::count(path_.begin(), path_.end(), kEachSample) != 1 ||
      std::any_of(path_.begin(), path_.end(), long_name)) {
    throw Error("ERR_REQUEST", "path: expected short names and one * among its members");
  }
}

size_t RowPlace::sample() const {
  return std::find_if(stack_.begin(), stack_.end(),
                      [this](const Frame& frame) { return is_samples(frame); })
      ->index;
}

void RowPlace::open(char bracket) {
  if (stack_.size() == depth_) {
    fail_result("expected at most " + std::to_string(depth_) + " levels, got more", Fault::kWrong);
  }
  const bool object = bracket == '{';
  Frame& frame =
      stack_.emplace_back(Frame{object, object, stack_.empty() ? 0 : stack_.back().next, -1, 0});
  if (is_samples(frame)) frame.next = each_ + 1;
}

void RowPlace::close(char bracket) {
  if (stack_.empty() || stack_.back().object != (bracket == '}')) {
    fail_result(std::string("expected JSON, got a ") + bracket + " that closes nothing",
                Fault::kGarbled);
  }
  stack_.pop_back();
}

void RowPlace::take_key(std::string_view key) {
  Frame& frame = stack_.back();
  frame.key = false;
  const bool on_path = frame.here >= 0 && frame.here != each_;
  frame.next = on_path && unescaped_key(key) == path_[frame.here] ? frame.here + 1 : -1;
}

}  // namespace tokengrad
