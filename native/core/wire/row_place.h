// Where in a JSON text a reader is: what is open there, and how far that leads to a row.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tokengrad {

/// The members that lead from the top of the text to a row, with names of up to 40 characters. One
/// of them is `kEachSample`: the elements of an array, one a sample.
using RowPath = std::vector<std::string>;
inline constexpr std::string_view kEachSample = "*";

class RowPlace {
 public:
  /// Arrays and objects are within each other up to `depth`. Throws `ERR_REQUEST` if the path is no
  /// good.
  RowPlace(RowPath path, size_t depth);

  /// Whether nothing is open.
  bool at_top() const { return stack_.empty(); }
  /// Whether the next string is a key.
  bool before_key() const { return !stack_.empty() && stack_.back().key; }
  /// Whether the next value is a row.
  bool before_row() const { return !stack_.empty() && stack_.back().next == path_length_; }
  /// Whether the array of the samples is the innermost one that is open.
  bool among_samples() const { return !stack_.empty() && is_samples(stack_.back()); }
  /// The sample that is open. Only before a row.
  size_t sample() const;

  /// These follow the text, but for the rows. They throw `ERR_RESULT` where it is too deep or
  /// closes what is not open.
  void open(char bracket);
  void close(char bracket);
  void next() {
    if (stack_.empty()) return;
    Frame& frame = stack_.back();
    frame.key = frame.object;
    if (frame.object) frame.next = -1;
    ++frame.index;
  }
  /// The key as it is in the text, or the beginning of a long one.
  void take_key(std::string_view key);

 private:
  /// An object or array that is open.
  struct Frame {
    bool object;
    /// In an object: the next string is a key.
    bool key;
    /// How many members of the path lead here, and to the value that comes next; -1 if it is not on
    /// the path.
    int here;
    int next;
    size_t index;
  };

  bool is_samples(const Frame& frame) const { return !frame.object && frame.here == each_; }

  RowPath path_;
  int path_length_;
  /// Members of the path that lead to the array of the samples.
  int each_;
  size_t depth_;
  std::vector<Frame> stack_;
};

}  // namespace tokengrad
