// Moves arrays between the CPU and the device that computes, without waiting where that is
// possible.
#pragma once

#include <ATen/core/Tensor.h>

namespace tokengrad {

/// Brings values from the CPU to a device. On the CPU that is the tensor itself, over the memory it
/// has. To another device the copy goes through pinned memory and is not waited for: the caller's
/// memory is free when this returns.
at::Tensor upload(const at::Tensor& values, at::Device device);

/// Contiguous values on the CPU. From another device the copy goes to pinned memory and is there
/// only after `finish_downloads`; on the CPU it is the tensor itself where it can be.
at::Tensor begin_download(const at::Tensor& values);

/// Waits for all downloads that the calling thread has begun from a device.
void finish_downloads(at::Device device);

}  // namespace tokengrad
