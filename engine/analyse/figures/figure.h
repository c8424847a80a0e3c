// The figures and tables of Sparse Speculative Verification, with a database's numbers beside the
// paper's. Only what points hold is told; what they lack is said with the sweep that measures it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/replay/replay.h"
#include "model/words/measurement.h"
#include "model/words/quality_point.h"

namespace versieve::engine {

// Cells are numbers, texts or null; the first column says what a row is.
struct FigureTable {
  struct Column {
    std::string name;
    int digits = 2;  // behind the point
  };
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<nlohmann::ordered_json>> rows;
};

struct Figure {
  std::string name;   // "figure 2", "table 3", "traversal"
  std::string asks;   // what it shows
  std::string paper;  // what the paper says there, and where it gives a plot without numbers
  std::vector<FigureTable> papers;   // its numbers, where it gives any
  std::vector<FigureTable> tables;   // ours
  std::vector<std::string> missing;  // a sentence each, without its full stop
};

// A timed point in a line.
struct TimedPoint {
  WorkloadKind workload = WorkloadKind::kStep;
  std::string model;
  Strategy strategy;
  std::int64_t context_len = 0;
  std::int64_t num_queries = 0;
  std::optional<double> overlap;  // declared
  std::string cache_state, launch, dtype;
  double median_us = 0.0;
};

// Tokens a step of recorded walks by a planner table's step times.
struct PlayedPlan {
  Replay replay;
  std::vector<GuardSetting> settings;
  std::vector<ContextBucket> buckets;
};

// A planner table played by a pair, measured: what `versieve bench planner --out` writes.
struct LivePlan {
  struct Cell {
    ContextBucket range;
    std::string precision;
    std::int64_t prompts = 0;
    std::int64_t moved = 0;                      // by the guard of best+R
    std::map<std::string, double> tokens_per_s;  // by contender: "plain", "base", "static", ...
  };
  struct Setting {
    std::string name;
    double gain = 0.0;  // of best+R over base, in the mean over cells
    std::int64_t moved = 0;
  };
  std::string device, pair;
  std::int64_t max_new_tokens = 0;
  std::vector<Cell> cells;
  std::vector<Setting> settings;  // none without --sweep-guard
};
LivePlan read_live_plan(const std::string& path);  // throws Error(kBadInput)

struct FiguresInput {
  AcceptancePair pair;
  std::vector<PointMeasurement> acceptance;  // of the pair, with what its queries share
  std::vector<TimedPoint> timed;             // of one device: layers, steps of geometries
  std::vector<TimedPoint> pair_steps;        // of the pair's own weights, there
  std::string device;                        // empty: nothing was timed
  std::vector<QualityPoint> quality;         // of the pair
  std::optional<PlayedPlan> played;
  std::optional<LivePlan> live;
  std::int64_t context_len = 8192;  // figures of one context take the nearest there is
};

Figure traversal_figure(const FiguresInput& input);  // what either order shares, loads and yields
Figure figure_2(const FiguresInput& input);          // overlap by layer, and with the next layer
Figure figure_4(const FiguresInput& input);          // overlap by distance
Figure figure_7(const FiguresInput& input);          // dense against sparse by draft length
Figure table_1(const FiguresInput& input);           // accuracy
Figure table_2(const FiguresInput& input);           // tokens a second by kind of prompt
Figure table_3(const FiguresInput& input);           // the planner on held-out texts
Figure table_4(const FiguresInput& input);           // the guard's constants

std::string figures_text(const std::vector<Figure>& figures);
nlohmann::ordered_json figures_json(const std::vector<Figure>& figures);
// One line a cell: figure, table, row, column, value.
std::string figures_csv(const std::vector<Figure>& figures);

}  // namespace versieve::engine
