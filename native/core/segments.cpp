// Reductions of consecutive segments and their transpose, differentiable by autograd, on any
// device.
#include "core/segments.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/parallel.h"
#include "core/reduction.h"

namespace tokengrad {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Eight partial results, combined in a fixed order: fast, and the same bits on any number of
/// threads.
template <Reduction kReduction, typename T>
double reduce_range(const T* values, int64_t size) {
  constexpr int kLanes = 8;
  double lanes[kLanes];
  std::fill(lanes, lanes + kLanes, empty_of(kReduction));
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = join(kReduction, lanes[lane], static_cast<double>(values[i + lane]));
  }
  for (int lane = 0; i < size; ++i, ++lane)
    lanes[lane] = join(kReduction, lanes[lane], static_cast<double>(values[i]));
  for (int step = 1; step < kLanes; step *= 2) {
    for (int lane = 0; lane < kLanes; lane += 2 * step)
      lanes[lane] = join(kReduction, lanes[lane], lanes[lane + step]);
  }
  return lanes[0];
}

template <Reduction kReduction>
at::Tensor reduce_on_cpu(const at::Tensor& given, const Segments& segments) {
  const at::Tensor values = given.contiguous();
  at::Tensor results = at::empty({segments.count()}, values.options().dtype(at::kDouble));
  const int64_t* const offsets = segments.offsets().data();
  double* const out = results.data_ptr<double>();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBool, values.scalar_type(), "segment_reduce", [&] {
    const scalar_t* const in = values.const_data_ptr<scalar_t>();
    parallel_for(segments.count(), segments.elements(), [=](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        out[s] = reduce_range<kReduction>(in + offsets[s], offsets[s + 1] - offsets[s]);
      }
    });
  });
  return results;
}

at::Tensor spread_on_cpu(const at::Tensor& given, const Segments& segments, at::ScalarType dtype) {
  const at::Tensor values = given.to(dtype).contiguous();
  at::Tensor spread = at::empty({segments.elements()}, values.options());
  const int64_t* const offsets = segments.offsets().data();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBool, dtype, "segment_spread", [&] {
    const scalar_t* const in = values.const_data_ptr<scalar_t>();
    scalar_t* const out = spread.data_ptr<scalar_t>();
    parallel_for(segments.count(), segments.elements(), [=](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s)
        std::fill(out + offsets[s], out + offsets[s + 1], in[s]);
    });
  });
  return spread;
}

at::Tensor plain_sum(const at::Tensor& values, const Segments& segments) {
  return values.is_cpu() ? reduce_on_cpu<Reduction::kSum>(values, segments)
                         : portable::sum(values, segments);
}

at::Tensor plain_spread(const at::Tensor& values, const Segments& segments, at::ScalarType dtype) {
  return values.is_cpu() ? spread_on_cpu(values, segments, dtype)
                         : portable::spread(values, segments, dtype);
}

void keep(AutogradContext* context, const SegmentsPtr& segments, at::ScalarType dtype) {
  context->saved_data["segments"] = c10::IValue::make_capsule(segments);
  context->saved_data["dtype"] = static_cast<int64_t>(dtype);
}

/// The segments and dtype of `keep`; the capsule keeps them alive as long as the context.
const Segments& kept_segments(AutogradContext* context) {
  return static_cast<const Segments&>(*context->saved_data["segments"].toCapsule());
}
at::ScalarType kept_dtype(AutogradContext* context) {
  return static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
}

struct Sum : torch::autograd::Function<Sum> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values,
                            const SegmentsPtr& segments) {
    keep(context, segments, values.scalar_type());
    return plain_sum(values, *segments);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {plain_spread(gradients[0], kept_segments(context), kept_dtype(context)), {}};
  }
};

struct Spread : torch::autograd::Function<Spread> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values,
                            const SegmentsPtr& segments, at::ScalarType dtype) {
    keep(context, segments, values.scalar_type());
    return plain_spread(values, *segments, dtype);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {plain_sum(gradients[0], kept_segments(context)).to(kept_dtype(context)), {}, {}};
  }
};

