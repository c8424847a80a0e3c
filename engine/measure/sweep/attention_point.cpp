#include "engine/measure/sweep/attention_point.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/point_shape.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_layer.h"
#include "engine/run/speculate/step.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/nsa_vanilla.h"
#include "model/words/assert.h"
#include "model/words/draft_tree.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"
#include "profiler/gpu_timer.h"

namespace versieve::engine {
namespace {

constexpr double kSpareBytes = 4e9;  // of a GPU's memory, left to scratch

// The traffic function of a range, given how many distinct blocks there were.
std::optional<Traffic> predicted_for(const std::string& path,
                                     const traffic::NsaVerifyShape& shape) {
  if (path == "nsa_selected") {
    return traffic::nsa_selected(shape);
  }
  if (path == "nsa_attend") {
    return traffic::nsa_attend(shape);
  }
  if (path == "nsa_reuse") {
    return traffic::nsa_reuse(shape);
  }
  return std::nullopt;
}

template <class T>
class AttentionRunner final : public PointRunner {
 public:
  AttentionRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads,
                  const PairSource* pair)
      : plan_(plan),
        pair_(pair),
        instrument_(instrument),
        on_gpu_(on_gpu),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    const Strategy strategy = Strategy::parse(key.strategy);
    const PointShape own = point_shape(key, strategy, pair_);
    if (!own.refusal.empty()) {
      return refused_point(key, own.refusal);
    }
    const DraftTree grown = synthetic_tree(strategy.draft);
    VERSIEVE_ASSERT(grown.size() == key.num_queries, "a parsed draft names a tree that exists");
    prepare_layer(own.shape, key);
    layer_->set_tree(reordered(grown, traversal_order(grown, strategy.order)));
    if (key.overlap) {
      layer_->set_overlap(*key.overlap);
    }
    // A schedule with an R asks for its reuse layer, which is given blocks of the declared overlap.
    layer_->set_variant({.form = strategy.form,
                         .group_size = strategy.group_size,
                         .group_mode = strategy.group_mode,
                         .reuse = strategy.schedule.find('R') != std::string::npos});
    return measure(key);
  }

 private:
  void prepare_layer(const LlmShape& shape, const PointKey& key);
  PointMeasurement measure(const PointKey& key);

  const SweepPlan& plan_;
  const PairSource* pair_;
  Instrument& instrument_;
  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::map<std::pair<std::string, std::int64_t>, SyntheticLayer<T>> layers_;  // by model, context
  SyntheticLayer<T>* layer_ = nullptr;                                        // the point's
};

// One layer serves all points of its context: as many copies as the least greedy point needs. It
// stays for later points as long as there is memory.
template <class T>
void AttentionRunner<T>::prepare_layer(const LlmShape& shape, const PointKey& key) {
  const bool rotate = key.cache_state == CacheState::kColdRotate && on_gpu_;
  const traffic::NsaVerifyShape one_query{.nsa = shape.nsa,
                                          .num_heads = shape.num_heads,
                                          .num_kv_heads = shape.num_kv_heads,
                                          .head_dim = shape.head_dim,
                                          .context_len = key.context_len,
                                          .num_queries = 1,
                                          .element_bytes = sizeof(T)};
  const std::int64_t sets =
      rotate ? cold_sets(static_cast<double>(instrument_.cold_bytes()), touched_bytes(one_query))
             : 1;
  const std::pair name{model_of(key), key.context_len};
  const auto found = layers_.find(name);
  if (found != layers_.end() && found->second.sets() >= sets) {
    layer_ = &found->second;
    return;
  }
  const double bytes = 2.2 * static_cast<double>(sets * key.context_len * shape.kv_width()) *
                       static_cast<double>(sizeof(T));
  if (!on_gpu_ || bytes > static_cast<double>(profiler::gpu_free_bytes()) - kSpareBytes) {
    layers_.clear();  // its memory first
  } else {
    layers_.erase(name);
  }
  layer_ = &layers_
                .emplace(std::piecewise_construct, std::forward_as_tuple(name),
                         std::forward_as_tuple(*ops_, shape, key.context_len, sets, plan_.seed))
                .first->second;
}

template <class T>
PointMeasurement AttentionRunner<T>::measure(const PointKey& key) {
  layer_->run(0);
  const BlockStatistics blocks = layer_->measured_blocks();
  PointMeasurement point{.key = key};
  point.adjacent_overlap = blocks.adjacent_overlap;
  point.unique_blocks = blocks.unique_blocks;
  traffic::NsaVerifyShape shape = layer_->traffic_shape();
  shape.unique_blocks = blocks.unique_blocks;
  shape.group_blocks = layer_->measured_group_blocks();

  const std::int64_t sets =
      std::min(layer_->sets(),
               cold_sets(static_cast<double>(instrument_.cold_bytes()), touched_bytes(shape)));
  instrument_.measure(work_on<T>(*ops_, sets, [this](std::int64_t set) { layer_->run(set); }),
                      measure_plan(plan_, key), point);
  for (RangeMeasurement& range : point.ranges) {
    range.predicted = predicted_for(range.path, shape).value_or(range.predicted);
  }
  return point;
}

}  // namespace

PointMeasurement refused_point(const PointKey& key, const std::string& reason) {
  PointMeasurement point{.key = key};
  point.status = PointStatus::kRefused;
  point.reason = reason;
  return point;
}

template <class T>
std::unique_ptr<PointRunner> make_attention_runner(const SweepPlan& plan, Instrument& instrument,
                                                   bool on_gpu, int threads,
                                                   const PairSource* pair) {
  return std::make_unique<AttentionRunner<T>>(plan, instrument, on_gpu, threads, pair);
}

template std::unique_ptr<PointRunner> make_attention_runner<float>(const SweepPlan&, Instrument&,
                                                                   bool, int, const PairSource*);
template std::unique_ptr<PointRunner> make_attention_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                  bool, int, const PairSource*);

}  // namespace versieve::engine
