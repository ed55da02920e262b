// Reads a JSON text as it arrives.
#include "core/wire/result_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace tokengrad {
namespace {

/// What is kept of a key: more than a name needs whose characters all are escaped.
constexpr size_t kMaxKey = 256;

}  // namespace

ResultReader::ResultReader(RowPath path, const RowsSpec& rows, const ReadLimits& limits)
    : place_(std::move(path), limits.depth), rows_(rows), rest_(limits.other_bytes) {}

void ResultReader::push(std::string_view bytes, Passages* later) {
  bytes_ += bytes.size();
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    switch (state_) {
      case State::kStructure:
        at = structure(at, end);
        break;
      case State::kString:
      case State::kEscape:
        at = string(at, end);
        break;
      case State::kRow:
        at = row(at, end, later);
        break;
    }
  }
}

void ResultReader::finish() {
  const std::string after = ", after " + std::to_string(bytes_) + " bytes";
  if (state_ == State::kRow) {
    row_.row().fail_value("the text ends here" + after, Fault::kGarbled);
  }
  if (!place_.at_top() || state_ != State::kStructure) {
    const bool between = state_ == State::kStructure;
    fail_result(std::string("the text ends within ") +
                    (between ? "an object or array" : "a string") + after,
                Fault::kGarbled);
  }
  rows_.check_complete();
}

const char* ResultReader::structure(const char* at, const char* end) {
  const char* begin = at;
  for (; at < end; ++at) {
    const char c = *at;
    if (is_space(c)) continue;
    if (!begun_) {
      begun_ = true;
      if (std::strchr("{[\"-0123456789tfn", c) == nullptr || c == '\0') {
        fail_result("expected JSON, got text that begins with another character", Fault::kGarbled);
      }
    }
    switch (c) {
      case '{':
      case '[':
        open(c);
        if (state_ == State::kRow) {
          // The row's numbers are left out.
          rest_.keep(begin, at + 1);
          return at + 1;
        }
        if (place_.among_samples()) {
          rest_.keep(begin, at + 1);
          begin = at + 1;
          rest_.begin_samples();
        }
        break;
      case '}':
      case ']':
        if (place_.among_samples()) {
          rest_.keep(begin, at);
          begin = at;
          rest_.end_sample();
        }
        place_.close(c);
        break;
      case ',':
        if (place_.among_samples()) {
          rest_.keep(begin, at);
          begin = at + 1;
          rest_.next_sample();
        }
        place_.next();
        break;
      case ':':
        break;
      case '"':
        in_key_ = place_.before_key();
        if (!in_key_ && place_.before_row()) {
          begin_row().fail_row("expected an array of numbers, got a string");
        }
        text_.clear();
        state_ = State::kString;
        rest_.keep(begin, at + 1);
        return at + 1;
      default:
        if (place_.before_row()) {
          begin_row().fail_row("expected an array of numbers, got another value");
        }
    }
  }
  rest_.keep(begin, end);
  return end;
}

void ResultReader::open(char bracket) {
  if (!place_.before_row()) return place_.open(bracket);
  const RowCursor row = begin_row();
  if (bracket == '{') row.fail_row("expected an array of numbers, got an object");
  row_ = RowReader(row);
  state_ = State::kRow;
}

const char* ResultReader::string(const char* at, const char* end) {
  const char* const begin = at;
  for (; at < end; ++at) {
    if (state_ == State::kEscape) {
      state_ = State::kString;
    } else if (*at == '\\') {
      state_ = State::kEscape;
    } else if (*at == '"') {
      break;
    }
  }
  if (in_key_ && text_.size() < kMaxKey) {
    text_.append(begin, std::min<size_t>(at - begin, kMaxKey));
  }
  const bool closed = at < end;
  rest_.keep(begin, at + closed);
  if (closed) {
    state_ = State::kStructure;
    if (in_key_) place_.take_key(text_);
  }
  return at + closed;
}

const char* ResultReader::row(const char* at, const char* end, Passages* later) {
  if (later != nullptr) {
    at = row_.read_to_value(at, end);
    at = leave_passage(row_, at, end, *later);
  }
  at = row_.read(at, end, end);
  if (row_.ended()) end_row();
  return at;
}

void ResultReader::end_row() {
  rows_.end(row_.row());
  rest_.keep(']');
  state_ = State::kStructure;
}

}  // namespace tokengrad
