#include "engine/analyse/fit/system_points.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/fit/point_parts.h"
#include "model/cost/self_drafted.h"
#include "model/launches/dense_attention.h"
#include "model/launches/flash_decode.h"
#include "model/launches/sampling.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/launches/topk.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr double kChunk = 16.0;  // tokens that SpecAttn reads together

bool is_kernel(WorkloadKind workload) {
  return workload == WorkloadKind::kTopk || workload == WorkloadKind::kSampling;
}

bool is_rectified(WorkloadKind workload) {
  return workload == WorkloadKind::kRectify || workload == WorkloadKind::kRectifiedStep;
}

// A chain of the period's tokens over all of the cache, whose rows it writes anew.
StepShape pass_of(const StepShape& step, std::int64_t period) {
  StepShape pass = step;
  pass.num_queries = period;
  pass.dense = {.rewrites = true};
  return pass;
}

DenseRead read_of(const PointMeasurement& m, const Strategy& strategy) {
  const bool step =
      m.key.workload == WorkloadKind::kStep || m.key.workload == WorkloadKind::kRectifiedStep;
  DenseRead read{.method = strategy.attention,
                 .key_block = strategy.resa_key_block,
                 .active_ratio = strategy.resa_active_ratio,
                 .n_min = strategy.resa_n_min,
                 .n_local = strategy.resa_n_local,
                 .whole_step = step,
                 .vanilla = strategy.form == NsaForm::kVanilla};
  read.weight_rows = std::max<std::int64_t>(1, strategy.draft.nodes - 1);
  set_indexer(strategy, read);
  read.chosen_tokens =
      std::min(static_cast<double>(m.key.context_len), kChunk * m.unique_blocks.value_or(0.0));
  // A decode point keeps the keys of a whole block, a step those of the tokens that it has so far.
  const std::int64_t b = strategy.resa_key_block;
  read.filled = static_cast<double>(step ? m.key.context_len % b + 1 : b);
  return read;
}

StepShape shape_of(const PointMeasurement& m, const Strategy& strategy, const LlmShape& target,
                   const DraftShape& draft) {
  StepShape s = asked_step(strategy, target, draft, m.key.context_len, bytes_of(m.key.dtype));
  s.num_queries = m.key.num_queries;
  s.dense = read_of(m, strategy);
  s.recorded = s.dense.whole_step && m.key.launch == LaunchMode::kGraph;
  s.sampling = sampling_at(strategy, m.key.temperature);
  return m.key.workload == WorkloadKind::kRectify ? pass_of(s, m.key.num_queries) : s;
}

std::optional<LaunchKind> kind_in(const FitPoint& p, std::string_view path) {
  if (p.topk) {
    StepWork work;
    add_topk(*p.topk, p.key.context_len, p.key.num_queries, 4, true, work);
    const auto launched = std::find_if(work.begin(), work.end(), [&](const LaunchWork& launch) {
      return path == path_of(launch.kind);
    });
    return launched != work.end() ? std::optional(launched->kind) : std::nullopt;
  }
  if (path == "flash_decode") {
    const bool period = p.key.workload == WorkloadKind::kRectifiedStep;
    return flash_kind(p.shape.target, period ? p.strategy.resa_rectify_every : p.key.num_queries);
  }
  return launch_kind(path);
}

// Of a kernel alone: nobody's shapes.
FitPoint point_of(const PointMeasurement& m, const LlmShape& target, const DraftShape& draft) {
  FitPoint p{.key = m.key};
  p.system = true;
  p.conditions.warm = m.key.cache_state == CacheState::kWarm;
  p.conditions.launch =
      m.key.launch == LaunchMode::kGraph ? LaunchMode::kGraph : LaunchMode::kStream;
  if (m.key.workload == WorkloadKind::kTopk) {
    p.topk = TopkCase::parse(m.key.strategy);
  } else if (m.key.workload == WorkloadKind::kSampling) {
    p.sampling = SamplingCase::parse(m.key.strategy);
  } else {
    p.strategy = Strategy::parse(m.key.strategy);
    p.shape = shape_of(m, p.strategy, target, draft);
  }
  add_measurements(
      m, [&p](std::string_view path) { return kind_in(p, path); }, p);
  return p;
}

FitPoint point_of(const PointMeasurement& m) {
  if (is_kernel(m.key.workload)) {
    return point_of(m, {}, {});
  }
  const LlmShape target = named_llm_shape(m.key.model);
  return point_of(m, target, draft_shape_for(target));
}

std::string useless_because(const PointMeasurement& m) {
  if (m.status != PointStatus::kOk) {
    return std::string("status ") + name_of(m.status);
  }
  if (m.reliability != Reliability::kOk) {
    return name_of(m.reliability);
  }
  if (m.key.backend != Backend::kCuda) {
    return "another system's point that no GPU has run";
  }
  return says_anything(m) ? untold_because(m) : "neither time nor counters";
}

}  // namespace

bool is_system_point(const PointMeasurement& m) {
  if (is_imported(m) || is_simulated(m)) {
    return false;  // counted by fit_points
  }
  if (m.key.workload == WorkloadKind::kDecode || is_kernel(m.key.workload) ||
      is_rectified(m.key.workload)) {
    return true;
  }
  if (m.key.workload != WorkloadKind::kStep) {
    return false;
  }
  try {
    return Strategy::parse(m.key.strategy).attention != AttentionMethod::kNsa;
  } catch (const Error&) {
    return false;  // said elsewhere
  }
}

