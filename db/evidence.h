// Measured points for a fit or a plan, out of a database: times and bytes of one device, acceptance
// of any, since a tree's yield does not depend on where it was grown.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"
#include "model/words/pair_evidence.h"

namespace versieve::db {

// The workloads whose points a fit takes: times and bytes, and what the machine gives.
inline constexpr std::array<WorkloadKind, 9> kFittedWorkloads = {
    WorkloadKind::kAttention, WorkloadKind::kStep,          WorkloadKind::kMachine,
    WorkloadKind::kDecode,    WorkloadKind::kTopk,          WorkloadKind::kSampling,
    WorkloadKind::kRectify,   WorkloadKind::kRectifiedStep, WorkloadKind::kBatch};

// Why nothing is fitted to the points of a run that is not RunRecord::counted_warm: their bytes are
// in part those of the instrument.
inline constexpr const char* kCountedCold =
    "counted right after a collection of counters was opened, without a warm-up: measure again";

// Why nothing is fitted to steps of a pair's own weights.
inline constexpr const char* kOfPair =
    "of a trained pair's own weights: they serve plans of that pair alone";

struct Evidence {
  std::string database;           // that it was read from
  std::string device;             // as the runs name it
  std::vector<std::string> runs;  // uuids of its runs
  std::vector<PointMeasurement> points;
  std::map<std::string, std::int64_t> left_out;  // reason -> points of the device
};

// The device that a fit is made for: the one that `wanted`, part of a name in any case, names;
// empty: the one whose catalogue entry is `hardware_key`; else, of those in the catalogue, the one
// with most timed attention and step points. Throws Error saying what the store holds: kAnswerNo
// where there is none, kUsage where several are named.
std::string fitted_device(const Store& store, const std::string& wanted,
                          const std::string& hardware_key);
// `device` as the runs name it. Refused and failed points are among them.
Evidence evidence_of(const Store& store, const std::string& device);
// The newest of that device's own runs (none that was imported); none where there is none.
std::optional<RunRecord> newest_run(const Store& store, const std::string& device);
// What is known of one trained pair, steps as that device timed them.
PairEvidence evidence_of_pair(const Store& store, const PairId& pair, const std::string& device);
// Acceptance points of every pair, measured and imported.
std::vector<PointMeasurement> acceptance_points(const Store& store);
// Those of chains that choose tokens (SpecAttn), or that a target drafts for itself.
std::vector<PointMeasurement> chain_points(const Store& store);
// What strategies cost every pair, the oldest run's first.
std::vector<QualityPoint> quality_points(const Store& store);
// Timed whole steps by model, pair and device; simulated ones are predictions and left out.
struct TimedSteps {
  std::string model, device;
  std::string pair;  // PairId::sha256
  std::vector<PointMeasurement> points;
};
std::vector<TimedSteps> timed_steps(const Store& store);
// How many of them each pair has on devices whose names contain `device` in any case, the pair with
// most first; geometries are not among them.
struct TimedPair {
  std::string pair;  // PairId::sha256
  std::size_t steps = 0;
};
std::vector<TimedPair> timed_pairs(const Store& store, const std::string& device);
// Of all runs, in the order in which they were stored.
std::vector<std::string> run_configurations(const Store& store);
// Of runs of kind `quality`, the oldest first.
std::vector<std::string> quality_configurations(const Store& store);
// The same with what they say of chains.
std::vector<KeptQuality> kept_quality(const Store& store);
std::vector<KeptCalibration> kept_calibrations(const Store& store);
// "; left out: 12 points, ..." or nothing.
std::string left_out_text(const std::map<std::string, std::int64_t>& left_out);

}  // namespace versieve::db
