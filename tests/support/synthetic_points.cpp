#include "tests/support/synthetic_points.h"

#include <cmath>
#include <random>

#include "model/cost/acceptance.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/step_composition.h"

namespace versieve::synthetic {
namespace {

class Maker {
 public:
  Maker(const Plan& plan, const HardwareSpec& hardware)
      : plan_(plan), hardware_(hardware), random_(plan.seed) {}

  // Ranges are of `observed`, the time is of `timed`.
  PointMeasurement make(const PointKey& key, const StepWork& timed, const StepWork& observed) {
    PointMeasurement m = make(key, observed);
    const PointMeasurement whole = make(key, timed);
    m.time_ns = whole.time_ns;
    return m;
  }

  PointMeasurement make(const PointKey& key, const StepWork& work) {
    PointMeasurement m{.key = key};
    const double shared = noise();
    const RunConditions conditions{key.cache_state == CacheState::kWarm, key.launch};
    double total_us = 0.0;
    const L2Pressure pressure = l2_pressure(work, hardware_, plan_.parameters, conditions);
    for (const LaunchWork& launch : work) {
      const LaunchCost cost = cost_of(launch, pressure, hardware_, plan_.parameters, conditions);
      const double us = launch.launches * cost.time_us * extra(key) * shared * noise();
      total_us += us * (1.0 - cost.overlapped_us / cost.time_us) + launch.launches * cost.gap_us;
      RangeMeasurement& range = range_of(m, name_of(launch.kind));
      range.launches += std::llround(launch.launches);
      range.gpu_time_ns[0] += us * 1e3;
      add(range.counters[0], launch.launches * cost.read_bytes * noise());
      add(range.counters[1], launch.launches * cost.write_bytes * noise());
    }
    for (int i = 0; i < 5; ++i) {
      m.time_ns.push_back(total_us * 1e3 * (1.0 + 0.001 * (i - 2)));
    }
    return m;
  }

  double noise() { return std::exp(plan_.noise * normal_(random_)); }

 private:
  double extra(const PointKey& key) const {
    return key.context_len > plan_.factor_above ? plan_.time_factor : 1.0;
  }

  static RangeMeasurement& range_of(PointMeasurement& m, const char* path) {
    for (RangeMeasurement& r : m.ranges) {
      if (r.path == path) {
        return r;
      }
    }
    RangeMeasurement range;
    range.path = path;
    range.gpu_time_ns = {0.0};
    range.counters = {{"dram__bytes_read.sum", 0.0}, {"dram__bytes_write.sum", 0.0}};
    m.ranges.push_back(range);
    return m.ranges.back();
  }

  static void add(CounterValue& counter, double bytes) { *counter.value += bytes; }

