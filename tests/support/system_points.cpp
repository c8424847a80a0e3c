#include "tests/support/system_points.h"

#include <cmath>
#include <random>

#include "model/launches/dense_attention.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/launches/topk.h"

namespace versieve::synthetic {
namespace {

class Maker {
 public:
  Maker(const Plan& plan, const HardwareSpec& hardware)
      : plan_(plan), hardware_(hardware), random_(plan.seed) {}

  PointMeasurement make(const PointKey& key, const StepWork& timed, const StepWork& observed) {
    PointMeasurement m{.key = key};
    const RunConditions conditions{.launch = LaunchMode::kGraph};
    const L2Pressure pressure = l2_pressure(observed, hardware_, plan_.parameters, conditions);
    for (const LaunchWork& launch : observed) {
      const LaunchCost cost = cost_of(launch, pressure, hardware_, plan_.parameters, conditions);
      RangeMeasurement& range = range_of(m, path_of(launch.kind));
      range.launches += launch.is_phase ? 0 : std::llround(launch.launches);
      range.gpu_time_ns[0] += launch.launches * cost.time_us * 1e3 * noise();
      *range.counters[0].value += launch.launches * cost.read_bytes * noise();
      *range.counters[1].value += launch.launches * cost.write_bytes * noise();
    }
    const double ns = cost_of(timed, hardware_, plan_.parameters, conditions).time_us * 1e3;
    m.time_ns = {ns * noise()};
    return m;
  }

 private:
  // A range has all that its path names: launches of one kind, and phases within one.
  static RangeMeasurement& range_of(PointMeasurement& m, const char* path) {
    for (RangeMeasurement& range : m.ranges) {
      if (range.path == path) {
        return range;
      }
    }
    m.ranges.push_back(
        {.path = path,
         .gpu_time_ns = {0.0},
         .counters = {{"dram__bytes_read.sum", 0.0}, {"dram__bytes_write.sum", 0.0}}});
    return m.ranges.back();
  }

  double noise() { return std::exp(plan_.noise * normal_(random_)); }

