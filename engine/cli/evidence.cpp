#include "engine/cli/evidence.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "db/store.h"
#include "engine/plan/hardware_file.h"
#include "model/error.h"

namespace versieve::cli {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Attention and step points of each device.
std::map<std::string, std::int64_t> timed_points(const db::Store& store) {
  std::map<std::string, std::int64_t> counts;
  std::map<std::int64_t, std::string> devices;
  for (const db::StoredRun& run : store.runs()) {
    devices[run.id] = run.record.device;
  }
  for (const WorkloadKind kind : {WorkloadKind::kAttention, WorkloadKind::kStep}) {
    for (const db::PointOverview& p : store.overview({.workload = kind, .only_ok = true}).points) {
      counts[devices[p.run_id]] += 1;
    }
  }
  return counts;
}

std::string listed(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [device, points] : counts) {
    text += (text.empty() ? "" : ", ") + device;
  }
  return text.empty() ? "no attention or step points at all" : "points of " + text;
}

std::string named_device(const std::map<std::string, std::int64_t>& counts,
                         const std::string& wanted, const std::string& database) {
  std::vector<std::string> matches;
  for (const auto& [device, points] : counts) {
    if (lower(device).find(lower(wanted)) != std::string::npos) {
      matches.push_back(device);
    }
  }
  if (matches.empty()) {
    throw Error(ExitCode::kAnswerNo, "no attention or step points of a device like '" + wanted +
                                         "' in " + database + ": it holds " + listed(counts));
  }
  if (matches.size() > 1) {
    throw Error(ExitCode::kUsage, "'" + wanted + "' is part of several devices' names in " +
                                      database + ": it holds " + listed(counts));
  }
  return matches[0];
}

std::string best_device(const std::map<std::string, std::int64_t>& counts,
                        const std::string& hardware_key, const std::string& database) {
  std::string best;
  std::int64_t most = 0;
  for (const auto& [device, points] : counts) {
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
                                         listed(counts) + ", none of a device in the catalogue");
  }
  return best;
}

}  // namespace

Evidence read_evidence(const std::string& database, const std::string& device,
                       const std::string& hardware_key) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  const std::map<std::string, std::int64_t> counts = timed_points(store);
  Evidence out;
  out.device = device.empty() ? best_device(counts, hardware_key, database)
                              : named_device(counts, device, database);
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.device == out.device) {
      out.runs.push_back(run.record.uuid);
      for (const WorkloadKind kind : engine::kFittedWorkloads) {
        std::vector<PointMeasurement> points = store.points({.run_id = run.id, .workload = kind});
        for (PointMeasurement& point : points) {
          point.opened_share = engine::opened_share(run.record.configuration);
          point.counters_warmed_up = engine::counters_warmed_up(run.record.configuration);
        }
        out.points.insert(out.points.end(), points.begin(), points.end());
      }
    }
  }
  const std::vector<PointMeasurement> acceptance =
      store.points({.workload = WorkloadKind::kAcceptance, .only_ok = true});
  out.points.insert(out.points.end(), acceptance.begin(), acceptance.end());
  return out;
}

engine::FitReport fit_evidence(const Evidence& evidence, const std::string& hardware,
                               const engine::FitOptions& options) {
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
