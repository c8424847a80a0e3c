// Synthetic acceptance as commands ask for it: --acceptance recorded, of walks in a database, or
// law, of a table's tokens a step.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/measure/bench/planner_acceptance.h"

namespace versieve::cli {

struct AcceptanceOptions {
  std::optional<std::string> from, database;
  std::optional<std::string> split, regime;  // of recorded walks: the test split, every regime

  bool any() const { return from || database || split || regime; }
};

// `who`: before each option's text.
void declare_acceptance(CLI::App& app, AcceptanceOptions& options, const std::string& who = "");
// None: nobody asks for it. Throws Error: kUsage for other words, a database that is missing
// and what changes nothing, and as db::Store::open does.
std::optional<engine::SyntheticPlay> synthetic_play(const AcceptanceOptions& options,
                                                    const PlanTable& table, std::uint64_t seed);

}  // namespace versieve::cli
