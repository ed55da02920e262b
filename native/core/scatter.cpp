// Writes packed gradients into the full rows of a batch, in the type that is asked for.
#include "core/scatter.h"

#include <atomic>
#include <limits>

#include "core/parallel.h"
#include "core/rows.h"

namespace tokengrad {
namespace {

template <typename T>
std::optional<int64_t> scatter_from(const T* gradient, const Layout& layout, Dtype dtype,
                                    std::byte* out) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first{kNone};
  const RowWriter<T> writer(layout, dtype, plain_store<T>(dtype), out);
  parallel_for(layout.samples(), layout.positions(), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t token = layout.rows()[s].token;
      const int64_t count = layout.rows()[s + 1].token - token;
      RowCursor cursor = begin_row(layout, s);
      const int64_t special = writer.write(cursor, gradient + token, count);
      writer.finish(cursor, s);
      if (special == count) continue;
      int64_t known = first.load();
      while (token + special < known && !first.compare_exchange_weak(known, token + special)) {
      }
    }
  });
  return first == kNone ? std::nullopt : std::optional(first.load());
}

}  // namespace

std::optional<int64_t> scatter(const at::Tensor& gradient, const Layout& layout, Dtype dtype,
                               std::span<std::byte> out) {
  if (gradient.scalar_type() == at::kDouble) {
    return scatter_from(gradient.const_data_ptr<double>(), layout, dtype, out.data());
  }
  return scatter_from(gradient.const_data_ptr<float>(), layout, dtype, out.data());
}

}  // namespace tokengrad
