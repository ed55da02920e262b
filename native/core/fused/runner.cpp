// Runs the passes of a plan, block by block, on several threads.
#include "core/fused/runner.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "core/parallel.h"

namespace tokengrad::fused {
namespace {

/// Tokens of a block: enough to forget the cost of a step, few enough for all registers of a pass
/// to stay in the nearest cache.
constexpr int64_t kBlock = 512;

/// Tokens that a thread takes at a time, if there are so many.
constexpr int64_t kTaskTokens = 8192;

int64_t round_up(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

struct alignas(64) Line {
  float values[kLanes];
};

}  // namespace

/// What one thread needs to run a pass.
class Runner::Thread {
 public:
  Thread(Runner& runner, const Pass& pass)
      : runner_(runner),
        pass_(pass),
        memory_(pass.shared + (pass.slots() - pass.shared) * (kBlock / kLanes)),
        slots_(pass.slots()),
        lanes_(pass.partials.size() * kLanes) {
    Line* next = memory_.data();
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i] = next->values;
      next += i < pass.shared ? 1 : kBlock / kLanes;
    }
    // The places of arrays stay as copies of their last few values.
    tails_.assign(slots_.begin() + static_cast<std::ptrdiff_t>(pass.shared),
                  slots_.begin() + static_cast<std::ptrdiff_t>(pass.shared + pass.arrays.size()));
  }

  void run(size_t index) {
    const Unit& unit = runner_.units_[index];
    begin(unit);
    for (int64_t token = unit.begin; token < unit.end; token += kBlock) {
      run_block(token, std::min(kBlock, unit.end - token));
    }
    finish(index);
  }

 private:
  void begin(const Unit& unit) {
    row_ = unit.row;
    for (const Source& source : pass_.spreads) {
      const float value = static_cast<float>(value_of(unit, source.node));
      std::fill_n(slots_[source.slot], kLanes, value);
    }
    for (const Step& step : pass_.once) compute(step, kLanes);
    for (size_t i = 0; i < pass_.partials.size(); ++i) {
      std::fill_n(lanes_.begin() + static_cast<std::ptrdiff_t>(i) * kLanes, kLanes,
                  empty_of(reduction(i)));
    }
  }

  double value_of(const Unit& unit, size_t node) const {
    const double* const values = runner_.values_.coarse(node);
    switch (runner_.plan_.nodes()[node].axis) {
      case Axis::kSample:
        return values[unit.sample];
      case Axis::kGroup:
        return values[unit.group];
      default:
        return values[0];
    }
  }

  Reduction reduction(size_t partial) const {
    return runner_.plan_.schedule().partials[pass_.partials[partial]].reduction;
  }

  void compute(const Step& step, int64_t count) {
    const Loop loop = runner_.variant_.kernels[step.kernel].loops[step.shared];
    loop(slots_[step.out], slots_[step.operands[0]], slots_[step.operands[1]],
         slots_[step.operands[2]], count, step.parameter);
  }

  void place_arrays(int64_t token, int64_t count) {
    const int64_t all = runner_.layout_.size(Axis::kToken);
    const int64_t next_end = std::min(token + 2 * kBlock, all);
    for (size_t i = 0; i < pass_.arrays.size(); ++i) {
      const float* const values = runner_.values_.tokens(pass_.arrays[i].node);
      float*& slot = slots_[pass_.arrays[i].slot];
      if (token + round_up(count) <= all) {
        // Never written to: a step's result is no array.
        slot = const_cast<float*>(values + token);
        // A block reads its arrays in bursts, which the CPU does not foresee by itself.
        for (int64_t next = token + kBlock; next < next_end; next += kLanes)
          __builtin_prefetch(values + next, 0, 2);
      } else {
        slot = tails_[i];
        std::copy_n(values + token, count, slot);
      }
    }
  }

