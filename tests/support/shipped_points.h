// The points that ship with the project, as a fit takes them, and fits to them: each read and made
// once a process.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "db/evidence.h"
#include "engine/analyse/fit/cost_fit.h"
#include "tests/support/paths.h"

namespace versieve::test {

// What the H100's campaign misses of the goals, by its steps of many requests
// (engine/analyse/fit/MEASURED.md): 20 of 24 and 24 of 25 points.
inline constexpr const char* kMissedGoal = "- of each number of requests";

inline std::vector<PointMeasurement> read_shipped_points(const std::string& file,
                                                         const std::string& device) {
  const db::Store store = db::Store::open(std::string(VERSIEVE_SOURCE_DIR "/db/measured/") + file,
                                          db::OpenMode::kReadOnly);
  return db::evidence_of(store, device).points;
}

// Acceptance of any machine, and all else that `device` measured, of db/measured/`file`.
inline const std::vector<PointMeasurement>& shipped_points(const std::string& file,
                                                           const std::string& device) {
  static std::map<std::string, std::vector<PointMeasurement>> points;
  const auto found = points.find(file + device);
  return found != points.end()
             ? found->second
             : points.emplace(file + device, read_shipped_points(file, device)).first->second;
}

// Without a prior and without regimes left out, on the device's own catalogue entry.
inline const engine::FitReport& shipped_fit(const std::string& file, const std::string& device,
                                            double holdout) {
  static std::map<std::pair<std::string, double>, engine::FitReport> fits;
  const std::pair<std::string, double> key{file + device, holdout};
  const auto found = fits.find(key);
  return found != fits.end()
             ? found->second
             : fits.emplace(key,
                            engine::fit_cost_model(
                                shipped_points(file, device), device, *hardware_for_device(device),
                                {}, {.holdout = holdout, .leave_out_regimes = false}))
                   .first->second;
}

}  // namespace versieve::test
