#include "engine/measure/bench/step_bench.h"

#include <algorithm>
#include <memory>

#include "engine/measure/bench/bench_place.h"
#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/step_point.h"
#include "kernels/common/bf16.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/words/error.h"
#include "profiler/cold_reads.h"

namespace versieve::engine {
namespace {

SweepPlan plan_of(const StepBenchOptions& options) {
  SweepPlan plan;
  plan.name = "bench step";
  plan.seed = options.seed;
  plan.timing.stop.fixed_samples = options.samples;
  plan.trace_repetitions = 0;
  plan.counter_repetitions = 0;
  return plan;
}

PointKey key_of(const StepBenchOptions& options, const Strategy& strategy, std::int64_t context,
                LaunchMode launch) {
  return {.workload = WorkloadKind::kStep,
          .model = options.geometry,
          .regime = "synthetic",
          .strategy = strategy.text(),
          .dtype = options.on_gpu ? Dtype::kBf16 : Dtype::kF32,
          .backend = options.on_gpu ? Backend::kCuda : Backend::kCpu,
          .cache_state = CacheState::kAsIs,
          .launch = launch,
          .context_len = context,
          .num_queries = strategy.draft.nodes};
}

profiler::SampleSummary in_us(std::vector<double> ns) {
  std::transform(ns.begin(), ns.end(), ns.begin(), [](double value) { return 1e-3 * value; });
  return profiler::summary_of(ns);
}

class StepBencher {
 public:
  // `rate`: bytes/s that the machine reads, where it was measured.
  StepBencher(const StepBenchOptions& options, std::optional<double> rate)
      : options_(options),
        rate_(rate),
        plan_(plan_of(options)),
        instrument_(options.on_gpu ? make_gpu_instrument({}) : make_host_instrument()),
        runner_(options.on_gpu
                    ? make_step_runner<Bf16>(plan_, *instrument_, true, options.threads)
                    : make_step_runner<float>(plan_, *instrument_, false, options.threads)) {}

  StepRow row(const Strategy& strategy, std::int64_t context) {
    StepRow out{.strategy = strategy, .context_len = context};
    out.step_bytes = step_bytes(strategy, options_.geometry, context, options_.on_gpu ? 2 : 4);
    if (rate_) {
      out.bound_us = 1e6 * out.step_bytes / *rate_;
    }
    out.tokens = static_cast<double>(
        std::min(kCommittedNodes, strategy.draft.speculates() ? strategy.draft.depth + 1 : 1));
    out.launch = options_.on_gpu ? LaunchMode::kGraph : LaunchMode::kStream;
    PointMeasurement point = runner_->run(key_of(options_, strategy, context, out.launch));
    if (point.status == PointStatus::kRefused && options_.on_gpu) {
      out.launch = LaunchMode::kStream;  // what cannot be recorded is led by the host
      point = runner_->run(key_of(options_, strategy, context, out.launch));
    }
    out.refused_because = point.reason;
    if (!point.time_ns.empty()) {
      out.time = in_us(point.time_ns);
    }
    if (out.refused_because.empty()) {
      const PointKey key = key_of(options_, strategy, context, out.launch);
      out.verification = in_us(runner_->run_verification(key).time_ns);
    }
    return out;
  }

 private:
  const StepBenchOptions& options_;
  std::optional<double> rate_;
  SweepPlan plan_;
  std::unique_ptr<Instrument> instrument_;
  std::unique_ptr<StepPointRunner> runner_;
};

void compare_with_ar(std::vector<StepRow>& rows) {
  for (StepRow& row : rows) {
    const auto ar = std::find_if(rows.begin(), rows.end(), [&](const StepRow& other) {
      return other.context_len == row.context_len && other.refused_because.empty() &&
             other.strategy == Strategy::parse("nsa/ar");
    });
    if (ar != rows.end() && row.refused_because.empty()) {
      row.over_ar = row.time.median / ar->time.median;
      row.verification_over_ar = row.verification.median / ar->verification.median;
    }
  }
}

}  // namespace

double step_bytes(const Strategy& strategy, const std::string& geometry, std::int64_t context_len,
                  std::int64_t element_bytes) {
  const LlmShape target = named_llm_shape(geometry);
  StepShape s = asked_step(strategy, target, draft_shape_for(target), context_len, element_bytes);
  if (target.attention == AttentionKind::kDense) {
    s.dense = asked_read(strategy);
  }
  StepWork work;
  add_step(s, 1.0, work);
  double bytes = 0.0;
  for (const LaunchWork& launch : work) {
    for (const TrafficTerm term :
         {TrafficTerm::kWeights, TrafficTerm::kDraft, TrafficTerm::kCompressedCache,
          TrafficTerm::kSelectedBlocks, TrafficTerm::kWindow}) {
      bytes += launch.launches * launch.unique.read_bytes[static_cast<std::size_t>(term)];
    }
  }
  return bytes;
}

StepBench bench_steps(const StepBenchOptions& options,
                      const std::function<void(const StepRow&)>& on_row) {
  if (options.samples < 6 || options.contexts.empty() || options.strategies.empty() ||
      *std::min_element(options.contexts.begin(), options.contexts.end()) < 8) {
    throw Error(
        ExitCode::kUsage,
        "bench step takes strategies, contexts of at least 8 tokens and at least 6 samples");
  }
  named_llm_shape(options.geometry);  // throws, naming those that there are
  std::vector<Strategy> strategies;
  for (const std::string& text : options.strategies) {
    strategies.push_back(Strategy::parse(text));
  }
  StepBench bench = bench_here<StepBench>(options);
  StepBencher bencher(options, cold_read_rate(bench.cold_reads));
  for (const std::int64_t context : options.contexts) {
    for (const Strategy& strategy : strategies) {
      bench.rows.push_back(bencher.row(strategy, context));
      on_row(bench.rows.back());
    }
  }
  compare_with_ar(bench.rows);
  return bench;
}

}  // namespace versieve::engine
