// Runs a sweep: opens with the environment, the counter probe and the self-check, then measures the
// points one by one. Results leave by a callback; nothing here knows where they are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/measurement.h"
#include "model/words/step_trace.h"

namespace versieve::engine {

// What the machine of a campaign is, all the points share it.
struct CampaignMachine {
  Backend backend = Backend::kCpu;  // or a GPU, or the simulator
  RunRecord record;                 // filled but for uuid and times
};

// "auto" becomes cuda where a GPU answers, else cpu; "sim" is itself. Throws Error(kEnvironment)
// for cuda without a GPU, Error(kUsage) for another word.
Backend resolved_backend(const std::string& name);

// Probes counters and runs the self-check (cuda), and fills the run's record. `hardware`: the key
// of the simulated machine (sim).
CampaignMachine open_campaign(const SweepPlan& plan, Backend backend,
                              const std::string& hardware = "");

struct CampaignOptions {
  int threads = 1;  // of the CPU backend
  PairSource pair;  // whose points are measured, where the sweep wants one
  // Of backend sim: takes the place of running (engine/analyse/sim/simulate_point.h).
  std::function<PointMeasurement(const PointKey&)> simulate;
  // What a step did launch by launch, and what its nodes chose, where there is such: before
  // `on_point` is given the point that it is of, so that both are stored or neither. May be empty.
  std::function<void(StepDetail)> on_detail;
};

struct CampaignProgress {
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::int64_t refused = 0;
  std::int64_t failed = 0;
  double elapsed_s = 0.0;
  double left_s = 0.0;  // by the mean of the points so far, weighted by workload
};

// Measures `points` in order. A point that throws an Error is reported as failed, with its
// sentence, and the campaign goes on. `on_point` may throw to end it.
CampaignProgress run_campaign(const SweepPlan& plan, const std::vector<PointKey>& points,
                              const CampaignMachine& machine, const CampaignOptions& options,
                              const std::function<void(const PointMeasurement&)>& on_point,
                              const std::function<void(const CampaignProgress&)>& on_progress);

}  // namespace versieve::engine
