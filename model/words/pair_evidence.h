// What was measured of one trained pair, and what its runs say of how it was made.
#pragma once

#include <string>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/pair_id.h"
#include "model/words/quality_point.h"

namespace versieve {

// A quality run as its database keeps it, both texts JSON: what it was asked, and of which chains
// it says what ChainShare does, rows; empty: of none.
struct KeptQuality {
  std::string request;
  std::string chain_shares;
};

// All of the pair with that hash: points of another pair cannot be among it, whatever its name.
struct PairEvidence {
  PairId pair;
  std::vector<PointMeasurement> acceptance;  // wherever they ran
  std::vector<PointMeasurement> steps;       // timed on one device
  std::vector<QualityPoint> quality;         // what strategies cost it, the oldest run's first
  std::vector<KeptQuality> quality_runs;     // of every pair, the oldest first
  std::vector<PairId> namesakes;             // of its name, and of other weights
};

// Kind of the run that holds a calibration of schedules, and source of the diagnostic that holds
// its answer.
inline constexpr const char* kCalibrationRun = "calibration";

// A finished calibration as its run keeps it, both texts JSON (engine/cli/pair_profile.h).
struct KeptCalibration {
  std::string request;
  std::string found;
};

}  // namespace versieve