at::Tensor by_libtorch(const at::Tensor& values, const Segments& segments, const char* which,
                       Reduction reduction) {
  return at::segment_reduce(values.to(at::kDouble), which, {}, {}, segments.offsets_tensor(), 0,
                            /*unsafe=*/true, empty_of(reduction));
}

}  // namespace

namespace portable {

at::Tensor sum(const at::Tensor& values, const Segments& segments) {
  return by_libtorch(values, segments, "sum", Reduction::kSum);
}

at::Tensor max(const at::Tensor& values, const Segments& segments) {
  return by_libtorch(values, segments, "max", Reduction::kMax);
}

at::Tensor min(const at::Tensor& values, const Segments& segments) {
  return by_libtorch(values, segments, "min", Reduction::kMin);
}

at::Tensor spread(const at::Tensor& values, const Segments& segments, at::ScalarType dtype) {
  return values.to(dtype).index_select(0, segments.ids());
}

}  // namespace portable

Segments::Segments(std::vector<int64_t> offsets, at::Device device)
    : offsets_(std::move(offsets)), device_(device) {}

const at::Tensor& Segments::offsets_tensor() const {
  if (!offsets_tensor_.defined()) offsets_tensor_ = at::tensor(offsets_, at::kLong).to(device_);
  return offsets_tensor_;
}

int64_t Segments::segment_of(int64_t element) const {
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), element);
  return after - offsets_.begin() - 1;
}

at::Tensor Segments::lengths() const { return offsets_tensor().diff().to(at::kDouble); }

at::Tensor Segments::ids() const {
  return at::arange(count(), offsets_tensor().options())
      .repeat_interleave(offsets_tensor().diff(), /*dim=*/0, elements());
}

at::Tensor segment_sum(const at::Tensor& values, const SegmentsPtr& segments) {
  return values.requires_grad() ? Sum::apply(values, segments) : plain_sum(values, *segments);
}

namespace {

/// An extreme as the mean of the elements that equal it, so that these share its gradient equally:
/// libtorch's own does not where the gradient points away from it.
at::Tensor shared_extreme(const at::Tensor& values, const SegmentsPtr& segments,
                          const at::Tensor& extreme) {
  const at::Tensor equal =
      values.detach().eq(plain_spread(extreme, *segments, values.scalar_type()));
  const at::Tensor none = at::scalar_tensor(0, values.options());
  const at::Tensor count = plain_sum(equal, *segments);
  // Of an empty segment, and of NaN, nothing equals it.
  const at::Tensor mean = segment_sum(at::where(equal, values, none), segments).div(count);
  return at::where(count.gt(0), mean, extreme);
}

template <Reduction kReduction>
at::Tensor segment_extreme(const at::Tensor& values, const SegmentsPtr& segments) {
  const at::Tensor plain = values.detach();
  const at::Tensor extreme = plain.is_cpu() ? reduce_on_cpu<kReduction>(plain, *segments)
                             : kReduction == Reduction::kMax ? portable::max(plain, *segments)
                                                             : portable::min(plain, *segments);
  return values.requires_grad() ? shared_extreme(values, segments, extreme) : extreme;
}

}  // namespace

at::Tensor segment_max(const at::Tensor& values, const SegmentsPtr& segments) {
  return segment_extreme<Reduction::kMax>(values, segments);
}

at::Tensor segment_min(const at::Tensor& values, const SegmentsPtr& segments) {
  return segment_extreme<Reduction::kMin>(values, segments);
}

at::Tensor segment_spread(const at::Tensor& values, const SegmentsPtr& segments,
                          at::ScalarType dtype) {
  return values.requires_grad() ? Spread::apply(values, segments, dtype)
                                : plain_spread(values, *segments, dtype);
}

}  // namespace tokengrad