  const Plan& plan_;
  const HardwareSpec& hardware_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

PointKey key_of(WorkloadKind workload, const char* text, std::int64_t context,
                std::int64_t queries) {
  return {
      .workload = workload,
      .model = workload == WorkloadKind::kTopk ? "kernel" : "dense-1b",
      .regime = "synthetic",
      .strategy = text,
      .dtype = workload == WorkloadKind::kTopk ? Dtype::kF32 : Dtype::kBf16,
      .backend = Backend::kCuda,
      .cache_state = workload == WorkloadKind::kStep ? CacheState::kAsIs : CacheState::kColdRotate,
      .launch = LaunchMode::kGraph,
      .context_len = context,
      .num_queries = queries};
}

StepShape shape_of(const Strategy& strategy, std::int64_t context, bool step) {
  StepShape s{.target = named_llm_shape("dense-1b")};
  s.draft = draft_shape_for(s.target);
  s.tree = strategy.draft;
  s.context_len = context;
  s.num_queries = strategy.draft.nodes;
  s.refresh_layers = s.target.layers;
  const std::int64_t b = strategy.resa_key_block;
  s.dense = {.method = strategy.attention,
             .key_block = b,
             .active_ratio = strategy.resa_active_ratio,
             .n_min = strategy.resa_n_min,
             .n_local = strategy.resa_n_local,
             .chosen_tokens = std::floor(0.4 * static_cast<double>(context) / 16.0) * 16.0,
             .weight_rows = std::max<std::int64_t>(1, strategy.draft.nodes - 1),
             .filled = static_cast<double>(step ? context % b + 1 : b),
             .whole_step = step,
             .vanilla = strategy.form == NsaForm::kVanilla};
  return s;
}

StepShape pass_of(StepShape step, std::int64_t period) {
  step.num_queries = period;
  step.dense = {.rewrites = true};
  return step;
}

PointMeasurement layer_point(Maker& maker, WorkloadKind kind, const char* model,
                             const std::string& text, std::int64_t context) {
  const Strategy strategy = Strategy::parse(text);
  const bool pass = kind == WorkloadKind::kRectify;
  StepShape shape = shape_of(strategy, context, false);
  shape.target = named_llm_shape(model);
  StepWork work;
  add_dense_attention(pass ? pass_of(shape, strategy.resa_rectify_every) : shape, 1.0, work);
  const std::int64_t queries = pass ? strategy.resa_rectify_every : 1;
  PointKey key = key_of(kind, text.c_str(), context, queries);
  key.model = model;
  return maker.make(key, work, work);
}

PointMeasurement period_point(Maker& maker, const std::string& text, std::int64_t context) {
  const Strategy strategy = Strategy::parse(text);
  StepShape step = shape_of(strategy, context, true);
  step.recorded = true;
  StepShape pass = pass_of(step, strategy.resa_rectify_every);
  StepWork timed, whole, led;
  add_step(step, 1.0, timed);
  add_step(pass, 1.0, whole);
  for (LaunchWork launch : whole) {
    launch.launches /= static_cast<double>(strategy.resa_rectify_every);
    timed.add(launch);
  }
  pass.recorded = false;
  add_step(pass, 1.0, led);
  return maker.make(key_of(WorkloadKind::kRectifiedStep, text.c_str(), context, 1), timed, led);
}

}  // namespace

std::vector<PointMeasurement> system_points(const Plan& plan, const HardwareSpec& hardware) {
  Maker maker(plan, hardware);
  std::vector<PointMeasurement> points;
  for (const std::int64_t context : {4096, 16384, 65536, 262144}) {
    for (const char* text : {"dense/ar", "dense/d7k1n8/bfs/c1/F*", "dense/d31k1n32/bfs/c1/F*",
                             "resa:b16p0.1f32/ar", "resa:b32p0.05f64/ar", "resa:b64p0.02f128/ar",
                             "specattn:p0.9/d7k1n8/bfs/c1/F*", "specattn:p0.9/d3k1n4/bfs/c1/F*"}) {
      const Strategy strategy = Strategy::parse(text);
      StepWork work;
      const StepShape shape = shape_of(strategy, context, false);
      add_dense_attention(shape, 1.0, work);
      points.push_back(maker.make(
          key_of(WorkloadKind::kDecode, text, context, strategy.draft.nodes), work, work));
      if (strategy.attention == AttentionMethod::kSpecAttn) {
        points.back().unique_blocks = shape.dense.chosen_tokens / 16.0;
      }
      if (strategy.draft.speculates() || context > 65536) {
        continue;
      }
      StepShape step = shape_of(strategy, context, true);
      StepWork led, recorded;
      add_step(step, 1.0, led);
      step.recorded = true;
      add_step(step, 1.0, recorded);
      points.push_back(maker.make(key_of(WorkloadKind::kStep, text, context, 1), recorded, led));
    }
  }
  for (const std::int64_t length : {8192, 32768, 131072}) {
    for (const std::int64_t rows : {1, 32, 128}) {
      for (const char* text : {"topk:radix/k256", "topk:gvr/k256/hint0.75"}) {
        StepWork work;
        add_topk(TopkCase::parse(text), length, rows, 4, true, work);
        points.push_back(maker.make(key_of(WorkloadKind::kTopk, text, length, rows), work, work));
      }
    }
  }
  return points;
}

std::vector<PointMeasurement> sparse_term_points(const Plan& plan, const HardwareSpec& hardware) {
  Maker maker(plan, hardware);
  std::vector<PointMeasurement> points;
  for (const std::int64_t context : {4096, 16384, 65536, 131072, 262144}) {
    for (const char* model : {"dense-1b", "dense-8b"}) {
      for (const char* ratio : {"0.02", "0.05", "0.1", "0.2"}) {
        for (const char* block : {"16", "32", "64"}) {
          const std::string text = std::string("resa:b") + block + "p" + ratio + "f0/ar";
          points.push_back(layer_point(maker, WorkloadKind::kDecode, model, text, context));
          points.push_back(layer_point(maker, WorkloadKind::kDecode, model,
                                       text + "/bfs/c1/F*/form=vanilla", context));
        }
      }
    }
    for (const char* period : {"16", "32", "64", "128", "256"}) {
      const std::string text = std::string("resa:b16p0.1f") + period + "/ar";
      for (const char* model : {"dense-1b", "dense-8b"}) {
        points.push_back(layer_point(maker, WorkloadKind::kRectify, model, text, context));
      }
      points.push_back(period_point(maker, text, context));
    }
  }
  return points;
}

}  // namespace versieve::synthetic
