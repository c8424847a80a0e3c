// What a schedule goes by, sorted into its cells: tokens that steps of each draft emitted and times
// of whole steps, by doubling ranges of context and of requests.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/analyse/serve/serving_schedule.h"

namespace versieve::engine {

struct ByDraft {
  bool operator()(const DraftChoice& a, const DraftChoice& b) const {
    return std::tuple(a.depth, a.width, a.nodes) < std::tuple(b.depth, b.width, b.nodes);
  }
};

// Steps of one draft in a cell.
struct DraftTokens {
  double steps = 0.0, sum = 0.0;
  std::vector<double> emitted;  // [a]: steps that emitted a tokens, of those that were counted so
  double counted = 0.0;
  std::int64_t texts = 1;
  bool at_least = false;

  double mean() const { return sum / steps; }
};

// What makes one step's time comparable with another's, besides its cell.
struct StepSetting {
  AttentionMethod attention = AttentionMethod::kDense;
  Dtype dtype = Dtype::kUnstated;
  LaunchMode launch = LaunchMode::kUnstated;
  double temperature = 0.0;

  auto operator<=>(const StepSetting&) const = default;
};

// Of steps with one draft, us: of each setting by the whole tuple, as orders and groups differ in
// time and not in tokens.
struct DraftTimes {
  std::map<StepSetting, std::map<std::string, std::vector<double>>> us;
};

// A cell's ends: context, requests.
using CellEnds = std::pair<std::int64_t, std::int64_t>;

struct ServingEvidence {
  std::map<CellEnds, std::map<DraftChoice, DraftTokens, ByDraft>> tokens;
  std::map<CellEnds, std::map<DraftChoice, DraftTimes, ByDraft>> times;
  std::int64_t lossy = 0;
  std::int64_t slow_form = 0;  // timed steps of form=vanilla, which no server runs
  std::set<std::int64_t> contexts;
  bool unknown_requests = false;
};

// Of class Strict alone; what is left out is counted.
ServingEvidence serving_evidence(const ServingInput& input);

}  // namespace versieve::engine