FitPoint system_point(const PointMeasurement& m, const LlmShape& target, const DraftShape& draft) {
  return point_of(m, target, draft);
}

FitPoints system_points(const std::vector<PointMeasurement>& measured) {
  FitPoints out;
  std::map<Dtype, std::int64_t> dtypes;
  for (const PointMeasurement& m : measured) {
    if (is_system_point(m)) {
      dtypes[m.key.dtype] += is_kernel(m.key.workload) ? 0 : 1;
    }
  }
  for (const auto& [dtype, count] : dtypes) {
    out.dtype = out.dtype == Dtype::kUnstated || count > dtypes[out.dtype] ? dtype : out.dtype;
  }
  for (const PointMeasurement& m : measured) {
    if (!is_system_point(m)) {
      continue;
    }
    std::string reason = useless_because(m);
    if (reason.empty() && !is_kernel(m.key.workload) && m.key.dtype != out.dtype) {
      reason = std::string("dtype ") + name_of(m.key.dtype);
    }
    try {
      if (reason.empty() && !is_kernel(m.key.workload)) {
        reason = outdated_because(m);
      }
      if (reason.empty()) {
        out.points.push_back(point_of(m));
        continue;
      }
    } catch (const Error& e) {
      reason = e.what();
    }
    out.skipped[reason] += 1;
  }
  std::sort(out.points.begin(), out.points.end(),
            [](const FitPoint& a, const FitPoint& b) { return key_text(a.key) < key_text(b.key); });
  return out;
}

namespace {

// Attention of a step by what decode points say of it.
StepWork whole_step(const StepShape& shape, const ResidualField& field) {
  StepWork work;
  add_step(shape, 1.0, work);
  correct_dense_attention(shape, field, work);
  return work;
}

PointWork step_work(const FitPoint& p, const ResidualField& field) {
  if (p.strategy.drafts_itself) {
    StepShape led = p.shape;
    led.recorded = false;
    return {.timed = self_drafted_work(p.shape, field), .observed = self_drafted_work(led, field)};
  }
  PointWork work{.timed = whole_step(p.shape, field)};
  StepShape led = p.shape;
  if (p.key.workload == WorkloadKind::kRectifiedStep) {
    led = pass_of(p.shape, p.strategy.resa_rectify_every);
    const double share = 1.0 / static_cast<double>(p.strategy.resa_rectify_every);
    const StepWork pass = whole_step(led, field);
    for (LaunchWork launch : pass) {
      launch.launches *= share;
      work.timed.add(launch);
    }
    work.timed.host_trips += share * pass.host_trips;
  }
  led.recorded = false;
  add_step(led, 1.0, work.observed);
  return work;
}

}  // namespace

PointWork system_work(const FitPoint& p, const ResidualField& field) {
  PointWork work;
  const bool cold = !p.conditions.warm;
  const std::int64_t bytes = bytes_of(p.key.dtype);
  if (p.topk) {
    add_topk(*p.topk, p.key.context_len, p.key.num_queries, bytes, cold, work.timed);
  } else if (p.sampling) {
    StepWork all;
    add_sampling(*p.sampling, p.key.context_len, p.key.num_queries, bytes, cold, all);
    for (const LaunchWork& launch : all) {
      if (std::any_of(p.ranges.begin(), p.ranges.end(),
                      [&](const RangeObservation& r) { return r.kind == launch.kind; })) {
        work.timed.add(launch);
      }
    }
  } else if (is_layer(p)) {
    add_dense_attention(p.shape, 1.0, work.timed);
    correct_vanilla(p.shape, field, work.timed);
  } else {
    return step_work(p, field);
  }
  work.observed = work.timed;
  return work;
}

std::string system_name(const FitPoint& p) {
  const std::string workload = name_of(p.key.workload);
  if (p.topk) {
    return workload + " " + name_of(p.topk->algorithm) + (p.topk->index ? " indexed" : "");
  }
  if (p.sampling) {
    return workload + " " + name_of(p.sampling->algorithm) +
           (p.sampling->width > 0 ? " tree" : " chain");
  }
  if (p.strategy.drafts_itself) {
    return workload + " self-drafted";
  }
  return workload + " " + name_of(p.strategy.attention) + (p.shape.dense.vanilla ? " vanilla" : "");
}

std::optional<Regime> system_regime(const FitPoint& p) {
  if (p.topk) {
    return topk_regime(*p.topk, p.key.context_len, p.key.num_queries);
  }
  if (p.sampling) {
    return sampling_regime(*p.sampling, p.key.context_len, p.key.num_queries,
                           bytes_of(p.key.dtype));
  }
  return is_layer(p) ? std::optional(dense_regime(p.shape)) : std::nullopt;
}

bool is_layer(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kDecode || p.key.workload == WorkloadKind::kRectify;
}

Regime whole_step_regime(const FitPoint& p) {
  if (p.strategy.drafts_itself) {
    return self_drafted_regime(p.shape);
  }
  return p.key.workload == WorkloadKind::kRectifiedStep
             ? period_regime(p.shape, p.strategy.resa_rectify_every)
             : step_regime(p.shape);
}

}  // namespace versieve::engine
