#include "engine/bench/step_bench.h"

#include <algorithm>
#include <memory>

#include "engine/speculate/synthetic_session.h"
#include "engine/sweep/instrument.h"
#include "engine/sweep/step_point.h"
#include "engine/sweep/sweep_ops.h"
#include "kernels/common/bf16.h"
#include "model/error.h"
#include "model/hardware.h"
#include "model/launch_work.h"
#include "profiler/activity_trace.h"
#include "profiler/environment.h"

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
                const char* launch) {
  return {.workload = WorkloadKind::kStep,
          .model = options.geometry,
          .regime = "synthetic",
          .strategy = strategy.text(),
          .dtype = options.on_gpu ? "bf16" : "f32",
          .backend = options.on_gpu ? "cuda" : "cpu",
          .cache_state = "as_is",
          .launch = launch,
          .context_len = context,
          .num_queries = strategy.draft.nodes};
}

profiler::SampleSummary in_us(std::vector<double> ns) {
  std::transform(ns.begin(), ns.end(), ns.begin(), [](double value) { return 1e-3 * value; });
  return profiler::summary_of(ns);
}

constexpr int kPhaseSteps = 7;  // whose phases are looked at, beside the timed ones

// Attributes kernels to the phase of a step that launched them.
class PhaseTrace final : public PhaseObserver {
 public:
  explicit PhaseTrace(profiler::ActivityTrace& trace) : trace_(trace) {}
  void phase_begins(StepPhase phase) override { trace_.push(name_of(phase)); }
  void phase_ends(StepPhase) override { trace_.pop(); }

 private:
  profiler::ActivityTrace& trace_;
};

// Steps phase by phase, launched one by one: what verification takes without the draft.
class PhaseMeter {
 public:
  virtual ~PhaseMeter() = default;
  virtual std::optional<double> verification_us(const Strategy& strategy, std::int64_t context) = 0;
};

template <class T>
class SessionMeter final : public PhaseMeter {
 public:
  explicit SessionMeter(const StepBenchOptions& options)
      : on_gpu_(options.on_gpu),
        ops_(make_sweep_ops<T>(options.on_gpu, nullptr, options.threads)),
        session_(*ops_, named_llm_shape(options.geometry), options.seed) {}

  std::optional<double> verification_us(const Strategy& strategy, std::int64_t context) override {
    if (on_gpu_ && !profiler::ActivityTrace::missing_because().empty()) {
      return {};
    }
    session_.set_context(context);
    step(strategy);  // warms up
    std::vector<double> samples;
    for (int i = 0; i < kPhaseSteps; ++i) {
      samples.push_back(on_gpu_ ? traced_us(strategy) : timed_us(strategy));
    }
    return profiler::median_of(samples);
  }

 private:
  StepResult step(const Strategy& strategy, PhaseObserver* observer = nullptr) {
    return session_.step(strategy, strategy.draft.speculates() ? kCommittedNodes : 1, observer);
  }
  double timed_us(const Strategy& strategy) {
    const PhaseSeconds seconds = step(strategy).seconds;
    double us = 0.0;
    for (const StepPhase phase : {StepPhase::kVerify, StepPhase::kAccept, StepPhase::kCommit}) {
      us += 1e6 * seconds[static_cast<std::size_t>(phase)];
    }
    return us;
  }
  double traced_us(const Strategy& strategy) {
    profiler::ActivityTrace trace;
    PhaseTrace observer(trace);
    trace.begin();
    step(strategy, &observer);
    double us = 0.0;
    for (const profiler::TracedRange& range : trace.end()) {
      us += range.path == name_of(StepPhase::kDraft) ? 0.0 : 1e-3 * range.kernel_ns;
    }
    return us;
  }

  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  SyntheticSession<T> session_;
};

std::unique_ptr<PhaseMeter> make_phase_meter(const StepBenchOptions& options) {
  if (options.on_gpu) {
    return std::make_unique<SessionMeter<Bf16>>(options);
  }
  return std::make_unique<SessionMeter<float>>(options);
}

