#include "engine/cli/evidence.h"

#include <fstream>
#include <string_view>

#include "db/store.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/stored_fit.h"
#include "engine/analyse/plan/hardware_file.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

// By the words that SQLite's files begin with.
bool is_database(const std::string& path) {
  constexpr std::string_view kBegin = "SQLite format 3";
  std::string begin(kBegin.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == kBegin;
}

FittedModel read_prior(const std::string& path) {
  return is_database(path) ? fit_evidence(read_evidence(path, "", ""), "",
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

}  // namespace

std::vector<PointMeasurement> read_acceptance(const std::string& database) {
  return db::acceptance_points(db::Store::open(database, db::OpenMode::kReadOnly));
}

db::Evidence read_evidence(const std::string& database, const std::string& device,
                           const std::string& hardware_key) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  return db::evidence_of(store, db::fitted_device(store, device, hardware_key));
}

void check_prior(const std::string& prior) {
  if (prior.empty()) {
    throw Error(ExitCode::kUsage, "a prior needs a file name, and this one is empty");
  }
  if (is_database(prior)) {
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
