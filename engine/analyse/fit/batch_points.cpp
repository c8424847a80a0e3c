#include "engine/analyse/fit/batch_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/analyse/fit/point_parts.h"
#include "model/launches/flash_decode.h"
#include "model/launches/step_composition.h"
#include "model/words/batch_point.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

std::string useless_because(const PointMeasurement& m, const FittedModel& model) {
  if (is_imported(m)) {
    return kImported;
  }
  if (is_simulated(m)) {
    return kSimulated;
  }
  if (m.status != PointStatus::kOk) {
    return std::string("status ") + name_of(m.status);
  }
  if (m.reliability != Reliability::kOk) {
    return name_of(m.reliability);
  }
  if (m.key.backend != Backend::kCuda) {
    return "a step of many requests that no GPU has run";
  }
  if (m.key.dtype != model.dtype) {
    return std::string("dtype ") + name_of(m.key.dtype);
  }
  const AttentionMethod attention = Strategy::parse(m.key.strategy).attention;
  if (attention != AttentionMethod::kNsa && attention != AttentionMethod::kDense) {
    return "of a system that no model of batches is kept of";
  }
  return says_anything(m) ? untold_because(m) : "neither time nor counters";
}

// What neighbours' blocks have in common: as the point says, else with such weights, of the step of
// one request that lies nearest by context and nodes (points before 2026-11-28 do not say).
double overlap_of(const PointMeasurement& point, std::int64_t nodes,
                  const std::vector<PointMeasurement>& measured) {
  if (point.adjacent_overlap) {
    return *point.adjacent_overlap;
  }
  const PointKey& key = point.key;
  double nearest = std::numeric_limits<double>::infinity();
  double overlap = StepShape{}.overlap;
  for (const PointMeasurement& m : measured) {
    if (m.key.workload == WorkloadKind::kStep && m.key.model == key.model && m.adjacent_overlap) {
      const auto apart = [](std::int64_t a, std::int64_t b) {
        return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
      };
      const double d = apart(m.key.context_len, key.context_len) + apart(m.key.num_queries, nodes);
      if (d < nearest) {
        nearest = d;
        overlap = *m.adjacent_overlap;
      }
    }
  }
  return overlap;
}

// Levels that the point's engine grew, a launch of the draft's attention each: older ones stopped
// where no node of a further level could be among the best.
std::optional<std::int64_t> grown_levels(const PointMeasurement& m) {
  for (const RangeMeasurement& range : m.ranges) {
    if (launch_kind(range.path) == LaunchKind::kTreeAttention) {
      return range.launches;
    }
  }
  return {};
}

BatchPoint batch_point(const PointMeasurement& m, const FittedModel& model,
                       const std::vector<PointMeasurement>& measured) {
  const std::int64_t requests = batch_requests(m.key);  // throws: nothing is half made by then
  BatchPoint out{.point = {.key = m.key, .strategy = Strategy::parse(m.key.strategy)},
                 .requests = requests};
  const std::vector<std::int64_t> contexts = batch_contexts(m.key);
  const LlmShape target = named_llm_shape(m.key.model);
  const bool dense = target.attention == AttentionKind::kDense;
  // The draft is the one that such steps run with (engine/measure/sweep/synthetic_batch.h).
  StepShape shape = asked_step(out.point.strategy, target, usual_draft(target), m.key.context_len,
                               bytes_of(m.key.dtype));
  shape.overlap = dense ? shape.overlap : overlap_of(m, shape.num_queries, measured);
  shape.form = model.priced_form();
  shape.requests = out.requests;
  // Launches of one layer's requests run side by side; a plan knows of no trees how many they are.
  shape.together = out.requests;
  if (const std::optional<std::int64_t> levels = grown_levels(m)) {
    shape.tree.depth = std::min(shape.tree.depth, *levels);
  }
  shape.one_launch = has_range(m, name_of(LaunchKind::kDecodeLayers));
  shape.recorded = m.key.launch == LaunchMode::kGraph;
  const bool mixed =
      std::adjacent_find(contexts.begin(), contexts.end(), std::not_equal_to<>()) != contexts.end();
  shape.contexts = mixed ? std::span<const std::int64_t>(contexts) : shape.contexts;
  add_step(shape, model.parameters()[index_of(SharedParameter::kUniqueGrowth)], out.work);
  if (dense) {
    correct_dense_attention(shape, model.system_time, out.work);
  } else {
    correct_attention(shape, false, model.attention_time, out.work);
  }
  out.regime = batch_regime(shape);
  shape.contexts = {};  // they end here
  out.point.shape = shape;
  out.point.conditions = {.launch = LaunchMode::kGraph};
  add_measurements(
      m,
      [&](std::string_view path) {
        return path == "flash_decode" ? flash_kind(target, shape.num_queries) : launch_kind(path);
      },
      out.point);
  return out;
}

}  // namespace

bool is_batch_point(const PointMeasurement& m) {
  return m.key.workload == WorkloadKind::kBatch;
}

BatchPoints batch_points(const std::vector<PointMeasurement>& measured, const FittedModel& model) {
  BatchPoints out;
  for (const PointMeasurement& m : measured) {
    if (!is_batch_point(m)) {
      continue;
    }
    std::string reason = useless_because(m, model);
    try {
      if (reason.empty()) {
        out.points.push_back(batch_point(m, model, measured));
        continue;
      }
    } catch (const Error& e) {
      reason = e.what();
    }
    out.skipped["steps of many requests: " + reason] += 1;
  }
  std::sort(out.points.begin(), out.points.end(), [](const BatchPoint& a, const BatchPoint& b) {
    return key_text(a.point.key) < key_text(b.point.key);
  });
  return out;
}

}  // namespace versieve::engine
