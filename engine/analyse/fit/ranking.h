// Does a prediction choose as the measurements do? Points that a planner would choose between are
// equal but for strategy and queries; they are ranked by verified queries a second. Acceptance
// enters only the plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Two measurements of one point differ by this much: of 120 points measured on two days, on two
// machines of one kind, 90 % were within it (log, NVIDIA H200, 2026-11-21 and 22).
inline constexpr double kRepeatability = 0.009;
// A bucket and class with fewer pairs that the measurements tell apart has no tau of its own.
inline constexpr std::int64_t kEnoughPairs = 20;

struct RankedPoint {
  PointKey key;
  PrecisionClass precision = PrecisionClass::kStrict;
  double predicted_us = 0.0, measured_us = 0.0;
  double log_half_width = 0.0;  // 90 %, of the measured median's logarithm
};

// Pairs of points in two rankings. A pair is tied in a ranking when its two are closer than the
// measurement tells apart: the root of both half widths' squares, each at least kRepeatability.
struct PairCounts {
  std::int64_t agreeing = 0, opposed = 0;
  std::int64_t tied_measured = 0;   // and not predicted
  std::int64_t tied_predicted = 0;  // and not measured

  void add(const RankedPoint& a, const RankedPoint& b);
  void add(const PairCounts& other);
  std::int64_t told_apart() const { return agreeing + opposed + tied_predicted; }
  // Kendall's tau-b (Kendall 1945): (A - O) / sqrt((A + O + T_m) (A + O + T_p)). Empty where one
  // ranking ties all.
  std::optional<double> tau_b() const;
};

// All pairs within one choice of one context range and precision class.
struct RankedClass {
  std::string context;  // "0-4096"
  PrecisionClass precision = PrecisionClass::kStrict;
  PairCounts pairs;
  std::optional<double> tau;  // of kEnoughPairs or more pairs told apart
};

// Empty where no group has an order.
struct Ranking {
  std::vector<RankedClass> classes;
  std::optional<double> tau;           // of all pairs of one choice and class
  std::optional<double> least_tau;     // of the classes that have one
  std::optional<double> mean_regret;   // what the predicted first choice loses to the measured one
  std::optional<double> worst_regret;  // of all groups
  std::string worst_choice;            // what was chosen there, and what was best
};

Ranking rank(const std::vector<RankedPoint>& points);

}  // namespace versieve::engine
