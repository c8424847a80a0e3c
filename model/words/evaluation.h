// The one result type of every evaluator (measured, simulated, predicted): what a strategy costs on
// a machine and what it yields, or why it cannot run; where the number came from; its interval.
// Nothing downstream knows which evaluator it was except by `source`.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

enum class Provenance { kMeasured, kSimulated, kPredicted, kImported };
inline constexpr std::size_t kProvenanceCount = 4;
const char* name_of(Provenance source);  // "measured", ...

// Central 90 % interval.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

// Which part of a step a launch belongs to.
enum class Phase { kAttention, kMatrices, kOther, kDraft, kAcceptance };
inline constexpr std::size_t kPhaseCount = 5;
const char* name_of(Phase phase);  // "attention", ...

// What bounds a launch.
enum class Bound { kDram, kL2, kCompute, kLatency, kLaunch };
inline constexpr std::size_t kBoundCount = 5;
const char* name_of(Bound bound);  // "dram", ...

struct StepCost {
  double time_us = 0.0;
  double dram_bytes = 0.0;  // read and written
  double flops = 0.0;
  double launches = 0.0;
  std::array<double, kPhaseCount> phase_us{};
  std::array<double, kBoundCount>
      bound_us{};  // time of launches bounded by each; launch = gaps, waits
  std::array<double, kTrafficTermCount> term_bytes{};  // DRAM bytes by term
};

// What bounds most of the time.
Bound bottleneck_of(const StepCost& cost);

struct Evaluation {
  Strategy strategy;
  std::optional<StepCost> cost;    // none: see infeasible_because
  std::string infeasible_because;  // one sentence
  double expected_accepted = 1.0;  // tokens a step, bonus counted
  double throughput = 0.0;         // accepted tokens a second
  Interval accepted_interval;
  Interval latency_interval_us;
  // Of a number of requests on other texts of the measured kinds together, as a plan says.
  Interval throughput_interval;
  // Of the same texts for all tuples: what tuples are compared by. Without a high end (tables older
  // than it): throughput_interval is of that kind.
  Interval same_texts_interval;
  // Standard deviation of log tokens a second from one request's text to another's.
  double text_log_error = 0.0;
  Provenance source = Provenance::kPredicted;
};

inline const Interval& compared_interval(const Evaluation& e) {
  return e.same_texts_interval.high > 0.0 ? e.same_texts_interval : e.throughput_interval;
}

}  // namespace versieve
