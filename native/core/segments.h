// Reductions of consecutive segments and their transpose, differentiable by autograd, on any
// device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include <vector>

namespace tokengrad {

/// Where the segments of a finer axis lie: segment s holds the elements offsets[s] to offsets[s +
/// 1]. May be empty.
class Segments : public torch::CustomClassHolder {
 public:
  /// `offsets` begins with 0 and never decreases; it has one entry more than there are segments.
  Segments(std::vector<int64_t> offsets, at::Device device);

  int64_t count() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t elements() const { return offsets_.back(); }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  /// The segment that an element lies in.
  int64_t segment_of(int64_t element) const;

  /// The offsets on the device. int64, [count + 1]. Made when first asked for: many a run needs the
  /// plain numbers alone. That takes no lock, since segments belong to a layout, a layout to one
  /// run, and the tensors of a run are touched by the thread that runs it alone.
  const at::Tensor& offsets_tensor() const;
  /// How many elements each segment has. float64, [count], on the device.
  at::Tensor lengths() const;
  /// The segment of each element. int64, [elements], on the device.
  at::Tensor ids() const;

 private:
  std::vector<int64_t> offsets_;
  at::Device device_;
  mutable at::Tensor offsets_tensor_;
};

using SegmentsPtr = c10::intrusive_ptr<Segments>;

/// All take `values` of shape [elements] and give float64 of shape [count].

/// Accumulates in float64. 0 of an empty segment. Masks count as 0 and 1.
at::Tensor segment_sum(const at::Tensor& values, const SegmentsPtr& segments);
/// -Infinity of an empty segment. Ties share the gradient equally.
at::Tensor segment_max(const at::Tensor& values, const SegmentsPtr& segments);
/// +Infinity of an empty segment. Ties share the gradient equally.
at::Tensor segment_min(const at::Tensor& values, const SegmentsPtr& segments);

/// Gives each element the value of its segment, as `dtype`. `values` is [count], the result
/// [elements].
at::Tensor segment_spread(const at::Tensor& values, const SegmentsPtr& segments,
                          at::ScalarType dtype);

/// The parts of the above that have a loop of their own on the CPU, written with ATen's ops for
/// every other device.
namespace portable {
at::Tensor sum(const at::Tensor& values, const Segments& segments);
at::Tensor max(const at::Tensor& values, const Segments& segments);
at::Tensor min(const at::Tensor& values, const Segments& segments);
at::Tensor spread(const at::Tensor& values, const Segments& segments, at::ScalarType dtype);
}  // namespace portable

}  // namespace tokengrad
