// Computes a program the plain way, every value of every node at once, to compare the fused
// executor with. Exact where its sums are: for whole numbers.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/fused/kernels.h"
#include "core/layout.h"
#include "core/program.h"

namespace tokengrad::test {

class Oracle {
 public:
  /// `inputs` are the values of the program's inputs.
  Oracle(const Program& program, const Layout& layout, std::vector<std::vector<double>> inputs)
      : program_(program), layout_(layout), values_(program.nodes().size()) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[program.inputs()[i]] = std::move(inputs[i]);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (program.nodes()[i].op != Op::kInput) values_[i] = compute(program.nodes()[i]);
      if (program.nodes()[i].axis != Axis::kToken) continue;
      for (double& value : values_[i]) value = static_cast<float>(value);
    }
  }

  const std::vector<double>& value(size_t node) const { return values_[node]; }

 private:
  using Doubles = std::vector<double>;

  const Doubles& in(const Node& node, size_t k) const { return values_[node.inputs[k]]; }
  Axis axis_of(size_t node) const { return program_.nodes()[node].axis; }

  /// The segment that each element lies in.
  std::vector<size_t> parents(Axis fine, Axis coarse) const {
    std::vector<size_t> parents;
    for (int64_t i = 0; i < layout_.size(fine); ++i)
      parents.push_back(static_cast<size_t>(layout_.segments(fine, coarse)->segment_of(i)));
    return parents;
  }

  Doubles compute(const Node& node) const {
    const auto size = static_cast<size_t>(layout_.size(node.axis));
    switch (node.op) {
      case Op::kConstant:
        return {node.attribute("value")};
      case Op::kSpread: {
        Doubles out;
        for (const size_t parent : parents(node.axis, axis_of(node.inputs[0])))
          out.push_back(in(node, 0)[parent]);
        return out;
      }
      case Op::kIndicator:
        return in(node, 0);
      case Op::kSum:
      case Op::kMax:
      case Op::kMin:
      case Op::kCount:
        return reduce(node, size);
      case Op::kMembers: {
        Doubles out;
        double first = 0;
        for (const uint32_t group : layout_.group_sizes()) {
          out.push_back(first + node.attribute("index"));
          first += group;
        }
        return out;
      }
      case Op::kGather: {
        Doubles out;
        for (const double index : in(node, 1)) out.push_back(in(node, 0)[size_t(index)]);
        return out;
      }
      case Op::kScatter: {
        Doubles out(size, 0.0);
        for (size_t i = 0; i < in(node, 1).size(); ++i)
          out[size_t(in(node, 1)[i])] += in(node, 0)[i];
        return out;
      }
      case Op::kArgsort:
      case Op::kRank:
        return sort(node, size);
      case Op::kCumsum:
        return cumsum(node, size);
      case Op::kShift: {
        const std::vector<size_t> samples = parents(Axis::kToken, Axis::kSample);
        Doubles out(size, 0.0);
        const auto offset = static_cast<int64_t>(node.attribute("offset"));
        for (int64_t i = 0; i < layout_.size(Axis::kToken); ++i) {
          const int64_t from = i - offset;
          if (from < 0 || from >= layout_.size(Axis::kToken)) continue;
          if (samples[size_t(from)] == samples[size_t(i)])
            out[size_t(i)] = in(node, 0)[size_t(from)];
        }
        return out;
      }
      default:
        return elementwise(node, size);
    }
  }

  Doubles reduce(const Node& node, size_t size) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double empty = node.op == Op::kMax ? -kInfinity : node.op == Op::kMin ? kInfinity : 0.0;
    const bool counts_all =
        node.op == Op::kCount && program_.nodes()[node.inputs[0]].kind == Kind::kNumber;
    Doubles out(size, empty);
    const std::vector<size_t> segments = parents(axis_of(node.inputs[0]), node.axis);
    for (size_t i = 0; i < segments.size(); ++i) {
      double& to = out[segments[i]];
      const double x = counts_all ? 1.0 : in(node, 0)[i];
      if (node.op == Op::kMax || node.op == Op::kMin) {
        if (x != x || (node.op == Op::kMax ? x > to : x < to)) to = x;
      } else {
        to += x;
      }
    }
    return out;
  }

  Doubles sort(const Node& node, size_t size) const {
    const std::vector<size_t> segments = parents(node.axis, node.within());
    const Doubles& x = in(node, 0);
    std::vector<size_t> order(size);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (segments[a] != segments[b]) return segments[a] < segments[b];
      return x[b] != x[b] ? x[a] == x[a] : x[a] < x[b];
    });
    if (node.op == Op::kArgsort) return Doubles(order.begin(), order.end());
    Doubles out(size);
    double place = 0;
    for (size_t i = 0; i < size; ++i) {
      if (i > 0 && segments[order[i]] != segments[order[i - 1]]) place = 0;
      out[order[i]] = place++;
    }
    return out;
  }

  Doubles cumsum(const Node& node, size_t size) const {
    const std::vector<size_t> samples = parents(Axis::kToken, Axis::kSample);
    Doubles out(size);
    double sum = 0;
    for (size_t step = 0; step < size; ++step) {
      const bool is_reverse = node.attribute("reverse") != 0;
      const size_t i = is_reverse ? size - 1 - step : step;
      const size_t before = is_reverse ? i + 1 : i - 1;
      if (step == 0 || samples[i] != samples[before]) sum = 0;
      sum *= node.attribute("discount");
      out[i] = sum;
      sum += in(node, 0)[i];
      if (node.attribute("exclusive") == 0) out[i] = sum;
    }
    return out;
  }

  Doubles elementwise(const Node& node, size_t size) const {
    if (node.name == "detach") return in(node, 0);
    const fused::Kernel& kernel = fused::variants().back()->kernels[fused::kernel_of(node)];
    const double* operands[fused::kMostOperands] = {};
    for (size_t k = 0; k < node.inputs.size(); ++k) operands[k] = in(node, k).data();
    Doubles out(size);
    kernel.wide(out.data(), operands[0], operands[1], operands[2], static_cast<int64_t>(size), 0);
    return out;
  }

  const Program& program_;
  const Layout& layout_;
  std::vector<Doubles> values_;
};

}  // namespace tokengrad::test
