#include "db/evidence.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "model/words/assert.h"
#include "model/words/chain_share.h"
#include "model/words/error.h"
#include "model/words/hardware.h"
#include "model/words/lower_case.h"
#include "model/words/strategy.h"

namespace versieve::db {
namespace {

bool has_counters(const PointMeasurement& point) {
  return std::any_of(point.ranges.begin(), point.ranges.end(),
                     [](const RangeMeasurement& range) { return !range.counters.empty(); });
}

// Attention and step points: of each device that was measured, and of whom nothing is fitted to.
struct TimedPoints {
  std::map<std::string, std::int64_t> counts;
  std::int64_t imported = 0;
  std::int64_t simulated = 0;
};

TimedPoints timed_points(const Store& store) {
  TimedPoints timed;
  std::map<std::int64_t, std::string> devices;
  for (const StoredRun& run : store.runs()) {
    devices[run.id] = run.record.device;
  }
  for (const WorkloadKind kind : {WorkloadKind::kAttention, WorkloadKind::kStep}) {
    const Overview overview = store.overview({.workload = kind, .only_ok = true});
    for (const PointOverview& p : overview.points) {
      const Backend backend = backend_of(overview.words[static_cast<std::size_t>(p.backend)]);
      if (backend == Backend::kImported) {
        timed.imported += 1;
      } else if (backend == Backend::kSimulator) {
        timed.simulated += 1;
      } else {
        timed.counts[devices[p.run_id]] += 1;
      }
    }
  }
  return timed;
}

// "it holds points of NVIDIA H200; 3 imported ones are shown, never fitted to"
std::string listed(const TimedPoints& timed) {
  std::string devices;
  for (const auto& [device, points] : timed.counts) {
    devices += (devices.empty() ? "points of " : ", ") + device;
  }
  std::string others;
  for (const auto& [points, kind] :
       {std::pair{timed.simulated, "simulated"}, std::pair{timed.imported, "imported"}}) {
    if (points > 0) {
      others += (others.empty() ? "; " : " and ") + std::to_string(points) + " " + kind;
    }
  }
  return "it holds " + (devices.empty() ? "no measured attention or step points at all" : devices) +
         (others.empty() ? others : others + " ones are shown, never fitted to");
}

// A whole name means its device, even where it is the beginning of another's.
std::string named_device(const TimedPoints& timed, const std::string& wanted,
                         const std::string& database) {
  std::vector<std::string> matches;
  for (const auto& [device, points] : timed.counts) {
    if (lower_case(device) == lower_case(wanted)) {
      return device;
    }
    if (lower_case(device).find(lower_case(wanted)) != std::string::npos) {
      matches.push_back(device);
    }
  }
  if (matches.empty()) {
    throw Error(ExitCode::kAnswerNo, "no attention or step points of a device like '" + wanted +
                                         "' in " + database + ": " + listed(timed));
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
    throw Error(ExitCode::kAnswerNo,
                "there is no timed point of a device in the hardware catalogue to fit to in " +
                    database + ": " + listed(timed));
  }
  return best;
}

// The oldest first; as they were stored, merged ones are out of order.
std::vector<StoredRun> runs_by_age(const Store& store) {
  std::vector<StoredRun> runs = store.runs();
  std::stable_sort(runs.begin(), runs.end(), [](const StoredRun& a, const StoredRun& b) {
    return a.record.started_utc < b.record.started_utc;
  });
  return runs;
}

}  // namespace

std::string fitted_device(const Store& store, const std::string& wanted,
                          const std::string& hardware_key) {
  const TimedPoints timed = timed_points(store);
  return wanted.empty() ? best_device(timed, hardware_key, store.path())
                        : named_device(timed, wanted, store.path());
}

Evidence evidence_of(const Store& store, const std::string& device) {
  Evidence out{.database = store.path(), .device = device};
  for (const StoredRun& run : store.runs()) {
    if (run.record.device != device) {
      continue;
    }
    bool of_pair = false;
    bool of_geometry = false;
    for (const WorkloadKind kind : kFittedWorkloads) {
      for (PointMeasurement& point : store.points({.run_id = run.id, .workload = kind})) {
        of_pair = of_pair || !point.key.pair.empty();
        of_geometry = of_geometry || point.key.pair.empty();
        if (!point.key.pair.empty()) {
          out.left_out[kOfPair] += 1;
        } else if (!run.record.counted_warm && has_counters(point)) {
          out.left_out[kCountedCold] += 1;
        } else {
          out.points.push_back(std::move(point));
        }
      }
    }
    // A run of a pair's own steps tells a fit nothing.
    if (!is_imported(run.record) && (of_geometry || !of_pair)) {
      out.runs.push_back(run.record.uuid);
    }
  }
  std::vector<PointMeasurement> acceptance = acceptance_points(store);
  std::move(acceptance.begin(), acceptance.end(), std::back_inserter(out.points));
  return out;
}

std::optional<RunRecord> newest_run(const Store& store, const std::string& device) {
  std::optional<RunRecord> out;
  for (const StoredRun& run : runs_by_age(store)) {
    if (run.record.device == device && !is_imported(run.record)) {
      out = run.record;
    }
  }
  return out;
}

PairEvidence evidence_of_pair(const Store& store, const PairId& pair, const std::string& device) {
  VERSIEVE_ASSERT(!pair.sha256.empty(), "a pair is asked for by its hash");
  PairEvidence out{
      .pair = pair,
      .acceptance = store.points(
          {.workload = WorkloadKind::kAcceptance, .pair = pair.sha256, .only_ok = true})};
  for (const StoredRun& run : store.runs()) {
    if (run.record.device == device) {
      std::vector<PointMeasurement> steps = store.points({.run_id = run.id,
                                                          .workload = WorkloadKind::kStep,
                                                          .pair = pair.sha256,
                                                          .only_ok = true});
      std::move(steps.begin(), steps.end(), std::back_inserter(out.steps));
    }
  }
  out.quality = quality_points(store);
  std::erase_if(out.quality,
                [&pair](const QualityPoint& point) { return point.pair.sha256 != pair.sha256; });
  out.quality_runs = kept_quality(store);
  for (const PairId& other : store.pairs()) {
    if (other.name == pair.name && other.sha256 != pair.sha256) {
      out.namesakes.push_back(other);
    }
  }
  return out;
}

std::vector<PointMeasurement> acceptance_points(const Store& store) {
  return store.points({.workload = WorkloadKind::kAcceptance, .only_ok = true});
}

std::vector<PointMeasurement> chain_points(const Store& store) {
  std::vector<PointMeasurement> points = acceptance_points(store);
  std::erase_if(points, [](const PointMeasurement& m) {
    const Strategy strategy = Strategy::parse(m.key.strategy);
    return !m.acceptance ||
           (!strategy.drafts_itself && strategy.attention != AttentionMethod::kSpecAttn);
  });
  return points;
}

std::vector<QualityPoint> quality_points(const Store& store) {
  std::vector<QualityPoint> points;
  for (const StoredRun& run : runs_by_age(store)) {
    std::vector<QualityPoint> own = store.quality(run.id);
    std::move(own.begin(), own.end(), std::back_inserter(points));
  }
  return points;
}

std::vector<TimedSteps> timed_steps(const Store& store) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<PointMeasurement>> groups;
  for (const StoredRun& run : store.runs()) {
    if (is_simulated(run.record)) {
      continue;
    }
    for (PointMeasurement& m :
         store.points({.run_id = run.id, .workload = WorkloadKind::kStep, .only_ok = true})) {
      if (!m.time_ns.empty()) {
        groups[{m.key.model, run.record.device, m.key.pair}].push_back(std::move(m));
      }
    }
  }
  std::vector<TimedSteps> out;
  for (auto& [key, points] : groups) {
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::move(points)});
  }
  return out;
}

