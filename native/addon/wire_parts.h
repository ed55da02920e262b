// Reads what JavaScript hands to the wire: texts and rows to write, places for rows to read.
#pragma once

#include <napi.h>

#include <cstdint>
#include <map>
#include <string_view>

#include "addon/reader.h"
#include "core/wire/result_reader.h"
#include "core/wire/text_plan.h"

namespace tokengrad {

/// The members of `rows` are those of `NativeRows`. Their memory stays JavaScript's. Throws
/// `ERR_REQUEST`.
TextPlan text_plan_of(const Reader& rows, size_t piece_bytes);

/// The members of `options` are those of `NativeReadOptions`. Throws `ERR_REQUEST`.
ResultReader result_reader_of(const Reader& options);

/// The bytes of a Uint8Array.
std::string_view bytes_of(const Reader& part);

/// The entry that an id stands for. Throws `ERR_REQUEST`.
template <typename T>
typename std::map<uint32_t, T>::iterator entry_of(std::map<uint32_t, T>& entries, Napi::Value id) {
  const Reader reader(id, "id");
  const auto entry = entries.find(reader.whole(0, UINT32_MAX));
  if (entry == entries.end()) reader.refuse("the id of something that goes on");
  return entry;
}

}  // namespace tokengrad
