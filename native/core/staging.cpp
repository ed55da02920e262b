// Moves arrays between the CPU and the device that computes.
#include "core/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tokengrad {
namespace {

/// Memory that a device can read and write by itself. libtorch keeps it for the next time, and
/// hands none out again before the copies that were begun from it are done.
at::Tensor pinned_like(const at::Tensor& values) {
  return at::empty(values.sizes(),
                   at::TensorOptions(at::kCPU).dtype(values.dtype()).pinned_memory(true));
}

}  // namespace

at::Tensor upload(const at::Tensor& values, at::Device device) {
  if (device.is_cpu()) return values;
  return pinned_like(values).copy_(values).to(device, /*non_blocking=*/true);
}

at::Tensor begin_download(const at::Tensor& values) {
  if (values.is_cpu()) return values.contiguous();
  return pinned_like(values).copy_(values, /*non_blocking=*/true);
}

void finish_downloads(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace tokengrad
