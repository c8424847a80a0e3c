#include "engine/cli/evidence.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <string_view>

#include "db/store.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/plan/hardware_file.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Attention and step points of each device that we measured, and how many others did.
struct TimedPoints {
  std::map<std::string, std::int64_t> counts;
  std::int64_t others = 0;  // imported and simulated ones
};

TimedPoints timed_points(const db::Store& store) {
  TimedPoints timed;
  std::map<std::int64_t, std::string> devices;
  for (const db::StoredRun& run : store.runs()) {
    devices[run.id] = run.record.device;
  }
  for (const WorkloadKind kind : {WorkloadKind::kAttention, WorkloadKind::kStep}) {
    const db::Overview overview = store.overview({.workload = kind, .only_ok = true});
    for (const db::PointOverview& p : overview.points) {
      const std::string& backend = overview.words[static_cast<std::size_t>(p.backend)];
      if (backend == kImportedBackend || backend == kSimulatedBackend) {
        timed.others += 1;
      } else {
        timed.counts[devices[p.run_id]] += 1;
      }
    }
  }
  return timed;
}

std::string listed(const TimedPoints& timed) {
  std::string text;
  for (const auto& [device, points] : timed.counts) {
    text += (text.empty() ? "" : ", ") + device;
  }
  text = text.empty() ? "no measured attention or step points at all" : "points of " + text;
  return text + (timed.others == 0
                     ? ""
                     : " (and " + std::to_string(timed.others) +
                           " imported or simulated ones, to which nothing is fitted)");
}

// A whole name means its device, even where it is the beginning of another's.
std::string named_device(const TimedPoints& timed, const std::string& wanted,
                         const std::string& database) {
  std::vector<std::string> matches;
  for (const auto& [device, points] : timed.counts) {
    if (lower(device) == lower(wanted)) {
      return device;
    }
    if (lower(device).find(lower(wanted)) != std::string::npos) {
      matches.push_back(device);
    }
  }
  if (matches.empty()) {
    throw Error(ExitCode::kAnswerNo, "no attention or step points of a device like '" + wanted +
                                         "' in " + database + ": it holds " + listed(timed));
  }
  if (matches.size() > 1) {
    std::string names;
    for (const std::string& device : matches) {
      names += (names.empty() ? "" : ", ") + device;
    }
    throw Error(ExitCode::kUsage, "'" + wanted + "' is part of several devices' names in " +
                                      database + ": " + names + "; give the whole name of one");
  }
  return matches[0];
}

std::string best_device(const TimedPoints& timed, const std::string& hardware_key,
                        const std::string& database) {
  std::string best;
  std::int64_t most = 0;
  for (const auto& [device, points] : timed.counts) {
    const HardwareSpec* entry = hardware_for_device(device);
    if (entry != nullptr && entry->key == hardware_key) {
      return device;
    }
    if (entry != nullptr && points > most) {
      best = device;
      most = points;
    }
  }
  if (best.empty()) {
    throw Error(ExitCode::kAnswerNo, "nothing to fit to in " + database + ": it holds " +
                                         listed(timed) + ", none of a device in the catalogue");
  }
  return best;
}

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

}  // namespace

std::vector<PointMeasurement> read_acceptance(const std::string& database) {
  return db::acceptance_points(db::Store::open(database, db::OpenMode::kReadOnly));
}

db::Evidence read_evidence(const std::string& database, const std::string& device,
                           const std::string& hardware_key) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  const TimedPoints timed = timed_points(store);
  return db::evidence_of(store, device.empty() ? best_device(timed, hardware_key, database)
                                               : named_device(timed, device, database));
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
                               engine::FitOptions options,
                               const std::optional<std::string>& prior) {
  std::optional<FittedModel> known;
  if (prior) {
    known = read_prior(*prior);
    options.prior = &*known;
  }
  options.left_out = &evidence.left_out;
  if (!hardware.empty()) {
    return engine::fit_cost_model(evidence.points, evidence.device, engine::load_hardware(hardware),
                                  evidence.runs, options);
  }
  const HardwareSpec* entry = hardware_for_device(evidence.device);
  if (entry == nullptr) {
    throw Error(ExitCode::kAnswerNo, "the catalogue has no entry for the device '" +
                                         evidence.device +
                                         "': describe it in a JSON file and name that file");
  }
  return engine::fit_cost_model(evidence.points, evidence.device, *entry, evidence.runs, options);
}

}  // namespace versieve::cli
