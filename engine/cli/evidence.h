// A command's evidence: the database's (db/evidence.h) by file name, and fits to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/evidence.h"
#include "engine/analyse/fit/cost_fit.h"

namespace versieve::cli {

// Of the device that db::fitted_device finds.
db::Evidence read_evidence(const std::string& database, const std::string& device,
                           const std::string& hardware_key);
// Acceptance points of every pair in a database, measured and imported.
std::vector<PointMeasurement> read_acceptance(const std::string& database);
// Throws Error if no fit can begin at what lies at `prior`: before points are read, which takes
// seconds.
void check_prior(const std::string& prior);
// The fit to the evidence: the one that is kept beside its database (engine/analyse/fit/
// stored_fit.h), else a new one; always that with `afresh`. `hardware` is the measured device's
// entry or file, empty: by its name. `prior`: the fit of another machine that it begins at, as a
// fit's JSON file, or as a database, to all points of which one is made first.
engine::FitReport fit_evidence(const db::Evidence& evidence, const std::string& hardware,
                               engine::FitOptions options,
                               const std::optional<std::string>& prior = {}, bool afresh = false);

}  // namespace versieve::cli
