#include "engine/measure/sweep/batch_point.h"

#include <optional>
#include <vector>

#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_batch.h"
#include "model/words/batch_point.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kSteps = 96;  // before a batch begins anew: contexts stay near the key's

template <class T>
class BatchPointRunner final : public PointRunner {
 public:
  BatchPointRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads)
      : plan_(plan),
        instrument_(instrument),
        on_gpu_(on_gpu),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    const Strategy strategy = Strategy::parse(key.strategy);
    const LlmShape shape = named_llm_shape(key.model);
    std::string refusal = unbatched_because(strategy, shape);
    if (refusal.empty() && strategy.attention != AttentionMethod::kNsa &&
        strategy.attention != AttentionMethod::kDense) {
      refusal = "points of many requests are of nsa and dense strategies";
    }
    if (refusal.empty() && key.launch != LaunchMode::kStream) {
      refusal = "a step of many requests runs as the engine runs it: launch \"stream\"";
    }
    if (!refusal.empty()) {
      return refused_point(key, refusal);
    }
    if (!batch_ || batch_->shape().name != shape.name) {
      batch_.reset();  // frees first: two models need not fit together
      batch_.emplace(*ops_, shape, on_gpu_, plan_.seed);
    }
    contexts_ = batch_contexts(key);
    asked_ = {.strategy = strategy, .contexts = contexts_, .steps = kSteps};
    refusal = begin();
    if (!refusal.empty()) {
      return refused_point(key, refusal);
    }
    PointMeasurement point{.key = key};
    RepeatableWork work = work_on<T>(*ops_, 1, [this](std::int64_t) { step(); });
    work.host_timed = true;
    work.moves_on = true;
    work.make_room = [this](std::int64_t runs) {
      asked_.steps = runs + 1;  // the first one verifies roots
      return begin().empty();
    };
    work.observe = [this](kernels::LaunchObserver* observer) {
      batch_->set_records(observer == nullptr);
      ops_->set_observer(observer);
    };
    instrument_.measure(work, measure_plan(plan_, key), point);
    batch_->end();
    return point;
  }

 private:
  // The first step verifies roots alone: trees are drafted at its end.
  std::string begin() {
    std::string refusal = batch_->begin(asked_);
    if (refusal.empty()) {
      batch_->step();
    }
    return refusal;
  }

  void step() {
    if (batch_->steps_left() == 0) {
      if (const std::string refusal = begin(); !refusal.empty()) {
        throw Error(ExitCode::kEnvironment, refusal);
      }
    }
    batch_->step();
  }

  const SweepPlan& plan_;
  Instrument& instrument_;
  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::optional<SyntheticBatch<T>> batch_;
  std::vector<std::int64_t> contexts_;
  BatchAsked asked_;
};

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_batch_runner(const SweepPlan& plan, Instrument& instrument,
                                               bool on_gpu, int threads) {
  return std::make_unique<BatchPointRunner<T>>(plan, instrument, on_gpu, threads);
}

template std::unique_ptr<PointRunner> make_batch_runner<float>(const SweepPlan&, Instrument&, bool,
                                                               int);
template std::unique_ptr<PointRunner> make_batch_runner<Bf16>(const SweepPlan&, Instrument&, bool,
                                                              int);

}  // namespace versieve::engine
