// The project's one file of measurements: typed writes and reads of runs and points, no SQL in
// sight. One transaction a point: what add_point returned from survives a kill -9 at any moment,
// and several processes may write at once. A Store belongs to one thread; open one for each.
//
// Errors are one sentence: 3 (kBadInput) for a missing, foreign, corrupt or newer file, 4
// (kEnvironment) for a full disk, a read-only place or a writer that holds the file too long. The
// file is then as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/pair_id.h"
#include "model/words/quality_point.h"
#include "model/words/step_trace.h"

namespace versieve::db {

std::string sqlite_version();  // of the library that is linked

enum class OpenMode { kCreateOrOpen, kReadOnly };

struct StoredRun {
  std::int64_t id = 0;
  RunRecord record;
  std::int64_t ok_count = 0;  // points by status
  std::int64_t refused_count = 0;
  std::int64_t failed_count = 0;
};

// Which points to read; what is empty does not restrict.
struct PointFilter {
  std::optional<std::int64_t> run_id;
  std::optional<WorkloadKind> workload;
  std::string device;  // part of the device's name, case-insensitive: "h200"
  std::string model;
  std::string pair;  // PairId::sha256
  std::string regime;
  std::string split;
  std::optional<Backend> backend;
  bool only_ok = false;  // leaves out refused and failed points
};

// A point in one line, for tables and plots. Texts are indices into Overview::words. Absent numbers
// were not measured; they are never zero.
struct PointOverview {
  std::int64_t id = 0;
  std::int64_t run_id = 0;
  WorkloadKind workload = WorkloadKind::kAttention;
  std::int32_t model = 0;
  std::int32_t regime = 0;
  std::int32_t split = 0;
  std::int32_t strategy = 0;
  std::int32_t dtype = 0;
  std::int32_t backend = 0;
  std::int32_t cache_state = 0;
  std::int32_t launch = 0;
  std::int32_t status = 0;
  std::int32_t reliability = 0;
  std::int64_t context_len = 0;                // L
  std::int64_t num_queries = 0;                // N
  std::optional<double> overlap;               // declared
  std::optional<double> adjacent_overlap;      // measured rho
  std::int64_t sample_count = 0;               // of the point's time
  std::optional<double> median_ns;             // of the point's time
  std::optional<double> median_low_ns;         // 95 % order-statistic interval of the median
  std::optional<double> median_high_ns;        //
  std::optional<double> dram_bytes;            // read + written, all ranges; none if one lacks it
  std::optional<double> predicted_dram_bytes;  // the traffic functions' sum over all ranges
  std::optional<double> accepted_per_step;     // bonus counted
  double temperature = 0.0;                    // 0: greedily
  bool is_traced = false;                      // launch by launch (db/step_details.h)
};

struct Overview {
  std::vector<std::string> words;     // [0] is the empty text
  std::vector<PointOverview> points;  // by id
};

// A remark about a run that no column holds, with its time.
struct Diagnostic {
  std::string time_utc;
  std::string severity;  // info, warning, error
  std::string source;    // who says so: "store", "counters", ...
  std::string text;      // one sentence
};

class Store {
 public:
  // Creates the file (kCreateOrOpen), migrates an older one, or opens for reading only. A writer
  // marks runs whose process is gone as aborted.
  static Store open(const std::string& path, OpenMode mode);
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  // Stores the run and returns its id. Empty uuid and started_utc are filled in. Throws if the
  // uuid is there already.
  std::int64_t begin_run(const RunRecord& run);
  void finish_run(std::int64_t run_id, RunStatus status);  // complete, aborted, failed
  // One transaction, what the point's step did (db/step_details.h reads it) in it; returns the
  // point's id. Throws if the run holds this key already.
  std::int64_t add_point(std::int64_t run_id, const PointMeasurement& point,
                         const StepDetail& detail = {});
  // One transaction for all of them. Throws, storing none, if the run holds one of the keys
  // already.
  void add_quality(std::int64_t run_id, const std::vector<QualityPoint>& points);
  void add_diagnostic(std::int64_t run_id, const std::string& severity, const std::string& source,
                      const std::string& text);

  // For resume: the key is there, ok or refused (failed points are tried again), in this run, or in
  // any run with this kind and resolved configuration.
  bool has_point(std::int64_t run_id, const PointKey& key) const;
  bool has_point(const std::string& kind, const std::string& configuration,
                 const PointKey& key) const;

  std::vector<StoredRun> runs() const;  // oldest first
  std::optional<StoredRun> run(const std::string& uuid) const;
  std::vector<PointMeasurement> points(const PointFilter& filter) const;  // by id, as overview()
  PointMeasurement point(std::int64_t point_id) const;
  std::vector<PairId> pairs() const;  // that points are of, each once, by name and hash
  // What strategies cost, of one run or of all, in the order in which it was stored.
  std::vector<QualityPoint> quality(std::optional<std::int64_t> run_id = {}) const;
  Overview overview(const PointFilter& filter) const;
  std::vector<Diagnostic> diagnostics(std::int64_t run_id) const;

  const std::string& path() const;
  int schema_version() const;  // of the file

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::db
