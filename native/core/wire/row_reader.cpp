// Reads the values of a row of a result.
#include "core/wire/row_reader.h"

#include <algorithm>

#include "core/wire/number_reader.h"

namespace tokengrad {
namespace {

/// Numbers that are longer come from nowhere.
constexpr size_t kMaxNumber = 1024;

}  // namespace

const char* RowReader::read(const char* at, const char* end, const char* room) {
  while (at < end && !ended()) at = step(at, end, room);
  return at;
}

const char* RowReader::read_to_value(const char* at, const char* end) {
  while (at < end && !ended() && !before_value()) at = step(at, end, end);
  return at;
}

void RowReader::skip(size_t values) {
  row_.skip(values);
  first_ = false;
}

const char* RowReader::step(const char* at, const char* end, const char* room) {
  if (state_ == State::kToken) return token(at, end);
  if (is_space(*at)) return at + 1;
  if (state_ == State::kBehind) {
    if (*at == ']') {
      state_ = State::kEnded;
    } else if (*at == ',') {
      state_ = State::kElement;
      first_ = false;
    } else {
      row_.fail_value("expected a comma or the end of the row", Fault::kGarbled);
    }
    return at + 1;
  }
  if (*at == ']') {
    if (!first_) row_.fail_value("expected a number, got the end of the row", Fault::kGarbled);
    state_ = State::kEnded;
    return at + 1;
  }
  const char* const next = numbers(at, end, room);
  if (next == at) {
    row_.stretch();
    state_ = State::kToken;
  }
  return next;
}

const char* RowReader::numbers(const char* at, const char* end, const char* room) {
  if (room - at < static_cast<ptrdiff_t>(kReadRoom)) return at;
  const char* const last = std::min(room - kReadRoom, end - 1);
  const size_t most = row_.stretch();
  const bool kept = row_.kept();
  float* const target = row_.target();
  size_t count = 0;
  while (count < most && at <= last) {
    const auto [value, number_end] = read_number(at);
    if (number_end == nullptr) break;
    const bool more = *number_end == ',';
    // A number that goes on in some other way is none.
    if (!more && *number_end != ']' && !is_space(*number_end)) break;
    if (kept) target[count] = value;
    ++count;
    at = number_end;
    if (!more) {
      state_ = State::kBehind;
      break;
    }
    ++at;
    at += *at == ' ';
  }
  row_.advance(count);
  first_ &= count == 0;
  return at;
}

const char* RowReader::token(const char* at, const char* end) {
  const char* const begin = at;
  while (at < end && *at != ',' && *at != ']' && !is_space(*at)) ++at;
  if (text_.size() + (at - begin) > kMaxNumber) {
    row_.fail_value("expected a number of at most " + std::to_string(kMaxNumber) + " characters",
                    Fault::kWrong);
  }
  text_.append(begin, at);
  if (at == end) return at;
  row_.take(text_);
  text_.clear();
  first_ = false;
  state_ = State::kBehind;
  return at;
}

}  // namespace tokengrad
