// The version of libtorch: the one compiled against and the one that is loaded.
#include "core/version.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/version.h>

#include <cstdint>

#include "core/error.h"

namespace tokengrad {

std::string compiled_version() { return TORCH_VERSION; }

std::string loaded_version() {
  // One byte each: major, minor, patch. This call is part of libtorch's stable C interface.
  const uint64_t version = aoti_torch_abi_version();
  const auto byte = [version](int shift) { return std::to_string((version >> shift) & 0xff); };
  return byte(56) + "." + byte(48) + "." + byte(40);
}

void check_version(const std::string& loaded, const std::string& compiled) {
  const auto minor = [](const std::string& version) {
    return version.substr(0, version.find('.', version.find('.') + 1));
  };
  if (minor(loaded) == minor(compiled)) return;
  throw Error("ERR_LIBTORCH_VERSION",
              "libtorch: expected version " + minor(compiled) + ", got " + loaded,
              {{"found", loaded}, {"expected", minor(compiled)}});
}

}  // namespace tokengrad
