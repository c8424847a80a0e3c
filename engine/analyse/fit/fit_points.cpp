#include "engine/analyse/fit/fit_points.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/analyse/fit/point_parts.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/fit/system_points.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// FNV-1a: stable over machines and versions.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

StepShape shape_of(const PointMeasurement& m, const Strategy& strategy, const LlmShape& target,
                   const DraftShape& draft) {
  StepShape s = asked_step(strategy, target, draft, m.key.context_len, bytes_of(m.key.dtype));
  s.num_queries = m.key.num_queries;
  s.overlap = m.adjacent_overlap.value_or(m.key.overlap.value_or(StepShape{}.overlap));
  if (strategy.group_mode == GroupMode::kApprox && strategy.group_size > 1) {
    s.overlap = m.key.overlap.value_or(s.overlap);  // measured are sets that groups share already
  }
  s.recorded = m.key.workload == WorkloadKind::kStep && m.key.launch == LaunchMode::kGraph;
  s.one_launch = has_range(m, name_of(LaunchKind::kDecodeLayers));
  s.sampling = sampling_at(strategy, m.key.temperature);
  return s;
}

// What was launched decides which form was measured: points of a dtype or a shape that the fused
// form does not take bear no mark of theirs.
Strategy measured_strategy(const PointMeasurement& m) {
  Strategy strategy = Strategy::parse(m.key.strategy);
  if (has_range(m, name_of(LaunchKind::kNsaSelected))) {
    strategy.form = NsaForm::kVanilla;
  }
  return strategy;
}

FitPoint named_point(const PointMeasurement& m, double holdout) {
  const LlmShape target = named_llm_shape(m.key.model);
  FitPoint p = fit_point(m, target, draft_shape_for(target));
  p.held_out = cell_hash(p.key) < holdout;
  return p;
}

// What a step that was watched on the device says of launches that do not depend on its pair.
FitPoint around_the_tree(const FitPoint& step) {
  FitPoint p = step;
  p.time_us.reset();
  p.dram_bytes.reset();
  p.read_bytes.reset();
  p.unique_blocks.reset();
  p.held_out = false;
  p.ranges.clear();
  for (const RangeObservation& range : step.ranges) {
    if (range.kind == LaunchKind::kFinishTree || range.kind == LaunchKind::kAcceptTree ||
        range.kind == LaunchKind::kCommitPath) {
      p.ranges.push_back({range.kind, range.time_us, {}, {}});
    }
  }
  return p;
}

// Why a point cannot teach the cost model, or an empty text.
std::string useless_because(const PointMeasurement& m) {
  if (m.status != PointStatus::kOk) {
    return std::string("status ") + name_of(m.status);
  }
  if (m.reliability != Reliability::kOk) {
    return name_of(m.reliability);  // suspect, throttled
  }
  if (m.key.backend == Backend::kCpu) {
    return "measured on the CPU";
  }
  try {
    named_llm_shape(m.key.model);
    Strategy::parse(m.key.strategy);
  } catch (const Error& e) {
    return e.what();
  }
  if (!says_anything(m)) {
    return "neither time nor counters";
  }
  const std::string reason = untold_because(m);
  return reason.empty() ? outdated_because(m) : reason;
}

Dtype most_frequent_dtype(const std::vector<const PointMeasurement*>& points) {
  std::map<Dtype, std::int64_t> counts;
  for (const PointMeasurement* m : points) {
    counts[m->key.dtype] += 1;
  }
  Dtype best = Dtype::kUnstated;
  std::int64_t most = 0;
  for (const auto& [dtype, count] : counts) {
    if (count > most) {
      best = dtype;
      most = count;
    }
  }
  return best;
}

// Without a cache state: what all states of a cell share.
std::string text_of(const PointKey& key, const char* cache_state) {
  char overlap[32] = "-";
  if (key.overlap) {
    std::snprintf(overlap, sizeof overlap, "%.9g", *key.overlap);
  }
  std::string text = name_of(key.workload);
  for (const std::string& part :
       {key.model, key.regime, key.split, key.strategy, std::string(name_of(key.dtype)),
        std::string(name_of(key.backend)), std::string(cache_state),
        std::string(name_of(key.launch)), std::to_string(key.context_len),
        std::to_string(key.num_queries), std::string(overlap)}) {
    text += "|" + part;
  }
  if (key.temperature > 0.0) {
    char temperature[32];
    std::snprintf(temperature, sizeof temperature, "|T%.9g", key.temperature);
    text += temperature;
  }
  return text;
}

}  // namespace

