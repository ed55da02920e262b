// The ops of `arrays.h`, and `scale` and `unscale`, on tensors.
#include "core/array_ops.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/parallel.h"

namespace tokengrad {
namespace {

/// Elements that no two threads share, in a loop over all elements.
constexpr int64_t kBlock = 4096;

/// Whether a plain loop may compute: nothing is recorded and the memory is at hand.
template <typename... Tensors>
bool is_plain(const Tensors&... tensors) {
  return ((tensors.is_cpu() && !tensors.requires_grad()) && ...);
}

template <typename T>
std::span<const T> read(const at::Tensor& values) {
  return {values.const_data_ptr<T>(), static_cast<size_t>(values.numel())};
}

template <typename T>
std::span<T> write(const at::Tensor& values) {
  return {values.data_ptr<T>(), static_cast<size_t>(values.numel())};
}

/// A contiguous copy on the CPU, without history, to read in a plain loop.
at::Tensor on_cpu(const at::Tensor& values) { return values.detach().to(at::kCPU).contiguous(); }

/// The value, or 0 where x is 0. By its bits, so that the compiler can do many at once.
template <typename T>
T unless_zero(T x, T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits keep = Bits{0} - static_cast<Bits>(x != 0);
  return std::bit_cast<T>(std::bit_cast<Bits>(value) & keep);
}

/// Calls `body(x, y)` for each element of two operands; each may be one value repeated by a
/// stride of 0, whose step is then a constant 0.
template <typename Body>
at::Tensor zip(const at::Tensor& x, const at::Tensor& y, const Body& body) {
  using Zero = std::integral_constant<int64_t, 0>;
  using One = std::integral_constant<int64_t, 1>;
  const int64_t size = x.numel();
  at::Tensor out = at::empty({size}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "zip", [&] {
    const auto run = [&](const at::Tensor& left, auto left_step, const at::Tensor& right,
                         auto right_step) {
      const scalar_t* const a = left.const_data_ptr<scalar_t>();
      const scalar_t* const b = right.const_data_ptr<scalar_t>();
      scalar_t* const to = out.data_ptr<scalar_t>();
      const int64_t blocks = (size + kBlock - 1) / kBlock;
      parallel_for(blocks, size, [=, &body](int64_t begin, int64_t end) {
        const int64_t last = std::min(size, end * kBlock);
        for (int64_t i = begin * kBlock; i < last; ++i)
          to[i] = body(a[i * left_step], b[i * right_step]);
      });
    };
    const bool x_repeats = x.stride(0) == 0;
    const bool y_repeats = y.stride(0) == 0;
    if (x_repeats && y_repeats) run(x, Zero(), y, Zero());
    if (x_repeats && !y_repeats) run(x, Zero(), y.contiguous(), One());
    if (!x_repeats && y_repeats) run(x.contiguous(), One(), y, Zero());
    if (!x_repeats && !y_repeats) run(x.contiguous(), One(), y.contiguous(), One());
  });
  return out;
}

/// Calls `body(offsets)` for ranges of whole segments, on several threads.
template <typename Body>
void for_each_part(const Segments& segments, const Body& body) {
  parallel_for(segments.count(), segments.elements(), [&](int64_t begin, int64_t end) {
    body(Offsets(segments.offsets())
             .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin + 1)));
  });
}

/// Element numbers from a checked index.
at::Tensor numbers_of(const at::Tensor& index, int64_t size) {
  check_index(read<double>(on_cpu(index)), static_cast<size_t>(size));
  return index.detach().to(at::kLong);
}

/// `combine(x, y)` where that is right for an x of 0 as well; elsewhere with the harmless value
/// in place of y, so that neither the result nor its derivatives are NaN.
template <typename Combine>
at::Tensor annihilate(const at::Tensor& x, const at::Tensor& y, double harmless,
                      const Combine& combine) {
  const at::Tensor spoilt = x.eq(0).logical_and(combine(x, y).isnan());
  return combine(x, at::where(spoilt, at::scalar_tensor(harmless, y.options()), y));
}

}  // namespace

