// A long JSON text made of fixed texts and rows of numbers, cut into pieces that threads write.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/wire/row_text.h"

namespace tokengrad {

/// Texts one behind the other, and where each ends.
struct FixedTexts {
  std::string all;
  std::vector<size_t> ends;

  std::string_view operator[](size_t text) const {
    const size_t begin = text == 0 ? 0 : ends[text - 1];
    return std::string_view(all).substr(begin, ends[text] - begin);
  }
};

class TextPlan {
 public:
  /// The text is `texts[0]`, row 0 as a JSON array, `texts[1]`, row 1, ...: there is one text more
  /// than rows. Pieces take up to `piece_bytes`, unless a single text is longer.
  /// Throws `ERR_REQUEST` if the parts do not fit together.
  TextPlan(FixedTexts texts, std::vector<TextRow> rows, size_t piece_bytes);

  size_t pieces() const { return pieces_.size(); }
  /// Bytes that a piece needs to be written.
  size_t capacity(size_t piece) const { return pieces_[piece].capacity; }
  size_t rows() const { return rows_.size(); }
  /// How many rows have ended when a piece has.
  size_t rows_ended(size_t piece) const { return ends_[piece].row; }
  /// Writes a piece and gives its length. `row_ends` has an entry for every row; those of the rows
  /// that end in this piece are set to where in it. Throws `ERR_VALUE` with the facts `row` and
  /// `position` at a value that cannot be written.
  size_t write(size_t piece, std::span<char> out, std::span<size_t> row_ends) const;

 private:
  struct Piece {
    /// Where it begins: at a row's position, or with the text before the row.
    size_t row;
    TextCursor cursor;
    bool with_text;
    size_t capacity;
  };
  void cut(size_t piece_bytes);

  FixedTexts texts_;
  std::vector<TextRow> rows_;
  std::vector<Piece> pieces_;
  /// Where each piece ends: the row that is not finished, and its position there.
  struct End {
    size_t row;
    size_t position;
  };
  std::vector<End> ends_;
};

}  // namespace tokengrad
