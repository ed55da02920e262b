// Temperature, top-k, top-p, and the counter-based random numbers behind them.
#include "trainer/choose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tokengrad::trainer {
namespace {

// The finaliser of splitmix64 (Steele, Lea and Flood, 2014): every bit of x reaches every bit.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

int32_t choose(std::span<const double> logprobs, const Choice& choice, double uniform) {
  const auto best = std::max_element(logprobs.begin(), logprobs.end());
  if (choice.temperature == 0) return static_cast<int32_t>(best - logprobs.begin());

  std::vector<int32_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  const bool limited = choice.top_k >= 1 && choice.top_k < static_cast<int64_t>(order.size());
  if (limited || choice.top_p < 1) {
    const auto end = limited ? order.begin() + choice.top_k : order.end();
    std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
      return logprobs[a] != logprobs[b] ? logprobs[a] > logprobs[b] : a < b;
    });
    order.erase(end, order.end());
  }

  std::vector<double> sums(order.size());
  double total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    total += std::exp((logprobs[order[i]] - *best) / choice.temperature);
    sums[i] = total;
  }
  const auto reach = [&](double sum) {
    const auto at = std::lower_bound(sums.begin(), sums.end(), sum);
    return std::min<size_t>(at - sums.begin(), sums.size() - 1);
  };
  if (choice.top_p < 1) sums.resize(reach(choice.top_p * total) + 1);
  const auto at = std::upper_bound(sums.begin(), sums.end(), uniform * sums.back());
  return order[std::min<size_t>(at - sums.begin(), sums.size() - 1)];
}

Stream::Stream(uint64_t seed, std::span<const int32_t> prompt, uint64_t ordinal)
    : state_(mix(seed)) {
  for (const auto token : prompt) state_ = mix(state_ ^ static_cast<uint64_t>(token));
  state_ = mix(state_ ^ ordinal);
}

double Stream::at(uint64_t step) const {
  return static_cast<double>(mix(state_ ^ mix(step)) >> 11) * 0x1p-53;
}

}  // namespace tokengrad::trainer
