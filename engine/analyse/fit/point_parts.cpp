#include "engine/analyse/fit/point_parts.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/fit/statistics.h"
#include "model/launches/decode_layers.h"
#include "model/launches/draft_levels.h"
#include "model/words/range_counters.h"

namespace versieve::engine {
namespace {

std::optional<double> median_us(const std::vector<double>& samples_ns) {
  const std::optional<double> ns = median(samples_ns);
  if (!ns || *ns <= 0.0) {
    return {};
  }
  return *ns * 1e-3;
}

// Repetitions share a trace, and a dependent launch of a later one waits, which is counted: the
// shortest is nearest to the launch alone.
std::optional<double> shortest_us(const std::vector<double>& samples_ns) {
  const auto least = std::min_element(samples_ns.begin(), samples_ns.end());
  if (least == samples_ns.end() || *least <= 0.0) {
    return {};
  }
  return *least * 1e-3;
}

// Of the median's logarithm, from the sample's median absolute deviation.
double log_error_of_median(const std::vector<double>& samples_ns) {
  const std::optional<double> centre = median(samples_ns);
  if (!centre || *centre <= 0.0) {
    return 0.0;
  }
  std::vector<double> deviations;
  for (const double s : samples_ns) {
    deviations.push_back(std::abs(s - *centre));
  }
  return 1.4826 * 1.2533 * *median(deviations) / *centre /
         std::sqrt(static_cast<double>(samples_ns.size()));
}

// A sum that knows what both of its parts know.
void add(const std::optional<double>& more, std::optional<double>& sum) {
  sum = more && sum ? std::optional(*sum + *more) : std::nullopt;
}

// Launches of one kind are priced together: a sampler with the search for what is cut before it.
void add_ranges(const PointMeasurement& m, const KindOfPath& kind_of, FitPoint& p) {
  for (const RangeMeasurement& range : m.ranges) {
    const std::optional<LaunchKind> kind = kind_of(range.path);
    if (!kind) {
      continue;
    }
    RangeObservation observed{.kind = *kind, .time_us = shortest_us(range.gpu_time_ns)};
    if (const std::optional<DramBytes> bytes = dram_bytes(range)) {
      observed.dram_bytes = bytes->total();
      observed.read_bytes = bytes->read;
    }
    const auto same = std::find_if(p.ranges.begin(), p.ranges.end(),
                                   [&](const RangeObservation& r) { return r.kind == *kind; });
    if (same == p.ranges.end()) {
      p.ranges.push_back(observed);
      continue;
    }
    add(observed.time_us, same->time_us);
    add(observed.dram_bytes, same->dram_bytes);
    add(observed.read_bytes, same->read_bytes);
  }
  if (const std::optional<DramBytes> bytes = dram_bytes(m.ranges)) {
    p.dram_bytes = bytes->total();
    p.read_bytes = bytes->read;
  }
}

}  // namespace

bool has_range(const PointMeasurement& m, const char* path) {
  return std::any_of(m.ranges.begin(), m.ranges.end(),
                     [&](const RangeMeasurement& r) { return r.path == path; });
}

std::string untold_because(const PointMeasurement& m) {
  const bool of_launches = m.key.workload != WorkloadKind::kAcceptance &&
                           m.key.workload != WorkloadKind::kMachine &&
                           m.key.workload != WorkloadKind::kTopk;
  if (of_launches && m.ranges.empty() && !m.time_ns.empty()) {
    return std::string("a timed ") + name_of(m.key.workload) +
           " point of which no launch is stored: nobody can tell which launches its time is of; "
           "measure it again";
  }
  return {};
}

std::string outdated_because(const PointMeasurement& m) {
  const bool by_geometry =
      m.key.workload == WorkloadKind::kStep || m.key.workload == WorkloadKind::kDecode ||
      m.key.workload == WorkloadKind::kRectify || m.key.workload == WorkloadKind::kRectifiedStep;
  return by_geometry ? outdated_because(m, named_llm_shape(m.key.model)) : std::string();
}

std::string outdated_because(const PointMeasurement& m, const LlmShape& target) {
  const bool step = m.key.workload == WorkloadKind::kStep;
  if (m.key.workload == WorkloadKind::kAttention || m.key.workload == WorkloadKind::kAcceptance) {
    return {};
  }
  if (target.attention == AttentionKind::kDense) {
    const bool unsplit = has_range(m, name_of(LaunchKind::kTreeAttention)) &&
                         !has_range(m, name_of(LaunchKind::kFlashDecode)) &&
                         !has_range(m, name_of(LaunchKind::kDensePass)) &&
                         !has_range(m, name_of(LaunchKind::kResaDecode));
    return unsplit ? "attention whose keys are not split (tree_attention): only split ones are "
                     "priced; measure it again, in bf16 and as a chain"
                   : "";
  }
  for (const RangeMeasurement& range : m.ranges) {
    if (!launch_kind(range.path)) {
      return "a step with the launch " + range.path +
             ", which the engine no longer makes: measure it again";
    }
  }
  const bool layer_by_layer = step && m.key.num_queries == 1 && m.key.dtype == Dtype::kBf16 &&
                              has_range(m, name_of(LaunchKind::kNsaRoute)) &&
                              decodes_in_one_launch(target, m.key.context_len);
  return layer_by_layer ? "a plain step launched layer by layer, which the engine now runs in one "
                          "launch: measure it again"
                        : "";
}

bool is_step_of_small_pair(const PointMeasurement& m) {
  if (m.key.workload != WorkloadKind::kStep) {
    return false;
  }
  const LlmShape target = named_llm_shape(m.key.model);
  return is_small_pair(draft_shape_for(target), target.vocab);
}

bool says_anything(const PointMeasurement& m) {
  return median_us(m.time_ns).has_value() ||
         std::any_of(m.ranges.begin(), m.ranges.end(), [](const RangeMeasurement& r) {
           return dram_bytes(r).has_value() || median_us(r.gpu_time_ns).has_value();
         });
}

void add_measurements(const PointMeasurement& m, const KindOfPath& kind_of, FitPoint& p) {
  p.time_us = median_us(m.time_ns);
  p.time_log_error = log_error_of_median(m.time_ns);
  add_ranges(m, kind_of, p);
}

}  // namespace versieve::engine
