// Reads what JavaScript hands to the wire.
#include "addon/wire_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tokengrad {
namespace {

/// What a row's values are; none if its rule does not allow them.
std::optional<RowType> type_of(napi_typedarray_type type, RowRule rule) {
  const bool id = rule == RowRule::kId || rule == RowRule::kQuotedId;
  if (type == napi_float32_array && !id) return RowType::kFloat32;
  if (type == napi_float64_array && !id) return RowType::kFloat64;
  if (type == napi_uint16_array && rule == RowRule::kNumber) return RowType::kBfloat16;
  if (type == napi_int32_array && id) return RowType::kInt32;
  if (type == napi_bigint64_array && id) return RowType::kInt64;
  return std::nullopt;
}

/// An array of typed arrays. There may be many, so that an element's path is made only for a
/// message. Their buffers are of fixed size: the caller sees to it.
class TypedArrays {
 public:
  explicit TypedArrays(const Reader& arrays) : arrays_(arrays) {}

  Reader::View at(uint32_t index) const {
    const Napi::Value value = arrays_.value().As<Napi::Array>().Get(index);
    Reader::View view{};
    if (!read(value, view)) arrays_[index].refuse("a typed array");
    return view;
  }

 private:
  static bool read(Napi::Value value, Reader::View& view) {
    return napi_get_typedarray_info(value.Env(), value, &view.type, &view.length, &view.data,
                                    nullptr, nullptr) == napi_ok;
  }

  const Reader& arrays_;
};

/// The part of `runs` that is a row's: two numbers of `range`, the first run and how many there
/// are.
std::optional<std::span<const uint32_t>> runs_of(std::span<const uint32_t> runs,
                                                 const int32_t* range, const Reader& refuser) {
  if (range[1] < 0) return std::nullopt;
  const size_t first = 2 * static_cast<size_t>(range[0]);
  const size_t count = 2 * static_cast<size_t>(range[1]);
  if (range[0] < 0 || first + count > runs.size()) refuser.refuse("ranges within the runs");
  return runs.subspan(first, count);
}

TextRow row_of(const Reader::View& values, uint8_t rule,
               std::optional<std::span<const uint32_t>> runs, double length,
               const Reader& refuser) {
  if (rule > static_cast<uint8_t>(RowRule::kQuotedId)) refuser.refuse("rows with known rules");
  TextRow row{};
  row.rule = static_cast<RowRule>(rule);
  const std::optional<RowType> type = type_of(values.type, row.rule);
  if (!type) refuser.refuse("arrays of a type that their row's rule allows");
  row.type = *type;
  row.values = values.data;
  row.length = values.length;
  row.runs = runs;
  if (length < 0) return row;
  row.packed = true;
  row.length = static_cast<size_t>(length);
  size_t count = 0;
  for (size_t i = 1; runs && i < runs->size(); i += 2) count += (*runs)[i];
  if (count != values.length) refuser.refuse("packed rows with as many values as their runs tell");
  return row;
}

std::span<float> float32s(const Reader& reader) {
  const Reader::View view = reader.typed_array("a Float32Array");
  if (view.type != napi_float32_array) reader.refuse("a Float32Array");
  return {static_cast<float*>(view.data), view.length};
}

}  // namespace

TextPlan text_plan_of(const Reader& rows, size_t piece_bytes) {
  FixedTexts texts{rows["text"].text(), {}};
  const Reader text_ends = rows["textEnds"];
  const std::span<const uint32_t> ends = text_ends.uint32s();
  texts.ends.assign(ends.begin(), ends.end());
  if (!std::is_sorted(ends.begin(), ends.end()) || ends.empty() ||
      ends.back() != texts.all.size()) {
    text_ends.refuse("ascending ends within the text");
  }
  const Reader values = rows["values"];
  const std::span<const uint32_t> runs = rows["runs"].uint32s();
  const Reader run_ranges = rows["runRanges"];
  const std::span<const int32_t> ranges = run_ranges.int32s();
  const std::string_view rules = bytes_of(rows["rules"]);
  const std::span<const double> lengths = rows["lengths"].float64s();
  const uint32_t count = values.length();
  if (ranges.size() != 2 * size_t{count} || rules.size() != count || lengths.size() != count) {
    rows.refuse("columns of one length");
  }
  const TypedArrays value_rows(values);
  std::vector<TextRow> given(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto own_runs = runs_of(runs, &ranges[2 * size_t{i}], run_ranges);
    given[i] =
        row_of(value_rows.at(i), static_cast<uint8_t>(rules[i]), own_runs, lengths[i], values);
  }
  return {std::move(texts), std::move(given), piece_bytes};
}

ResultReader result_reader_of(const Reader& options) {
  const Reader path = options["path"];
  RowPath members(path.length());
  for (uint32_t i = 0; i < members.size(); ++i) members[i] = path[i].text();
  const Reader packed = options["packed"];
  if (!packed.value().IsBoolean()) packed.refuse("true or false");
  const RowsSpec rows{.lengths = options["rowLengths"].uint32s(),
                      .run_counts = options["runCounts"].uint32s(),
                      .runs = options["runs"].uint32s(),
                      .out = float32s(options["output"]),
                      .packed = packed.value().As<Napi::Boolean>()};
  return {std::move(members), rows};
}

std::string_view bytes_of(const Reader& part) {
  const Reader::View view = part.typed_array("a Uint8Array");
  if (view.type != napi_uint8_array) part.refuse("a Uint8Array");
  return {static_cast<const char*>(view.data), view.length};
}

}  // namespace tokengrad
