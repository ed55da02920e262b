// The JavaScript handle of a checked program.
#pragma once

#include <napi.h>

#include <memory>

#include "addon/reader.h"
#include "core/executor.h"

namespace tokengrad {

/// `compile(spec)`: checks a program and gives an opaque handle; it holds no memory worth disposing
/// of.
Napi::Value compile(const Napi::CallbackInfo& info);

/// `lacking(program)`: names of the program's ops that the fused executor has no kernel for; it
/// runs a program only if there are none.
Napi::Value lacking(const Napi::CallbackInfo& info);

/// The program behind a handle. Throws `ERR_REQUEST` if it is none.
std::shared_ptr<const Compiled> program_of(const Reader& handle);

}  // namespace tokengrad
