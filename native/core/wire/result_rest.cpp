// The text of a result without its rows' numbers.
#include "core/wire/result_rest.h"

#include <algorithm>
#include <string_view>

#include "core/wire/result_fault.h"
#include "core/wire/row_reader.h"

namespace tokengrad {

void ResultRest::keep(const char* begin, const char* end) {
  if (text_.size() + (end - begin) > most_) {
    fail_result("expected at most " + std::to_string(most_) + " bytes beside the rows, got more",
                Fault::kWrong);
  }
  text_.append(begin, end);
}

void ResultRest::begin_samples() { begin_ = last_begin_ = last_end_ = text_.size(); }

void ResultRest::end_sample() {
  const std::string_view text(text_);
  const auto last = text.substr(last_begin_, last_end_ - last_begin_);
  // Two of nothing are not like one of nothing: there is a comma between them.
  const bool blank = std::all_of(last.begin(), last.end(), is_space);
  if (!blank && text.substr(begin_) == last) {
    text_.resize(last_end_);
  } else {
    last_begin_ = begin_;
    last_end_ = text_.size();
  }
}

void ResultRest::next_sample() {
  end_sample();
  keep(',');
  begin_ = text_.size();
}

}  // namespace tokengrad
