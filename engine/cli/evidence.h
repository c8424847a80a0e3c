// A command's evidence: the database's (db/evidence.h) by file name, and fits to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/evidence.h"
#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/plan/pair_plan.h"

namespace versieve::cli {

// Of the device that db::fitted_device finds.
db::Evidence read_evidence(const std::string& database, const std::string& device,
                           const std::string& hardware_key);
// db::newest_run of that database, which may be empty.
std::optional<RunRecord> newest_points(const std::string& database, const std::string& device);
// Acceptance points of every pair in a database, measured and imported.
std::vector<PointMeasurement> read_acceptance(const std::string& database);
// engine::pair_shape with the pairs that `database` (may be empty) keeps.
engine::PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab,
                             const std::string& database);
// What a plan from `database` (may be empty) is for where nobody says: the pair whose own steps
// were timed there on `device` (part of its name) most, by its hash; else a geometry.
std::string usual_model(const std::string& database, const std::string& device);
// `device`: whose times. `database` may be empty.
engine::KnownPair known_pair(const engine::PairShape& shape, const std::string& database,
                             const std::string& device);
// All that a plan of that pair rests on in `database`, which may be empty.
engine::PlanGrounds plan_grounds(const engine::PairShape& shape, const engine::Borrowed& borrowed,
                                 const std::string& database, const std::string& device);
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
