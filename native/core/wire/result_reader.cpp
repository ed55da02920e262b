// Reads a JSON text as it arrives.
#include "core/wire/result_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace tokengrad {
namespace {

constexpr size_t kMaxName = 40;
/// What is kept of a key: more than a name needs whose characters all are escaped.
constexpr size_t kMaxKey = 256;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// A key without its escapes. What is not ASCII becomes something that is in no path.
std::string unescaped(std::string_view key) {
  std::string plain;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] != '\\' || i + 1 == key.size()) {
      plain += key[i];
      continue;
    }
    const char kind = key[++i];
    if (kind == 'u') {
      int code = 0;
      for (int k = 0; k < 4; ++k) {
        const int digit = i + 1 < key.size() ? hex_value(key[++i]) : -1;
        code = digit < 0 || code < 0 ? -1 : 16 * code + digit;
      }
      plain += code >= ' ' && code < 0x7f ? static_cast<char>(code) : '\0';
    } else {
      // The others stand for control characters.
      plain += kind == '"' || kind == '\\' || kind == '/' ? kind : '\0';
    }
  }
  return plain;
}

}  // namespace

ResultReader::ResultReader(RowPath path, const RowsSpec& rows, const ReadLimits& limits)
    : path_(std::move(path)),
      path_length_(static_cast<int>(path_.size())),
      rows_(rows),
      limits_(limits) {
  const auto long_name = [](const std::string& name) { return name.size() > kMaxName; };
  if (std::count(path_.begin(), path_.end(), kEachSample) != 1 ||
      std::any_of(path_.begin(), path_.end(), long_name)) {
    throw Error("ERR_REQUEST", "path: expected short names and one * among its members");
  }
}

void ResultReader::keep(const char* begin, const char* end) {
  if (rest_.size() + (end - begin) > limits_.other_bytes) {
    fail_result("expected at most " + std::to_string(limits_.other_bytes) +
                    " bytes beside the rows, got more",
                Fault::kWrong);
  }
  rest_.append(begin, end);
}

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
  if (!stack_.empty() || state_ != State::kStructure) {
    const bool between = state_ == State::kStructure;
    fail_result(std::string("the text ends within ") +
                    (between ? "an object or array" : "a string") + after,
                Fault::kGarbled);
  }
  rows_.check_complete();
}

RowCursor ResultReader::begin_row() {
  const auto each = std::find_if(stack_.begin(), stack_.end(), [this](const Frame& frame) {
    return !frame.object && frame.here >= 0 && path_[frame.here] == kEachSample;
  });
  return rows_.begin(each->index);
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
        if (among_samples()) {
          keep(begin, at + 1);
          begin = at + 1;
          sample_ = {rest_.size(), rest_.size(), rest_.size()};
        }
        if (state_ != State::kRow) break;
        // The row's numbers are left out.
        keep(begin, at + 1);
        return at + 1;
      case '}':
      case ']':
        if (among_samples()) begin = end_sample(begin, at);
        close(c);
        break;
      case ',':
        if (stack_.empty()) break;
        if (among_samples()) {
          begin = end_sample(begin, at);
          keep(begin, at + 1);
          begin = at + 1;
          sample_.begin = rest_.size();
        }
        stack_.back().key = stack_.back().object;
        if (stack_.back().object) stack_.back().next = -1;
        ++stack_.back().index;
        break;
      case ':':
        break;
      case '"':
        in_key_ = !stack_.empty() && stack_.back().key;
        if (!in_key_ && at_row()) {
          begin_row().fail_row("expected an array of numbers, got a string");
        }
        text_.clear();
        state_ = State::kString;
        keep(begin, at + 1);
        return at + 1;
      default:
        if (at_row()) {
          begin_row().fail_row("expected an array of numbers, got another value");
        }
    }
  }
  keep(begin, end);
  return end;
}

const char* ResultReader::end_sample(const char* begin, const char* end) {
  keep(begin, end);
  const std::string_view text(rest_);
  const auto last = text.substr(sample_.last_begin, sample_.last_end - sample_.last_begin);
  // Two of nothing are not like one of nothing: there is a comma between them.
  const bool blank = std::all_of(last.begin(), last.end(), is_space);
  if (!blank && text.substr(sample_.begin) == last) {
    rest_.resize(sample_.last_end);
  } else {
    sample_.last_begin = sample_.begin;
    sample_.last_end = rest_.size();
  }
  return end;
}

void ResultReader::open(char bracket) {
  const bool object = bracket == '{';
  if (at_row()) {
    const RowCursor row = begin_row();
    if (object) row.fail_row("expected an array of numbers, got an object");
    row_ = RowReader(row);
    state_ = State::kRow;
    return;
  }
  if (stack_.size() == limits_.depth) {
    fail_result("expected at most " + std::to_string(limits_.depth) + " levels, got more",
                Fault::kWrong);
  }
  const int here = stack_.empty() ? 0 : stack_.back().next;
  const bool each = !object && here >= 0 && path_[here] == kEachSample;
  stack_.push_back({object, object, here, each ? here + 1 : -1, 0});
}

void ResultReader::close(char bracket) {
  if (stack_.empty() || stack_.back().object != (bracket == '}')) {
    fail_result(std::string("expected JSON, got a ") + bracket + " that closes nothing",
                Fault::kGarbled);
  }
  stack_.pop_back();
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
  keep(begin, at + closed);
  if (closed) end_string();
  return at + closed;
}

void ResultReader::end_string() {
  state_ = State::kStructure;
  if (!in_key_) return;
  Frame& frame = stack_.back();
  frame.key = false;
  const bool on_path = frame.here >= 0 && path_[frame.here] != kEachSample;
  frame.next = on_path && unescaped(text_) == path_[frame.here] ? frame.here + 1 : -1;
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
  const char bracket = ']';
  keep(&bracket, &bracket + 1);
  state_ = State::kStructure;
}

}  // namespace tokengrad
