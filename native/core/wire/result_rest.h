// The text of a result without its rows' numbers.
#pragma once

#include <cstddef>
#include <string>

namespace tokengrad {

/// Of samples that are alike one behind the other it holds one: there may be very many.
class ResultRest {
 public:
  /// Holds `most` bytes at most.
  explicit ResultRest(size_t most) : most_(most) {}

  const std::string& text() const { return text_; }

  /// Goes on with a text. Throws `ERR_RESULT` if that is too much.
  void keep(const char* begin, const char* end);
  void keep(char c) { keep(&c, &c + 1); }
  /// The array of the samples begins here.
  void begin_samples();
  /// A sample ends here: drops it if it is like the one before.
  void end_sample();
  /// As `end_sample`, and goes on with a comma and the next one.
  void next_sample();

 private:
  size_t most_;
  std::string text_;
  /// Where the sample under way begins, and the last one that is held.
  size_t begin_ = 0;
  size_t last_begin_ = 0;
  size_t last_end_ = 0;
};

}  // namespace tokengrad
