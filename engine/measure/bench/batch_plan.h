// A planner table of several requests at a time, played by steps of many requests: plain decoding,
// the fixed baseline and the planned tuple of each number of requests, in one run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/planner.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// One tuple to be timed. Of a table's: who it is, and what the table says of it.
struct BatchTuple {
  Strategy strategy;
  double tokens = 1.0;  // of a request's step
  std::string role;     // "plain", "baseline", "planned"; empty: of no table
  double predicted_us = 0.0;
  Interval predicted_interval_us{};  // 90 %
};

// Of the bucket that holds `context` and the class's first tuple; roles that are one tuple are
// listed each. Throws Error(kUsage) where the table has no such bucket or number of requests, or
// Error(kAnswerNo) where it plans nothing there.
std::vector<BatchTuple> played_tuples(const PlanTable& table, std::int64_t context,
                                      std::int64_t requests, PrecisionClass precision);

// Total tokens a second of the planned tuple over the others', by the steps of one run.
struct BatchPlayed {
  std::int64_t context_len = 0, requests = 0;
  Strategy planned;
  double tokens_per_second = 0.0;
  double over_baseline = 0.0, over_plain = 0.0;
};

}  // namespace versieve::engine