namespace portable {

at::Tensor scale(const at::Tensor& x, const at::Tensor& y) {
  return annihilate(x, y, 0, [](const at::Tensor& a, const at::Tensor& b) { return a.mul(b); });
}

at::Tensor unscale(const at::Tensor& x, const at::Tensor& y) {
  return annihilate(x, y, std::numeric_limits<double>::infinity(),
                    [](const at::Tensor& a, const at::Tensor& b) { return a.div(b); });
}

at::Tensor shift(const at::Tensor& values, const Segments& segments, int64_t offset) {
  const at::Tensor ids = segments.ids();
  const at::Tensor from = at::arange(segments.elements(), ids.options()).sub(offset);
  const at::Tensor& offsets = segments.offsets_tensor();
  const at::Tensor inside = from.ge(offsets.index_select(0, ids))
                                .logical_and(from.lt(offsets.index_select(0, ids.add(1))));
  const at::Tensor source = from.clamp(0, std::max<int64_t>(segments.elements() - 1, 0));
  return at::where(inside, values.index_select(0, source), at::scalar_tensor(0, values.options()));
}

at::Tensor cumsum(const at::Tensor& values, const Segments& segments,
                  const CumsumOptions& options) {
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < segments.offsets().size(); ++s) {
    longest = std::max(longest, segments.offsets()[s + 1] - segments.offsets()[s]);
  }
  const int64_t direction = options.reverse ? -1 : 1;
  at::Tensor sums = values.to(at::kDouble);
  // After each step an element holds the sum of twice as many as before.
  for (int64_t width = 1; width < longest; width *= 2) {
    const double factor = std::pow(options.discount, static_cast<double>(width));
    sums = sums.add(portable::shift(sums, segments, direction * width).mul(factor));
  }
  if (options.exclusive) sums = portable::shift(sums, segments, direction).mul(options.discount);
  return sums.to(values.scalar_type());
}

at::Tensor gather(const at::Tensor& values, const at::Tensor& index) {
  return values.index_select(0, numbers_of(index, values.numel()));
}

at::Tensor scatter_add(const at::Tensor& values, const at::Tensor& index, int64_t size) {
  return at::index_add(at::zeros({size}, values.options()), 0, numbers_of(index, size), values);
}

}  // namespace portable

at::Tensor scale(const at::Tensor& x, const at::Tensor& y) {
  if (!is_plain(x, y)) return portable::scale(x, y);
  return zip(x, y, [](auto a, auto b) { return unless_zero(a, a * b); });
}

at::Tensor unscale(const at::Tensor& x, const at::Tensor& y) {
  if (!is_plain(x, y)) return portable::unscale(x, y);
  return zip(x, y, [](auto a, auto b) { return unless_zero(a, a / b); });
}

at::Tensor cumsum(const at::Tensor& values, const Segments& segments,
                  const CumsumOptions& options) {
  if (!is_plain(values)) return portable::cumsum(values, segments, options);
  const at::Tensor given = values.contiguous();
  at::Tensor out = at::empty(given.sizes(), given.options());
  AT_DISPATCH_FLOATING_TYPES(given.scalar_type(), "cumsum", [&] {
    for_each_part(segments, [&](Offsets part) {
      cumsum(read<scalar_t>(given), part, options, write<scalar_t>(out));
    });
  });
  return out;
}

at::Tensor shift(const at::Tensor& values, const Segments& segments, int64_t offset) {
  if (!is_plain(values)) return portable::shift(values, segments, offset);
  const at::Tensor given = values.contiguous();
  at::Tensor out = at::empty(given.sizes(), given.options());
  AT_DISPATCH_FLOATING_TYPES(given.scalar_type(), "shift", [&] {
    for_each_part(segments, [&](Offsets part) {
      shift(read<scalar_t>(given), part, offset, write<scalar_t>(out));
    });
  });
  return out;
}

at::Tensor gather(const at::Tensor& values, const at::Tensor& index) {
  if (!is_plain(values, index)) return portable::gather(values, index);
  at::Tensor out = at::empty(index.sizes(), values.options());
  gather(read<double>(values.contiguous()), read<double>(index.contiguous()), write<double>(out));
  return out;
}

at::Tensor scatter_add(const at::Tensor& values, const at::Tensor& index, int64_t size) {
  if (!is_plain(values, index)) return portable::scatter_add(values, index, size);
  at::Tensor out = at::empty({size}, values.options());
  scatter_add(read<double>(values.contiguous()), read<double>(index.contiguous()),
              write<double>(out));
  return out;
}

at::Tensor argsort(const at::Tensor& values, const Segments& segments) {
  const at::Tensor given = on_cpu(values);
  at::Tensor out = at::empty(given.sizes(), given.options());
  argsort(read<double>(given), segments.offsets(), write<double>(out));
  return out.to(values.device());
}

at::Tensor rank(const at::Tensor& values, const Segments& segments) {
  const at::Tensor given = on_cpu(values);
  at::Tensor out = at::empty(given.sizes(), given.options());
  AT_DISPATCH_FLOATING_TYPES(given.scalar_type(), "rank", [&] {
    rank(read<scalar_t>(given), Offsets(segments.offsets()), write<scalar_t>(out));
  });
  return out.to(values.device());
}

}  // namespace tokengrad
