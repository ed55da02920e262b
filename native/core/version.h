// The version of libtorch: the one compiled against and the one that is loaded.
#pragma once

#include <string>

namespace tokengrad {

/// `major.minor.patch` of the headers that this was compiled with.
std::string compiled_version();

/// `major.minor.patch` of the libtorch that is loaded.
std::string loaded_version();

/// libtorch keeps its binary interface within a minor version only, so the dispatcher must not be
/// touched when these differ. Throws `ERR_LIBTORCH_VERSION` with the facts `found` and `expected`
/// (as `major.minor`).
void check_version(const std::string& loaded, const std::string& compiled);

}  // namespace tokengrad
