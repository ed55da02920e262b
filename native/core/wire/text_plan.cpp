// A long JSON text made of fixed texts and rows of numbers, cut into pieces that threads write.
#include "core/wire/text_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/wire/decimal_text.h"

namespace tokengrad {
namespace {

/// Bytes of a row's brackets. Every piece of a row has room for both, though a row that is cut has
/// each in one of its pieces only.
constexpr size_t kBrackets = 2;

void check_runs(const TextRow& row, size_t index) {
  if (!row.runs) return;
  size_t free = 0;
  bool ordered = row.runs->size() % 2 == 0;
  for (size_t i = 0; ordered && i < row.runs->size(); i += 2) {
    const size_t begin = (*row.runs)[i];
    ordered = begin >= free;
    free = begin + (*row.runs)[i + 1];
  }
  if (!ordered || free > row.length) {
    throw Error("ERR_REQUEST", "rows[" + std::to_string(index) +
                                   "]: expected ascending runs within " +
                                   std::to_string(row.length) + " positions");
  }
}

Error bad_value(size_t row, size_t position) {
  return {"ERR_VALUE",
          "rows[" + std::to_string(row) + "][" + std::to_string(position) +
              "]: a value that the row's type, rule or runs do not allow",
          {{"row", static_cast<double>(row)}, {"position", static_cast<double>(position)}}};
}

}  // namespace

TextPlan::TextPlan(FixedTexts texts, std::vector<TextRow> rows, size_t piece_bytes)
    : texts_(std::move(texts)), rows_(std::move(rows)) {
  if (texts_.ends.size() != rows_.size() + 1) {
    throw Error("ERR_REQUEST", "texts: expected one more than the " + std::to_string(rows_.size()) +
                                   " rows, got " + std::to_string(texts_.ends.size()));
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    check_runs(rows_[i], i);
    find_most(rows_[i]);
  }
  cut(piece_bytes);
}

void TextPlan::cut(size_t piece_bytes) {
  // An empty piece has what writers touch behind the last value.
  Piece piece{0, {}, true, kNumberRoom};
  const auto close = [&](size_t row, const TextCursor& cursor, bool with_text) {
    pieces_.push_back(piece);
    ends_.push_back({row, cursor.position});
    piece = {row, cursor, with_text, kNumberRoom};
  };
  for (size_t i = 0; i < rows_.size(); ++i) {
    const TextRow& row = rows_[i];
    const size_t each = most_bytes(row);
    const size_t head = texts_[i].size() + kBrackets + each;
    if (piece.capacity > kNumberRoom && piece.capacity + head > piece_bytes) close(i, {}, true);
    piece.capacity += texts_[i].size() + kBrackets;
    TextCursor cursor;
    for (;;) {
      const size_t left = row.length - cursor.position;
      const size_t room = piece_bytes > piece.capacity ? (piece_bytes - piece.capacity) / each : 0;
      const size_t taken = std::min(left, std::max<size_t>(room, 1));
      piece.capacity += taken * each;
      if (taken == left) break;
      skip_positions(row, cursor, cursor.position + taken);
      close(i, cursor, false);
      piece.capacity += kBrackets;
    }
  }
  piece.capacity += texts_[rows_.size()].size();
  close(rows_.size(), {}, false);
}

size_t TextPlan::write(size_t index, std::span<char> block, std::span<size_t> row_ends) const {
  const Piece& piece = pieces_[index];
  const End& end = ends_[index];
  if (block.size() < piece.capacity) {
    throw Error("ERR_REQUEST", "blocks[" + std::to_string(index) + "]: expected " +
                                   std::to_string(piece.capacity) + " bytes, got " +
                                   std::to_string(block.size()));
  }
  char* out = block.data();
  const auto put = [&out](std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    out += text.size();
  };
  TextCursor cursor = piece.cursor;
  bool with_text = piece.with_text;
  size_t row = piece.row;
  try {
    for (; row < rows_.size() && (row < end.row || end.position > 0); ++row) {
      if (with_text) {
        put(texts_[row]);
        *out++ = '[';
      }
      const bool whole = row < end.row;
      const size_t length = rows_[row].length;
      out = write_positions(rows_[row], cursor, whole ? length : end.position, out);
      if (!whole) return out - block.data();
      // The last value's comma, where there is one.
      if (length > 0) --out;
      *out++ = ']';
      row_ends[row] = out - block.data();
      cursor = {};
      with_text = true;
    }
  } catch (const BadValue& bad) {
    throw bad_value(row, bad.position);
  }
  if (end.row == rows_.size()) put(texts_[rows_.size()]);
  return out - block.data();
}

}  // namespace tokengrad
