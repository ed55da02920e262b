// The JavaScript handle of a checked program.
#pragma once

#include <napi.h>

#include <memory>

#include "addon/reader.h"
#include "core/program.h"

namespace tokengrad {

/// `compile(spec)`: checks a program and gives an opaque handle; it holds no memory worth disposing
/// of.
Napi::Value compile(const Napi::CallbackInfo& info);

/// The program behind a handle. Throws `ERR_REQUEST` if it is none.
std::shared_ptr<const Program> program_of(const Reader& handle);

}  // namespace tokengrad