  void run_block(int64_t token, int64_t count) {
    const int64_t rounded = round_up(count);
    place_arrays(token, count);
    size_t partial = 0;
    for (const Step& step : pass_.steps) {
      float* const in = slots_[step.operands[0]];
      switch (step.kind) {
        case StepKind::kCompute:
          compute(step, rounded);
          break;
        case StepKind::kFill:
          std::fill_n(slots_[step.out], rounded, *in);
          break;
        case StepKind::kReduce:
          runner_.variant_.folds[static_cast<size_t>(reduction(partial))](
              in, count, lanes_.data() + partial * kLanes);
          ++partial;
          break;
        case StepKind::kStore:
          std::copy_n(in, count, runner_.kept_[step.target] + token);
          break;
        case StepKind::kOutput:
          std::copy_n(in, count, runner_.request_.outputs[step.target].data() + token);
          break;
        case StepKind::kGradient:
          write_gradient(in, token, count);
          break;
      }
    }
  }

  void write_gradient(const float* values, int64_t token, int64_t count) {
    const int64_t special = runner_.writer_.write(row_, values, count);
    if (special < count) runner_.report(token + special, values[special]);
  }

  void finish(size_t index) {
    const Unit& unit = runner_.units_[index];
    for (size_t i = 0; i < pass_.partials.size(); ++i) {
      double* const lanes = lanes_.data() + i * kLanes;
      for (int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (int64_t lane = 0; lane < width; ++lane)
          lanes[lane] = join(reduction(i), lanes[lane], lanes[lane + width]);
      }
      runner_.results_[pass_.partials[i]][index] = lanes[0];
    }
    if (unit.is_last && pass_.writes_gradient) {
      runner_.writer_.finish(row_, unit.sample);
    }
  }

  Runner& runner_;
  const Pass& pass_;
  std::vector<Line> memory_;
  std::vector<float*> slots_;
  std::vector<float*> tails_;
  std::vector<double> lanes_;
  RowCursor row_{};
};

Runner::Runner(const Plan& plan, const Layout& layout, const Request& request,
               const CancelFlag& cancel, const Variant& variant, Values& values)
    : plan_(plan),
      layout_(layout),
      request_(request),
      cancel_(cancel),
      variant_(variant),
      values_(values),
      units_(make_units(layout)),
      writer_(layout, request.dtype, variant.stores[static_cast<size_t>(request.dtype)],
              request.output.data()),
      results_(plan.schedule().partials.size()),
      kept_(plan.nodes().size(), nullptr) {}

void Runner::run(const Pass& pass) {
  for (const size_t partial : pass.partials) results_[partial].resize(units_.size());
  for (const Step& step : pass.steps) {
    if (step.kind == StepKind::kStore) kept_[step.target] = values_.keep(step.target);
  }

  std::atomic<size_t> next{0};
  const auto work = [&](int64_t, int64_t) {
    Thread thread(*this, pass);
    const size_t few =
        std::max<size_t>(1, units_.size() * kTaskTokens / layout_.size(Axis::kToken));
    for (size_t begin = next.fetch_add(few); begin < units_.size(); begin = next.fetch_add(few)) {
      if (cancel_.is_set()) return;
      for (size_t i = begin; i < std::min(begin + few, units_.size()); ++i) thread.run(i);
    }
  };
  // Counted so that a second thread joins once it saves more than it costs to wake it.
  const int64_t computed = layout_.size(Axis::kToken) * static_cast<int64_t>(pass.steps.size());
  parallel_for(at::get_num_threads(), computed / 32 + layout_.positions() / 8, work);
  cancel_.check();

  for (const size_t partial : pass.partials) {
    const Reduction reduction = plan_.schedule().partials[partial].reduction;
    std::vector<double>& samples = values_.partial(partial);
    samples.assign(static_cast<size_t>(layout_.samples()), empty_of(reduction));
    for (size_t i = 0; i < units_.size(); ++i) {
      double& sample = samples[static_cast<size_t>(units_[i].sample)];
      sample = join(reduction, sample, results_[partial][i]);
    }
  }
}

void Runner::report(int64_t token, float value) {
  const std::lock_guard lock(mutex_);
  if (!special_ || token < special_->token) special_ = Special{token, value};
}

}  // namespace tokengrad::fused
