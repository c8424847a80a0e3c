// versieve bench planner: its options and what it does with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/cli/command.h"
#include "engine/cli/synthetic_play.h"
#include "engine/measure/bench/planner_bench.h"

namespace versieve::cli {

struct PlannerOptions {
  engine::PlannerBenchOptions bench;
  std::string table, list_steps;
  std::optional<std::string> precision, buckets;
  AcceptanceOptions acceptance;
};

void declare_planner(CLI::App& app, PlannerOptions& options);
// `out`: file that takes the JSON too, or empty.
Answer bench_planner(const PlannerOptions& options, const std::string& out);

}  // namespace versieve::cli
