// A place in a row of a result: which value comes next, and where it goes.
#include "core/wire/row_cursor.h"

#include <algorithm>
#include <cmath>

#include "core/wire/number_reader.h"

namespace tokengrad {
namespace {

/// The longest part of a wrong value that a message shows.
constexpr size_t kShown = 40;

std::string shown(std::string_view text) {
  std::string part(text.substr(0, kShown));
  std::replace_if(part.begin(), part.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kShown ? part + "..." : part;
}

/// What came where a number should be. NaN and Infinity are no JSON, but numbers to some writers,
/// as a word or a string is another value; what begins with anything else is nothing at all.
Fault fault_of(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const char first = text.empty() ? '\0' : text[0];
  const char lower = static_cast<char>(first | 0x20);
  const bool value = (lower >= 'a' && lower <= 'z') || first == '"' || first == '[' || first == '{';
  return value ? Fault::kWrong : Fault::kGarbled;
}

/// What writers of JSON put for a number that is not finite; the strings are those of Protocol
/// Buffers.
bool is_no_number(std::string_view text) {
  return text == "null" || text == "\"NaN\"" || text == "\"Infinity\"" || text == "\"-Infinity\"";
}

}  // namespace

size_t RowCursor::stretch() {
  if (position_ < stretch_end_) return stretch_end_ - position_;
  if (position_ == row_.length) {
    fail_row("expected " + std::to_string(row_.length) + " numbers, one per target, got more");
  }
  const bool more = 2 * run_ < row_.runs.size();
  const size_t run_begin = more ? row_.runs[2 * run_] : row_.length;
  trained_ = position_ == run_begin;
  stretch_end_ = trained_ ? run_begin + row_.runs[2 * run_++ + 1] : run_begin;
  return stretch_end_ - position_;
}

void RowCursor::skip(size_t count) {
  while (count > 0) {
    const size_t passed = std::min(count, stretch());
    advance(passed);
    count -= passed;
  }
}

void RowCursor::take(std::string_view text) {
  stretch();
  const auto [number, end] = parse_number(text);
  const bool none = is_no_number(text);
  if (end == nullptr && !none) fail_value("expected a number, got " + shown(text), fault_of(text));
  const bool usable = !none && std::isfinite(number);
  if (!usable && trained_) {
    fail_value("expected a finite number within float32's range, got " + shown(text),
               Fault::kWrong);
  }
  if (kept()) *target_ = usable ? number : 0;
  advance(1);
}

void RowCursor::check_full() const {
  if (position_ == row_.length) return;
  fail_row("expected " + std::to_string(row_.length) + " numbers, one per target, got " +
           std::to_string(position_));
}

void RowCursor::fail_row(const std::string& problem) const {
  fail_result("sample " + std::to_string(row_.sample) + ": " + problem, Fault::kWrong,
              {{"sample", static_cast<double>(row_.sample)}});
}

void RowCursor::fail_value(const std::string& problem, Fault fault) const {
  fail_result(
      "sample " + std::to_string(row_.sample) + ", position " + std::to_string(position_) + ": " +
          problem,
      fault,
      {{"sample", static_cast<double>(row_.sample)}, {"position", static_cast<double>(position_)}});
}

}  // namespace tokengrad
