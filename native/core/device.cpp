// Chooses the device to compute on, and finds out what stands between this process and CUDA.
#include "core/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <charconv>
#include <filesystem>
#include <mutex>

#include "core/error.h"

namespace tokengrad {
namespace {

namespace fs = std::filesystem;

/// The folder that libtorch_cpu was loaded from.
fs::path libtorch_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&aoti_torch_abi_version), &info) == 0) return {};
  return fs::path(info.dli_fname).lexically_normal().parent_path();
}

fs::path cuda_library() { return libtorch_folder() / "libtorch_cuda.so"; }

CudaStatus not_built() {
  return {"not-built", "libtorch was built without CUDA: there is no " + cuda_library().string()};
}

/// What a failed start of CUDA means, by the words of libtorch.
std::string state_of(const std::string& message) {
  const auto says = [&message](const char* words) {
    return message.find(words) != std::string::npos;
  };
  if (says("driver on your system is too old")) return "old-driver";
  if (says("No CUDA GPUs")) return "no-device";
  return "no-driver";
}

CudaStatus look_for_gpus() {
  const fs::path library = cuda_library();
  if (!fs::exists(library)) return not_built();
  // Global: the library's own parts find each other's symbols. It is never closed, as its kernels
  // stay registered.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return {"open-failed", dlerror()};
  }
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    return {"open-failed",
            "libtorch was used in this process before CUDA was asked for, and has decided by then "
            "that there is none: start the engine first"};
  }
  try {
    at::detail::getCUDAHooks().init();
    const int devices = at::detail::getCUDAHooks().deviceCount();
    if (devices == 0) return {"no-device", "no CUDA GPUs are available"};
    return {"ready", "", devices};
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return {state_of(message), message};
  }
}

/// The outcome of the one attempt of this process.
struct Attempt {
  std::mutex mutex;
  bool made = false;
  CudaStatus status;
};

Attempt& attempt() {
  static auto* instance = new Attempt;  // outlives every thread of the engine, also at exit
  return *instance;
}

[[noreturn]] void refuse(const std::string& requested, const std::string& state,
                         const std::string& reason) {
  throw Error("ERR_DEVICE", "device: expected " + requested + ", got none: " + reason,
              {{"reason", state}});
}

/// N of `cuda:N`; 0 of `cuda`; -1 of anything else.
int cuda_index(const std::string& requested) {
  if (requested == "cuda") return 0;
  if (!requested.starts_with("cuda:")) return -1;
  int index = -1;
  const char* const end = requested.data() + requested.size();
  const auto [rest, fault] = std::from_chars(requested.data() + 5, end, index);
  return fault == std::errc() && rest == end ? index : -1;
}

}  // namespace

CudaStatus cuda_status() {
  const std::lock_guard lock(attempt().mutex);
  if (attempt().made) return attempt().status;
  if (!fs::exists(cuda_library())) return not_built();
  return {"not-opened", ""};
}

CudaStatus open_cuda() {
  const std::lock_guard lock(attempt().mutex);
  if (!attempt().made) {
    attempt().status = look_for_gpus();
    attempt().made = true;
  }
  return attempt().status;
}

DeviceChoice choose_device(const std::string& requested) {
  if (requested == "cpu") return {c10::kCPU, ""};
  const bool automatic = requested == "auto";
  const int index = automatic ? 0 : cuda_index(requested);
  if (index < 0) {
    throw Error(
        "ERR_REQUEST",
        "device: expected \"cpu\", \"cuda\", \"cuda:N\" or \"auto\", got \"" + requested + "\"");
  }
  const CudaStatus status = open_cuda();
  if (automatic && status.state != "ready") return {c10::kCPU, status.reason};
  if (status.state != "ready") refuse(requested, status.state, status.reason);
  if (index >= status.devices) {
    refuse(requested, "no-device", "there are " + std::to_string(status.devices) + " GPUs");
  }
  return {c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)), ""};
}

}  // namespace tokengrad
