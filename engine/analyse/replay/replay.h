// Recorded requests played through a planner table: what each cell's best recorded tuple (the
// first, where walks of it are recorded), the same with the runtime guard, the fixed baseline and
// plain decoding would have given, in tokens a second (table 3 of Sparse Speculative Verification).
// Acceptance is that of recorded walks, a step's time that of the table; of a table of several
// requests at a time (PlanTable::concurrency) tokens a second are of all, each step taking as long
// as the table says of so many and each request yielding what its walk does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/analyse/replay/walks.h"
#include "model/plan/planner.h"

namespace versieve::engine {

struct ReplayOptions {
  GuardConstants guard;
  std::int64_t most_tokens = 0;  // of a request; 0: its whole text
};

// The best recorded tuple, refined by the guard.
struct Refined {
  double throughput = 0.0;  // tokens/s
  std::int64_t transitions = 0;
  std::int64_t moved = 0;  // requests that the guard changed at least once
};

// Over all requests of a cell: all tokens over all time.
struct ReplayRow {
  std::int64_t bucket = 0;
  PrecisionClass precision = PrecisionClass::kStrict;
  std::int64_t rank = 1;                  // of the best recorded tuple
  std::vector<Strategy> choices;          // it, and those recorded that the guard can reach
  std::vector<Strategy> passed_over;      // ranked before it: nobody recorded a walk of them
  double planned_throughput = 0.0;        // tokens/s that the table says of it
  double planned_first_throughput = 0.0;  // and of the cell's first tuple
  std::int64_t requests = 0;
  std::int64_t not_recorded = 0;  // tuples behind it that nobody recorded, and none plays
  double tokens = 0.0;            // of one policy
  double base = 0.0;              // tokens/s of the table's fixed baseline
  double static_best = 0.0;
  double no_speculation = 0.0;  // plain decoding
  Refined best_r;               // by the paper's rule: the next ranked tuple
  Refined best_p;               // by promise, plain decoding among the tuples
};

struct ReplayGap {
  std::int64_t bucket = 0;
  PrecisionClass precision = PrecisionClass::kStrict;
  std::string reason;
};

struct Replay {
  std::vector<ReplayRow> rows;  // in the table's order of buckets and classes
  std::vector<ReplayGap> gaps;  // cells that could not be played
  // Mean over rows of the ratio to the baseline, less one; 0 without rows.
  double static_best_gain = 0.0;
  Refined best_r, best_p;  // mean throughput over rows, all moves
  double best_r_gain = 0.0;
  double best_p_gain = 0.0;
};

// Rows whose cell's first tuple was played.
std::int64_t played_by_first(const Replay& replay);
// Why no walks can be recorded of the pair that the table counts on, or an empty text.
std::string unplayable_because(const PlanTable& table);
Replay replay(const PlanTable& table, const Walks& walks, const ReplayOptions& options);

// The same with one constant of the guard changed at a time (table 4 of Sparse Speculative
// Verification); the first is the options' own.
struct GuardSetting {
  // What a policy gives over a replay's rows.
  struct Gain {
    double over_static = 0.0;      // mean of the ratio, less one
    std::int64_t below_plain = 0;  // rows in which plain decoding is faster
  };
  std::string name;  // "as given", "alpha 0.1", ...
  GuardConstants guard;
  Replay replay;
  Gain best_r, best_p;
  // Table 4 of Sparse Speculative Verification, whose values of the constants are lost in its text:
  // its rows in their order.
  double paper_throughput = 0.0;  // tokens/s
  std::int64_t paper_moves = 0;
};
std::vector<GuardSetting> sweep_guard(const PlanTable& table, const Walks& walks,
                                      const ReplayOptions& options);

// A sweep (engine/measure/sweep) that records the walks which playing this table on texts of these
// regimes lacks, as JSON; empty text: none is lacking. Cells that no walks can be recorded for are
// left out.
std::string sweep_of_missing_walks(const PlanTable& table, const Walks& walks,
                                   const std::string& split,
                                   const std::vector<std::string>& regimes);

}  // namespace versieve::engine
