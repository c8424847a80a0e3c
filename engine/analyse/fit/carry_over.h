// A fit carried to another machine: how well it predicts what was measured there, knowing of that
// machine its data sheet, and knowing besides what the sweep `calibrate` measured. No number is
// fitted to the other machine's points.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

// Points of one kind there.
struct CarriedErrors {
  std::string points;  // "attention, cold", "attention, warm", "steps", "all"
  ErrorSummary latency;
  ErrorSummary dram_bytes;  // of those that move kLeastJudgedBytes or more
};

// What a plan adds to the half-width of log latency, and whether that suffices.
struct WidthVerdict {
  double added = 0.0;
  std::optional<double> covered_90;  // share of the points within intervals that are so much wider
  std::optional<double> needed;      // added, 90 % of the points would lie within
};

// What was known of the other machine.
struct CarriedFit {
  bool rates = false;  // what `calibrate` measured there, not the data sheet alone
  std::vector<CarriedErrors> errors;
  WidthVerdict width;
  Ranking ranking;
  std::vector<CarriedErrors> systems;  // of the other systems: "decode resa", ..., "other systems"
  WidthVerdict system_width;
  // Of steps of many requests: "requests 1", "requests 8", ..., "many requests".
  std::vector<CarriedErrors> batches;
  WidthVerdict batch_width;
};

struct CarryReport {
  std::string from;  // the fit's device
  std::int64_t fitted_points = 0;
  std::string device;
  std::int64_t points = 0;                      // of it, that are judged
  std::int64_t system_points = 0;               // and of the other systems
  std::int64_t batch_points = 0;                // and of many requests at once
  std::vector<CarriedFit> fits;                 // data sheet, then rates if they were measured
  std::map<std::string, std::int64_t> skipped;  // reason -> points
};

// `measured`: attention, step and machine points of `device`, whose catalogue entry is `hardware`,
// points of the other systems and of many requests, of which those that the fit knows are judged by
// themselves.
// Throws Error(kAnswerNo) if that is the machine of the fit, if nothing that was timed is left to
// judge, or if the points are of another dtype than the fit.
CarryReport carry_over(const FittedModel& model, const std::vector<PointMeasurement>& measured,
                       const std::string& device, const HardwareSpec& hardware);
// The report as text for a terminal, and as one JSON object.
std::string carry_text(const CarryReport& report);
std::string carry_json(const CarryReport& report);

}  // namespace versieve::engine
