#include "engine/measure/sweep/batch_point.h"

#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/io/formatted.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_batch.h"
#include "model/words/batch_point.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kSteps = 96;  // before a batch begins anew: contexts stay near the key's

// The search for weights whose neighbouring queries share a declared part of their blocks.
constexpr int kMostProbes = 8;
constexpr double kNearEnough = 0.02;  // of what is shared
constexpr double kTooFar = 0.05;
constexpr double kAlikeRange = 6.0;  // decades that embeddings may differ less by

// Monotone from [0, 1]; what queries share depends on what embeddings differ by.
double alike_at(double t) {
  return 1.0 - std::pow(10.0, -kAlikeRange * t);
}

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
    if (refusal.empty() && key.launch != LaunchMode::kStream) {
      refusal = "a step of many requests runs as the engine runs it: launch \"stream\"";
    }
    if (!refusal.empty()) {
      return refused_point(key, refusal);
    }
    refusal = make_ready(key, strategy, shape);
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
    add_chosen_blocks(shape, point);
    batch_->end();
    return point;
  }

 private:
  // The point's weights and contexts, its first step made, or why there are none.
  std::string make_ready(const PointKey& key, const Strategy& strategy, const LlmShape& shape) {
    double alike = 0.0;
    if (key.overlap) {
      if (std::string reason = find_alike(key, strategy, shape, alike); !reason.empty()) {
        return reason;
      }
    }
    make_models(shape, alike);
    contexts_ = batch_contexts(key);
    asked_ = {.strategy = strategy, .contexts = contexts_, .steps = kSteps};
    return begin();
  }

  void make_models(const LlmShape& shape, double alike) {
    if (!batch_ || batch_->shape().name != shape.name || alike_ != alike) {
      batch_.reset();  // frees first: two models need not fit together
      batch_.emplace(*ops_, shape, on_gpu_, plan_.seed, alike);
      alike_ = alike;
    }
  }

  // How alike embeddings are of which neighbours in the tree of one request share what the key
  // declares, by halves; found once a geometry, context and share. Why none was, or an empty text.
  std::string find_alike(const PointKey& key, const Strategy& strategy, const LlmShape& shape,
                         double& alike) {
    const auto [found, is_new] =
        found_.try_emplace({shape.name, key.context_len, *key.overlap}, 0.0);
    alike = found->second;
    if (!is_new) {
      return {};
    }
    double low = 0.0, high = 1.0, nearest = 2.0, shared = 0.0;
    for (int probe = 0; probe < kMostProbes && nearest > kNearEnough; ++probe) {
      const double t = 0.5 * (low + high);
      make_models(shape, alike_at(t));
      contexts_ = {key.context_len};
      asked_ = {.strategy = strategy, .contexts = contexts_, .steps = 2};
      if (std::string refusal = begin(); !refusal.empty()) {
        found_.erase(found);
        return refusal;
      }
      step();
      const double now = batch_->chosen_blocks().adjacent_overlap.value_or(0.0);
      if (std::abs(now - *key.overlap) < nearest) {
        nearest = std::abs(now - *key.overlap);
        shared = now;
        alike = found->second = alike_at(t);
      }
      (now < *key.overlap ? low : high) = t;
    }
    if (nearest > kTooFar) {
      found_.erase(found);
      return formatted("no weights were found whose neighbours share %.2f; the nearest share %.2f",
                       *key.overlap, shared);
    }
    return {};
  }

  // Of the last step: what the engine read by groups.
  void add_chosen_blocks(const LlmShape& shape, PointMeasurement& point) const {
    if (shape.attention == AttentionKind::kNsa && asked_.strategy.draft.speculates()) {
      const BlockStatistics blocks = batch_->chosen_blocks();
      point.adjacent_overlap = blocks.adjacent_overlap;
      point.unique_blocks = blocks.unique_blocks;
    }
  }

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
  double alike_ = 0.0;                                                     // of its embeddings
  std::map<std::tuple<std::string, std::int64_t, double>, double> found_;  // find_alike's
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
