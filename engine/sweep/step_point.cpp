#include "engine/sweep/step_point.h"

#include <algorithm>
#include <optional>

#include "engine/speculate/synthetic_session.h"
#include "engine/sweep/device_ops.h"
#include "model/error.h"
#include "model/llm_shape.h"
#include "model/strategy.h"

namespace versieve::engine {
namespace {

// Tokens that a timed step commits with a draft: about what the demo pair yields
// (engine/demo/RECORD.md), so that the draft takes in as many entries as in real decoding.
constexpr std::int64_t kYield = 4;

// Means over the layers of one step's selected blocks.
void add_block_statistics(const StepResult& step, PointMeasurement& point) {
  double overlap = 0.0;
  double unique = 0.0;
  std::int64_t with_overlap = 0;
  for (const BlockStatistics& layer : step.blocks) {
    unique += layer.unique_blocks;
    if (layer.adjacent_overlap) {
      overlap += *layer.adjacent_overlap;
      with_overlap += 1;
    }
  }
  if (!step.blocks.empty()) {
    point.unique_blocks = unique / static_cast<double>(step.blocks.size());
  }
  if (with_overlap > 0) {
    point.adjacent_overlap = overlap / static_cast<double>(with_overlap);
  }
}

template <class T>
class StepPointRunner final : public PointRunner {
 public:
  StepPointRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads)
      : plan_(plan),
        instrument_(instrument),
        ops_(make_runner_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    const Strategy strategy = Strategy::parse(key.strategy);
    const LlmShape shape = named_llm_shape(key.model);
    const std::string illegal = illegal_because(strategy, shape);
    if (!illegal.empty()) {
      return refused_point(key, illegal);
    }
    if (key.launch == "graph") {
      return refused_point(key,
                           "a step asks the host which tokens were accepted, so it is no graph");
    }
    prepare(shape, key);
    return measure(key, strategy);
  }

 private:
  void prepare(const LlmShape& shape, const PointKey& key) {
    if (!session_ || model_ != key.model) {
      session_.reset();  // its memory first
      session_.emplace(*ops_, shape, plan_.seed);
      model_ = key.model;
      // Contexts are filled once, up to the longest of the plan.
      std::int64_t longest = key.context_len;
      for (const PointKey& other : plan_.points) {
        if (other.workload == WorkloadKind::kStep && other.model == key.model) {
          longest = std::max(longest, other.context_len);
        }
      }
      session_->set_context(longest);
    }
    session_->set_context(key.context_len);
  }

  PointMeasurement measure(const PointKey& key, const Strategy& strategy) {
    const std::int64_t yield =
        strategy.draft.speculates() ? std::min(kYield, strategy.draft.depth + 1) : 1;
    PointMeasurement point{.key = key};
    add_block_statistics(session_->step(strategy, yield, nullptr, true), point);
    RepeatableWork work;
    work.run = [this, &strategy, yield](std::int64_t) { session_->step(strategy, yield); };
    work.synchronize = [this] { ops_->synchronize(); };
    work.observe = [this](kernels::LaunchObserver* observer) { ops_->set_observer(observer); };
    // Each of some 500 launches is a counter range of its own: one repetition is a second or more.
    const MeasurePlan plan{
        .timing = plan_.timing,
        .trace_repetitions = std::min<std::int64_t>(plan_.trace_repetitions, 2),
        .counter_repetitions = std::min<std::int64_t>(plan_.counter_repetitions, 1),
        .cache_state = key.cache_state,
        .launch = key.launch};
    instrument_.measure(work, plan, point);
    return point;
  }

  const SweepPlan& plan_;
  Instrument& instrument_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::optional<SyntheticSession<T>> session_;
  std::string model_;
};

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_step_runner(const SweepPlan& plan, Instrument& instrument,
                                              bool on_gpu, int threads) {
  return std::make_unique<StepPointRunner<T>>(plan, instrument, on_gpu, threads);
}

template std::unique_ptr<PointRunner> make_step_runner<float>(const SweepPlan&, Instrument&, bool,
                                                              int);
template std::unique_ptr<PointRunner> make_step_runner<Bf16>(const SweepPlan&, Instrument&, bool,
                                                             int);

}  // namespace versieve::engine
