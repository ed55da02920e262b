// Chooses the device to compute on, and finds out what stands between this process and CUDA.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace tokengrad {

/// What is known of CUDA in this process.
struct CudaStatus {
  /// `not-built`: libtorch has no CUDA part. `not-opened`: it has one that nobody asked for yet.
  /// `open-failed`: its libraries do not load. `no-driver`, `old-driver`, `no-device`: it loads but
  /// finds no usable GPU. `ready`.
  std::string state;
  /// Why CUDA cannot be used, in words; empty when it is ready or was not asked for.
  std::string reason;
  /// Number of GPUs when ready, else 0.
  int devices = 0;
};

/// The state of CUDA as far as it is known without opening anything.
CudaStatus cuda_status();

/// Opens the CUDA part of libtorch, once per process, and looks for GPUs. Takes the better part of
/// a second the first time. Must come before the first ATen call of the process: libtorch decides
/// then, for good, whether it has CUDA.
CudaStatus open_cuda();

struct DeviceChoice {
  c10::Device device;
  /// Why `auto` did not take CUDA; empty otherwise.
  std::string fallback_reason;
};

/// Resolves `cpu`, `cuda`, `cuda:N` or `auto` (a GPU if there is one).
/// Throws `ERR_REQUEST` for another text, `ERR_DEVICE` with the fact `reason` (a
/// `CudaStatus::state`) where the device cannot be had.
DeviceChoice choose_device(const std::string& requested);

}  // namespace tokengrad
