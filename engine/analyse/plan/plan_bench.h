// How fast are tuples priced: a space of about a million of them, on the fit's machine and then on
// another one, which reuses all that does not depend on the machine. No GPU.
#pragma once

#include <cstdint>
#include <string>

#include "model/cost/fitted_model.h"

namespace versieve::engine {

struct PlanBenchOptions {
  std::int64_t tuples = 1'000'000;  // at least; whole contexts are added until there are as many
  int threads = 2;
  int samples = 7;  // the median counts
};

struct PlanBench {
  std::int64_t tuples = 0;
  std::int64_t contexts = 0;
  double build_ms = 0.0;     // acceptance and corrections, once for all machines
  double one_core_ns = 0.0;  // an evaluation, the machine's tables included, on one core
  double rerank_ms = 0.0;    // all tuples on a machine not seen before, the twelve best taken
  int threads = 0;
  std::string hardware;  // of the re-ranking
  std::string best;      // its first choice, with context
};

PlanBench bench_plan(const FittedModel& fit, const PlanBenchOptions& options);
std::string text_of(const PlanBench& bench);

}  // namespace versieve::engine