std::vector<TimedPair> timed_pairs(const Store& store, const std::string& device) {
  std::vector<TimedPair> out;
  for (const TimedSteps& steps : timed_steps(store)) {
    if (!steps.pair.empty() &&
        lower_case(steps.device).find(lower_case(device)) != std::string::npos) {
      out.push_back({steps.pair, steps.points.size()});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const TimedPair& a, const TimedPair& b) { return a.steps > b.steps; });
  return out;
}

std::vector<std::string> run_configurations(const Store& store) {
  std::vector<std::string> out;
  for (const StoredRun& run : store.runs()) {
    out.push_back(run.record.configuration);
  }
  return out;
}

std::vector<std::string> quality_configurations(const Store& store) {
  std::vector<std::string> out;
  for (const StoredRun& run : runs_by_age(store)) {
    if (run.record.kind == "quality") {
      out.push_back(run.record.configuration);
    }
  }
  return out;
}

std::vector<KeptQuality> kept_quality(const Store& store) {
  std::vector<KeptQuality> out;
  for (const StoredRun& run : runs_by_age(store)) {
    if (run.record.kind != "quality") {
      continue;
    }
    out.push_back({.request = run.record.configuration, .chain_shares = {}});
    for (const Diagnostic& line : store.diagnostics(run.id)) {
      if (line.source == kChainShares) {
        out.back().chain_shares = line.text;
      }
    }
  }
  return out;
}

std::vector<KeptCalibration> kept_calibrations(const Store& store) {
  std::vector<KeptCalibration> out;
  for (const StoredRun& run : store.runs()) {
    if (run.record.kind != kCalibrationRun || run.record.status != RunStatus::kComplete) {
      continue;
    }
    for (const Diagnostic& line : store.diagnostics(run.id)) {
      if (line.source == kCalibrationRun) {
        out.push_back({run.record.configuration, line.text});
        break;
      }
    }
  }
  return out;
}

std::string left_out_text(const std::map<std::string, std::int64_t>& left_out) {
  std::string text;
  for (const auto& [reason, points] : left_out) {
    text += "; left out: " + std::to_string(points) + " points, " + reason;
  }
  return text;
}

}  // namespace versieve::db