FitPoint fit_point(const PointMeasurement& m, const LlmShape& target, const DraftShape& draft) {
  FitPoint p{.key = m.key, .strategy = measured_strategy(m)};
  p.key.strategy = p.strategy.text();
  p.shape = shape_of(m, p.strategy, target, draft);
  p.reuse = m.key.workload == WorkloadKind::kAttention && !m.ranges.empty() &&
            !has_range(m, name_of(LaunchKind::kNsaSelect)) &&
            !has_range(m, name_of(LaunchKind::kNsaRoute));
  p.conditions.warm = m.key.cache_state == CacheState::kWarm;
  p.conditions.launch =
      m.key.launch == LaunchMode::kGraph ? LaunchMode::kGraph : LaunchMode::kStream;
  p.shape.imposed_chain = p.reuse && m.key.regime == "synthetic";
  p.unique_blocks = m.unique_blocks;
  p.device_ranges = has_range(m, name_of(LaunchKind::kFinishTree));
  add_measurements(m, launch_kind, p);
  return p;
}

std::string key_text(const PointKey& key) {
  return text_of(key, name_of(key.cache_state));
}

std::string cell_text(const PointKey& key) {
  PointKey cell = key;
  if (key.workload == WorkloadKind::kTopk || key.workload == WorkloadKind::kSampling) {
    return text_of(cell, "");
  }
  Strategy strategy = Strategy::parse(key.strategy);
  if (strategy.group_size == 1) {
    strategy.order = Traversal::kBfs;
    cell.strategy = strategy.text();
  }
  return text_of(cell, "");
}

double cell_hash(const PointKey& key) {
  const std::uint64_t mixed = hash_of(cell_text(key)) * 0x9E3779B97F4A7C15ULL;
  return static_cast<double>(mixed >> 32) / 4294967296.0;
}

FitPoints fit_points(const std::vector<PointMeasurement>& measured, double holdout) {
  FitPoints out;
  std::vector<const PointMeasurement*> useful;
  for (const PointMeasurement& m : measured) {
    if (is_imported(m)) {
      out.skipped[kImported] += 1;
      continue;
    }
    if (is_simulated(m)) {
      out.skipped[kSimulated] += 1;
      continue;
    }
    const bool timed =
        m.key.workload == WorkloadKind::kAttention || m.key.workload == WorkloadKind::kStep;
    if (!timed || is_system_point(m)) {
      continue;
    }
    const std::string reason = useless_because(m);
    if (reason.empty()) {
      useful.push_back(&m);
    } else {
      out.skipped[reason] += 1;
    }
  }
  out.dtype = most_frequent_dtype(useful);
  const bool others = std::any_of(useful.begin(), useful.end(), [](const PointMeasurement* m) {
    return m->key.workload == WorkloadKind::kStep && !is_step_of_small_pair(*m);
  });
  const auto is_apart = [&](const PointMeasurement& m) {
    return others && is_step_of_small_pair(m);
  };
  for (const PointMeasurement* m : useful) {
    if (m->key.dtype != out.dtype) {
      out.skipped[std::string("dtype ") + name_of(m->key.dtype)] += 1;
    } else {
      (is_apart(*m) ? out.apart : out.points).push_back(named_point(*m, holdout));
    }
  }
  for (const FitPoint& p : out.apart) {
    if (p.device_ranges) {
      out.watched.push_back(around_the_tree(p));
    }
  }
  for (std::vector<FitPoint>* points : {&out.points, &out.apart, &out.watched}) {
    std::sort(points->begin(), points->end(), [](const FitPoint& a, const FitPoint& b) {
      return key_text(a.key) < key_text(b.key);
    });
  }
  return out;
}

MeasuredStep measured_step(const FitPoint& point, const std::string& geometry,
                           double predicted_us) {
  return {point.strategy,
          point.key.context_len,
          *point.time_us,
          point.time_log_error,
          predicted_us,
          Provenance::kMeasured,
          point.shape.draft.vocab < point.shape.target.vocab ? point.shape.draft.vocab : 0,
          geometry,
          point.shape.overlap,
          point.key.temperature};
}

double predicted_blocks(const FitPoint& point, double unique_growth) {
  StepShape shape = point.shape;
  shape.unique_blocks = 0.0;
  return attention_shape(shape, unique_growth).unique_blocks;
}

PointWork work_of(const FitPoint& point, double unique_growth, bool known) {
  if (point.system) {
    return system_work(point);
  }
  PointWork work;
  StepShape shape = point.shape;
  shape.unique_blocks = known ? point.unique_blocks.value_or(0.0) : 0.0;
  if (point.key.workload == WorkloadKind::kStep) {
    add_step(shape, unique_growth, work.timed);
    shape.recorded = point.device_ranges;
    add_step(shape, unique_growth, work.observed);
    return work;
  }
  add_attention(attention_shape(shape, unique_growth), shape.form, point.reuse, 1.0, work.timed);
  work.observed = work.timed;
  return work;
}

}  // namespace versieve::engine
