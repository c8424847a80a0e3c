#include "engine/cli/evidence.h"

#include "db/schema.h"
#include "db/store.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/stored_fit.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/io/pair_identity.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

FittedModel read_prior(const std::string& path) {
  return db::is_database(path) ? fit_evidence(read_evidence(path, "", ""), "",
                                              {.holdout = 0.0, .leave_out_regimes = false})
                                     .model
                               : engine::read_fit(path);
}

HardwareSpec machine_of(const std::string& device, const std::string& hardware) {
  if (!hardware.empty()) {
    return engine::load_hardware(hardware);
  }
  const HardwareSpec* entry = hardware_for_device(device);
  if (entry == nullptr) {
    throw Error(ExitCode::kAnswerNo, "the catalogue has no entry for the device '" + device +
                                         "': describe it in a JSON file and name that file");
  }
  return *entry;
}

std::vector<engine::KeptPair> pairs_in(const std::string& database) {
  return database.empty() ? std::vector<engine::KeptPair>()
                          : engine::kept_pairs(db::run_configurations(
                                db::Store::open(database, db::OpenMode::kReadOnly)));
}

}  // namespace

engine::PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab,
                             const std::string& database) {
  return engine::pair_shape(model, draft_vocab, pairs_in(database), database);
}

std::optional<RunRecord> newest_points(const std::string& database, const std::string& device) {
  return database.empty()
             ? std::nullopt
             : db::newest_run(db::Store::open(database, db::OpenMode::kReadOnly), device);
}

std::string usual_model(const std::string& database, const std::string& device) {
  std::vector<std::string> timed;
  if (!database.empty()) {
    const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
    for (const db::TimedPair& pair : db::timed_pairs(store, device)) {
      timed.push_back(pair.pair);
    }
  }
  return engine::usual_model(timed, pairs_in(database));
}

engine::KnownPair known_pair(const engine::PairShape& shape, const std::string& database,
                             const std::string& device) {
  engine::KnownPair out;
  if (!shape.is_pair()) {
    if (!database.empty()) {
      const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
      out.lent_shares = engine::lent_shares_of("", db::kept_quality(store), database);
    }
    return out;
  }
  out = engine::identified(shape);
  if (out.id->sha256.empty()) {
    return out;
  }
  if (database.empty()) {
    out.remark = "no database was given to look for points of this pair in";
    return out;
  }
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  return engine::known_of(db::evidence_of_pair(store, *out.id, device), database);
}

engine::PlanGrounds plan_grounds(const engine::PairShape& shape, const engine::Borrowed& borrowed,
                                 const std::string& database, const std::string& device) {
  engine::PlanGrounds out{.shape = shape,
                          .known = known_pair(shape, database, device),
                          .borrowed = borrowed,
                          .quality = {},
                          .dense = {},
                          .calibrated = {}};
  if (database.empty()) {
    return out;
  }
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  out.quality = db::quality_points(store);
  out.chains = db::chain_points(store);
  if (out.known.id && !out.known.id->sha256.empty()) {
    out.dense = engine::dense_model_of(out.known.id->sha256, db::quality_configurations(store));
    out.calibrated =
        engine::calibrated_on(out.known.id->sha256, db::kept_calibrations(store), database);
  }
  return out;
}

std::vector<PointMeasurement> read_acceptance(const std::string& database) {
  return db::acceptance_points(db::Store::open(database, db::OpenMode::kReadOnly));
}

db::Evidence read_evidence(const std::string& database, const std::string& device,
                           const std::string& hardware_key) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  return db::evidence_of(store, db::fitted_device(store, device, hardware_key));
}

void check_prior(const std::string& prior) {
  if (db::is_database(prior)) {
    db::Store::open(prior, db::OpenMode::kReadOnly);
  } else {
    engine::read_fit(prior);
  }
}

engine::FitReport fit_evidence(const db::Evidence& evidence, const std::string& hardware,
                               engine::FitOptions options, const std::optional<std::string>& prior,
                               bool afresh) {
  std::optional<FittedModel> known;
  if (prior) {
    known = read_prior(*prior);
    options.prior = &*known;
  }
  options.left_out = &evidence.left_out;
  const engine::FitInputs inputs{evidence.points, evidence.device,
                                 machine_of(evidence.device, hardware), evidence.runs};
  return engine::stored_or_new_fit(evidence.database, inputs, options, afresh);
}

}  // namespace versieve::cli
