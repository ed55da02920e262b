// Reads what JavaScript hands to the wire.
#include "addon/wire_parts.h"

#include <utility>
#include <vector>

namespace tokengrad {
namespace {

bool is_defined(const Reader& reader) { return !reader.value().IsUndefined(); }

/// The type of a row's values, if they may follow the rule.
RowType type_of(const Reader& values, napi_typedarray_type type, RowRule rule) {
  const bool id = rule == RowRule::kId || rule == RowRule::kQuotedId;
  if (type == napi_float32_array && !id) return RowType::kFloat32;
  if (type == napi_float64_array && !id) return RowType::kFloat64;
  if (type == napi_uint16_array && rule == RowRule::kNumber) return RowType::kBfloat16;
  if (type == napi_int32_array && id) return RowType::kInt32;
  if (type == napi_bigint64_array && id) return RowType::kInt64;
  values.refuse("an array of a type that the row's rule allows");
}

RowRule rule_of(const Reader& reader) {
  const std::string name = reader.text();
  if (name == "number") return RowRule::kNumber;
  if (name == "weight") return RowRule::kWeight;
  if (name == "id") return RowRule::kId;
  if (name == "quotedId") return RowRule::kQuotedId;
  reader.refuse("\"number\", \"weight\", \"id\" or \"quotedId\"");
}

TextRow row_of(const Reader& given) {
  const Reader values = given["values"];
  const Reader::View view = values.typed_array("a typed array");
  TextRow row{};
  row.rule = rule_of(given["rule"]);
  row.type = type_of(values, view.type, row.rule);
  row.values = view.data;
  row.length = view.length;
  if (const Reader runs = given["runs"]; is_defined(runs)) {
    row.runs = runs.uint32s();
    const Reader length = given["length"];
    if (!is_defined(length)) return row;
    row.packed = true;
    row.length = length.whole(0, UINT32_MAX);
    size_t count = 0;
    for (size_t i = 1; i < row.runs->size(); i += 2) count += (*row.runs)[i];
    if (count != view.length) values.refuse(std::to_string(count) + " values, as the runs tell");
  }
  return row;
}

uint64_t limit_of(const Reader& reader) {
  const double limit = reader.number();
  if (!(limit >= 0)) reader.refuse("a number of at least 0");
  // Up to 2^53 all are exact, and Infinity stands for no limit.
  return limit < 0x1p53 ? static_cast<uint64_t>(limit) : uint64_t{1} << 53;
}

std::span<float> float32s(const Reader& reader) {
  const Reader::View view = reader.typed_array("a Float32Array");
  if (view.type != napi_float32_array) reader.refuse("a Float32Array");
  return {static_cast<float*>(view.data), view.length};
}

}  // namespace

TextPlan text_plan_of(const Reader& texts, const Reader& rows, size_t piece_bytes) {
  std::vector<std::string> given_texts(texts.length());
  for (uint32_t i = 0; i < given_texts.size(); ++i) given_texts[i] = texts[i].text();
  std::vector<TextRow> given_rows(rows.length());
  for (uint32_t i = 0; i < given_rows.size(); ++i) given_rows[i] = row_of(rows[i]);
  return {std::move(given_texts), std::move(given_rows), piece_bytes};
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
  constexpr uint32_t kDeepest = 10'000;
  return {std::move(members), rows,
          ReadLimits{.bytes = limit_of(options["maxBytes"]),
                     .other_bytes = limit_of(options["maxOtherBytes"]),
                     .depth = options["maxDepth"].whole(1, kDeepest)}};
}

std::string_view bytes_of(const Reader& part) {
  const Reader::View view = part.typed_array("a Uint8Array");
  if (view.type != napi_uint8_array) part.refuse("a Uint8Array");
  return {static_cast<const char*>(view.data), view.length};
}

}  // namespace tokengrad