  const Plan& plan_;
  const HardwareSpec& hardware_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

double growth_of(const Plan& plan) {
  return plan.parameters[index_of(SharedParameter::kUniqueGrowth)];
}

StepShape shape_at(const Strategy& strategy, std::int64_t context, double overlap,
                   const char* model = "nsa-1b") {
  StepShape s{.target = named_llm_shape(model)};
  s.draft = draft_shape_for(s.target);
  s.tree = strategy.draft;
  s.context_len = context;
  s.num_queries = strategy.draft.nodes;
  s.refresh_layers = s.target.layers;
  s.overlap = overlap;
  return s;
}

}  // namespace

std::vector<PointMeasurement> attention_points(const Plan& plan, const HardwareSpec& hardware) {
  Maker maker(plan, hardware);
  std::vector<PointMeasurement> points;
  const bool fused = plan.form == NsaForm::kFused;
  for (const std::int64_t context : {1024, 2048, 4096, 8192, 12288, 16384, 32768, 65536}) {
    for (const std::int64_t queries : {1, 2, 4, 8, 16, 32, 64, 128}) {
      for (const double overlap : {0.3, 0.6, 0.9}) {
        // Reuse and groups take turns, so that fused points are as many as vanilla ones.
        const bool reuse = fused && points.size() % 2 == 1;
        const std::int64_t group = fused && queries > 1 && points.size() % 4 >= 2 ? 8 : 1;
        const std::string tail =
            std::string(group == 8 ? "/c8e" : "/c1") + (reuse ? "/(FR)*" : "/F*");
        const std::string tuple = queries > 1
                                      ? "nsa/d8k8n" + std::to_string(queries) + "/bfs" + tail
                                  : reuse ? "nsa/ar/bfs" + tail
                                          : "nsa/ar";
        StepShape shape = shape_at(Strategy::parse("nsa/ar"), context, overlap);
        shape.num_queries = queries;
        shape.form = plan.form;
        shape.group_size = group;
        shape.imposed_chain = reuse;
        StepWork work;
        const traffic::NsaVerifyShape attention = attention_shape(shape, growth_of(plan));
        add_attention(attention, plan.form, reuse, 1.0, work);
        PointKey key{.workload = WorkloadKind::kAttention,
                     .model = "nsa-1b",
                     .regime = "synthetic",
                     .strategy = fused ? tuple : "nsa/ar",
                     .dtype = Dtype::kBf16,
                     .backend = Backend::kCuda,
                     .cache_state = CacheState::kColdRotate,
                     .launch = LaunchMode::kGraph,
                     .context_len = context,
                     .num_queries = queries,
                     .overlap = overlap};
        points.push_back(maker.make(key, work));
        points.back().unique_blocks = attention.unique_blocks * maker.noise();
      }
    }
  }
  return points;
}

std::vector<PointMeasurement> step_points(const Plan& plan, const HardwareSpec& hardware) {
  Maker maker(plan, hardware);
  std::vector<PointMeasurement> points;
  for (const std::int64_t context : {1024, 4096, 8192, 16384}) {
    for (const char* text :
         {"nsa/ar", "nsa/d3k1n4/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*", "nsa/d4k4n16/bfs/c1/F*",
          "nsa/d6k4n32/bfs/c1/F*", "nsa/d6k8n64/bfs/c1/F*", "nsa/d8k8n128/bfs/c1/F*"}) {
      const Strategy strategy = Strategy::parse(text);
      StepWork work;
      StepShape shape = shape_at(strategy, context, 0.6, plan.model);
      shape.form = plan.form;
      shape.one_launch = plan.form == NsaForm::kFused && !strategy.draft.speculates();
      shape.recorded = plan.device_ranges;
      add_step(shape, growth_of(plan), work);
      StepWork timed;
      shape.recorded = plan.step_launch == LaunchMode::kGraph;
      add_step(shape, growth_of(plan), timed);
      PointKey key{.workload = WorkloadKind::kStep,
                   .model = plan.model,
                   .regime = "synthetic",
                   .strategy = text,
                   .dtype = Dtype::kBf16,
                   .backend = Backend::kCuda,
                   .cache_state = CacheState::kAsIs,
                   .launch = plan.step_launch,
                   .context_len = context,
                   .num_queries = strategy.draft.nodes};
      points.push_back(maker.make(key, timed, work));
    }
  }
  return points;
}

std::vector<PointMeasurement> acceptance_points(double first, double siblings, double decay) {
  AcceptanceModel::Positional model;
  model.first = first;
  model.siblings = siblings;
  model.decay = decay;
  std::vector<PointMeasurement> points;
  for (const std::int64_t context : {1024, 6144, 10240, 14336}) {
    for (const char* regime : {"chat", "plan", "prose", "code"}) {
      for (const char* text : {"nsa/d3k1n4/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*",
                               "nsa/d4k4n16/bfs/c1/F*", "nsa/d6k8n64/bfs/c1/F*"}) {
        PointMeasurement m;
        m.key = {.workload = WorkloadKind::kAcceptance,
                 .model = "demo-nsa",
                 .regime = regime,
                 .split = "calibration",
                 .strategy = text,
                 .dtype = Dtype::kF32,
                 .backend = Backend::kCpu,
                 .cache_state = CacheState::kAsIs,
                 .launch = LaunchMode::kStream,
                 .context_len = context,
                 .num_queries = Strategy::parse(text).draft.nodes};
        const double mean = positional_accepted(model, Strategy::parse(text).draft);
        m.acceptance = AcceptanceMeasurement{
            .steps = 100, .accepted_histogram = {0, 50, 0, 0, 0, 50}, .accepted_per_step = mean};
        m.adjacent_overlap = 0.55;
        points.push_back(m);
      }
    }
  }
  return points;
}

}  // namespace versieve::synthetic
