// Evidence of a server as its logs give it, for tests of what is made of it.
#pragma once

#include <string>

#include "engine/analyse/serve/serving_schedule.h"
#include "model/words/request_range.h"

namespace versieve::test {

inline PointMeasurement server_point(const std::string& strategy, engine::AcceptancePair& pair,
                                     std::int64_t requests, std::int64_t context) {
  PointMeasurement m;
  m.key.model = pair.name;
  m.key.regime =
      requests == 1 ? "unstated" : "unstated, " + text_of(RequestRange{requests, requests});
  m.key.strategy = strategy;
  m.key.context_len = context;
  m.key.backend = Backend::kImported;
  m.reliability = Reliability::kUnchecked;
  return m;
}

struct ServerEvidence {
  engine::AcceptancePair pair{.name = "p", .origin = AcceptanceOrigin::kImported};
  engine::ServingInput input;

  void accept(const std::string& strategy, std::int64_t requests, double mean,
              std::vector<std::int64_t> histogram = {}, std::int64_t context = 1000) {
    PointMeasurement m = server_point(strategy, pair, requests, context);
    m.key.workload = WorkloadKind::kAcceptance;
    m.acceptance = AcceptanceMeasurement{.steps = 100000, .accepted_per_step = mean};
    m.acceptance->accepted_histogram = std::move(histogram);
    input.acceptance.push_back(std::move(m));
  }
  void time(const std::string& strategy, std::int64_t requests, double us,
            std::int64_t context = 1000) {
    PointMeasurement m = server_point(strategy, pair, requests, context);
    m.key.workload = WorkloadKind::kStep;
    for (int i = -20; i <= 20; ++i) {
      m.time_ns.push_back(1e3 * us * (1.0 + 0.002 * i));
    }
    input.steps.push_back(std::move(m));
  }
  engine::ServingSchedule schedule() {
    input.pair = pair;
    input.device = "NVIDIA H100 80GB HBM3";
    return engine::serving_schedule(input);
  }
};

}  // namespace versieve::test
