// Reads what JavaScript hands to the wire: texts and rows to write, places for rows to read.
#pragma once

#include <napi.h>

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

}  // namespace tokengrad
