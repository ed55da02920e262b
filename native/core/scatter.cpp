// Writes packed gradients into the full rows of a batch, in the type that is asked for.
#include "core/scatter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"

namespace tokengrad {
namespace {

/// Converts to the stored type, which for bfloat16 is its bits.
template <typename To, typename From>
To store_as(From value) {
  if constexpr (std::is_same_v<To, uint16_t>) {
    return to_bfloat16(value);
  } else {
    return static_cast<To>(value);
  }
}

/// All ones in the exponent: infinity or NaN. In integers, so that the compiler can do many at
/// once.
bool is_special(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000u) == 0x7F800000u;
}
bool is_special(double value) {
  constexpr uint64_t exponent = 0x7FF0000000000000u;
  return (std::bit_cast<uint64_t>(value) & exponent) == exponent;
}
bool is_special(uint16_t bits) { return (bits & 0x7F80u) == 0x7F80u; }

/// Whether everything that was written is finite.
template <typename To, typename From>
bool write_run(const From* in, To* out, int64_t size) {
  bool special = false;
  for (int64_t i = 0; i < size; ++i) {
    out[i] = store_as<To>(in[i]);
    special |= is_special(out[i]);
  }
  return !special;
}

template <typename To, typename From>
std::optional<int64_t> scatter_as(const From* gradient, const Layout& layout, To* out) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first{kNone};
  const auto report = [&first, gradient](int64_t token) {
    while (!is_special(store_as<To>(gradient[token]))) ++token;
    int64_t known = first.load();
    while (token < known && !first.compare_exchange_weak(known, token)) {
    }
  };
  const std::span<const uint32_t> runs = layout.runs();
  parallel_for(layout.samples(), layout.positions(), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const Row& row = layout.rows()[s];
      const Row& next = layout.rows()[s + 1];
      int64_t token = row.token;
      To* to = out + row.position;
      for (int64_t run = row.run; run < next.run; ++run) {
        To* const start = out + row.position + runs[2 * run];
        const int64_t length = runs[2 * run + 1];
        std::fill(to, start, To{0});
        if (!write_run(gradient + token, start, length)) report(token);
        to = start + length;
        token += length;
      }
      std::fill(to, out + next.position, To{0});
    }
  });
  return first == kNone ? std::nullopt : std::optional(first.load());
}

template <typename From>
std::optional<int64_t> scatter_from(const From* gradient, const Layout& layout, Dtype dtype,
                                    std::byte* out) {
  switch (dtype) {
    case Dtype::kFloat32:
      return scatter_as(gradient, layout, reinterpret_cast<float*>(out));
    case Dtype::kBfloat16:
      return scatter_as(gradient, layout, reinterpret_cast<uint16_t*>(out));
    case Dtype::kFloat64:
      return scatter_as(gradient, layout, reinterpret_cast<double*>(out));
  }
  return std::nullopt;
}

}  // namespace

size_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return 4;
    case Dtype::kBfloat16:
      return 2;
    case Dtype::kFloat64:
      return 8;
  }
  return 0;
}

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBfloat16:
      return "bfloat16";
    case Dtype::kFloat64:
      return "float64";
  }
  return "";
}

uint16_t to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Half a step, less one where the last bit kept is 0: a tie then stays, and otherwise carries
  // over.
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(is_nan ? 0x7FC0u : rounded);
}

uint16_t to_bfloat16(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return to_bfloat16(nearest);
  // Round to odd: cut towards zero and set the last bit. With 16 bits to spare, rounding again is
  // then exact.
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(value)) --bits;
  return to_bfloat16(std::bit_cast<float>(bits | 1u));
}

std::optional<int64_t> scatter(const at::Tensor& gradient, const Layout& layout, Dtype dtype,
                               std::span<std::byte> out) {
  const size_t expected = static_cast<size_t>(layout.positions()) * bytes_of(dtype);
  if (out.size() != expected) {
    throw Error("ERR_REQUEST", "output: expected " + std::to_string(expected) + " bytes, got " +
                                   std::to_string(out.size()));
  }
  if (gradient.scalar_type() == at::kDouble) {
    return scatter_from(gradient.const_data_ptr<double>(), layout, dtype, out.data());
  }
  return scatter_from(gradient.const_data_ptr<float>(), layout, dtype, out.data());
}

}  // namespace tokengrad
