#include "db/compared.h"

#include <algorithm>
#include <map>

#include "db/open.h"
#include "db/points.h"
#include "db/runs.h"
#include "model/words/error.h"
#include "model/words/lower_case.h"

namespace versieve::db {
namespace {

std::string listed(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [device, points] : counts) {
    text += (text.empty() ? "" : ", ") + device;
  }
  return text.empty() ? "it holds no good point" : "it holds points of " + text;
}

std::string chosen_device(const std::map<std::string, std::int64_t>& counts,
                          const std::string& wanted, const std::string& path) {
  const std::string* best = nullptr;
  std::int64_t most = 0;
  for (const auto& [device, points] : counts) {
    const bool is_meant = lower_case(device).find(lower_case(wanted)) != std::string::npos;
    if (is_meant && points > most) {
      best = &device;
      most = points;
    }
  }
  if (best == nullptr) {
    throw Error(ExitCode::kAnswerNo,
                path +
                    (wanted.empty() ? " holds nothing to compare"
                                    : " holds no good point of a device like '" + wanted + "'") +
                    ": " + listed(counts));
  }
  return *best;
}

}  // namespace

ComparedSide compared_side(const std::string& path, const std::string& device) {
  const std::unique_ptr<Database> database = open_for_reading(path);
  const Snapshot snapshot(*database);
  const std::vector<StoredRun> runs = read_runs(*database);
  std::map<std::string, std::int64_t> counts;
  for (const StoredRun& run : runs) {
    if (run.ok_count > 0) {
      counts[run.record.device] += run.ok_count;
    }
  }
  ComparedSide side{.database = path,
                    .device = chosen_device(counts, device, path),
                    .other_devices = {},
                    .runs = {},
                    .points = {}};
  for (const auto& [other, points] : counts) {
    if (other != side.device) {
      side.other_devices.push_back(other);
    }
  }
  std::map<std::int64_t, std::string> programs;  // of the device's runs
  for (const StoredRun& run : runs) {
    if (run.record.device == side.device && run.ok_count > 0) {
      side.runs.push_back(run.record);
      programs[run.id] = run.record.revision;
    }
  }
  for (ComparedPoint& point : read_compared_points(*database)) {
    if (const auto run = programs.find(point.run_id); run != programs.end()) {
      point.program = run->second;
      side.points.push_back(std::move(point));
    }
  }
  return side;
}

}  // namespace versieve::db