class StepBencher {
 public:
  StepBencher(const StepBenchOptions& options, const HardwareSpec* hardware)
      : options_(options),
        hardware_(hardware),
        plan_(plan_of(options)),
        instrument_(options.on_gpu ? make_gpu_instrument({}) : make_host_instrument()),
        runner_(options.on_gpu
                    ? make_step_runner<Bf16>(plan_, *instrument_, true, options.threads)
                    : make_step_runner<float>(plan_, *instrument_, false, options.threads)) {}

  StepRow row(const Strategy& strategy, std::int64_t context) {
    StepRow out{.strategy = strategy, .context_len = context};
    out.step_bytes = step_bytes(strategy, options_.geometry, context, options_.on_gpu ? 2 : 4);
    if (hardware_ != nullptr) {
      if (const std::optional<double> rate = cold_read_rate(*hardware_)) {
        out.bound_us = 1e6 * out.step_bytes / *rate;
      }
    }
    out.tokens = static_cast<double>(
        std::min(kCommittedNodes, strategy.draft.speculates() ? strategy.draft.depth + 1 : 1));
    out.launch = options_.on_gpu ? "graph" : "stream";
    PointMeasurement point = runner_->run(key_of(options_, strategy, context, out.launch));
    if (point.status == "refused" && options_.on_gpu) {
      out.launch = "stream";  // what cannot be recorded is led by the host
      point = runner_->run(key_of(options_, strategy, context, out.launch));
    }
    out.refused_because = point.reason;
    if (!point.time_ns.empty()) {
      out.time = in_us(point.time_ns);
    }
    if (out.refused_because.empty()) {
      meter_ = meter_ ? std::move(meter_) : make_phase_meter(options_);
      out.verification_us = meter_->verification_us(strategy, context);
    }
    return out;
  }

 private:
  const StepBenchOptions& options_;
  const HardwareSpec* hardware_;
  SweepPlan plan_;
  std::unique_ptr<Instrument> instrument_;
  std::unique_ptr<PointRunner> runner_;
  std::unique_ptr<PhaseMeter> meter_;  // made at the first use: it holds weights of its own
};

void compare_with_ar(std::vector<StepRow>& rows) {
  for (StepRow& row : rows) {
    const auto ar = std::find_if(rows.begin(), rows.end(), [&](const StepRow& other) {
      return other.context_len == row.context_len && other.refused_because.empty() &&
             other.strategy == Strategy::parse("nsa/ar");
    });
    if (ar != rows.end() && row.refused_because.empty()) {
      row.over_ar = row.time.median / ar->time.median;
      if (row.verification_us && ar->verification_us) {
        row.verification_over_ar = *row.verification_us / *ar->verification_us;
      }
    }
  }
}

}  // namespace

double step_bytes(const Strategy& strategy, const std::string& geometry, std::int64_t context_len,
                  std::int64_t element_bytes) {
  StepShape s{.target = named_llm_shape(geometry)};
  const std::string letters = strategy.schedule_for(s.target.layers);
  s.draft = draft_shape_for(s.target);
  s.tree = strategy.draft;
  s.context_len = context_len;
  s.num_queries = strategy.draft.nodes;
  s.refresh_layers = std::count(letters.begin(), letters.end(), 'F');
  s.reuse_layers = std::count(letters.begin(), letters.end(), 'R');
  s.element_bytes = element_bytes;
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
  const profiler::Environment environment = profiler::read_environment();
  StepBench bench{.device = environment.cpu_name,
                  .backend = options.on_gpu ? "cuda" : "cpu",
                  .dtype = options.on_gpu ? "bf16" : "f32",
                  .options = options};
  if (options.on_gpu && environment.gpu) {
    bench.device = environment.gpu->name;
  }
  StepBencher bencher(options, options.on_gpu ? hardware_for_device(bench.device) : nullptr);
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
