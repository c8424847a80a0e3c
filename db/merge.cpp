#include "db/merge.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>

#include "db/open.h"
#include "db/points.h"
#include "db/quality_rows.h"
#include "db/runs.h"
#include "db/sqlite.h"
#include "db/step_detail_rows.h"
#include "db/summary.h"
#include "model/words/error.h"

namespace fs = std::filesystem;

namespace versieve::db {
namespace {

std::unique_ptr<Database> open_source(const std::string& path, const std::string& target) {
  std::unique_ptr<Database> source = open_for_reading(path);
  std::error_code ignored;
  if (fs::equivalent(path, target, ignored)) {
    throw Error(ExitCode::kUsage, path + " is both the target and a source of the merge");
  }
  check_pages(*source);
  return source;
}

bool is_final(RunStatus status) {
  return status != RunStatus::kRunning;
}

bool holds(const std::vector<Diagnostic>& diagnostics, const Diagnostic& wanted) {
  for (const Diagnostic& candidate : diagnostics) {
    if (candidate.time_utc == wanted.time_utc && candidate.text == wanted.text) {
      return true;
    }
  }
  return false;
}

double middle_of(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

// As few samples as have the same median and interval of it; fewer stay as they are.
void summarise(std::vector<double>& samples) {
  const std::optional<RankInterval> ranks =
      median_interval(static_cast<std::int64_t>(samples.size()));
  if (!ranks ||
      std::any_of(samples.begin(), samples.end(), [](double ns) { return !std::isfinite(ns); })) {
    return;
  }
  std::sort(samples.begin(), samples.end());
  const double low = samples[static_cast<std::size_t>(ranks->low)];
  const double high = samples[static_cast<std::size_t>(ranks->high)];
  const double middle = middle_of(samples);
  samples = {low, middle, middle, middle, middle, high};
}

PointMeasurement summarised(PointMeasurement point) {
  summarise(point.time_ns);
  for (RangeMeasurement& range : point.ranges) {
    if (!range.gpu_time_ns.empty()) {
      std::sort(range.gpu_time_ns.begin(), range.gpu_time_ns.end());
      range.gpu_time_ns = {middle_of(range.gpu_time_ns)};
    }
    std::erase_if(range.counters, [](const CounterValue& counter) { return !counter.value; });
  }
  return point;
}

// One source, one target, within a transaction.
class RunCopier {
 public:
  RunCopier(Database& target, Database& source, MergeDetail detail)
      : target_(target),
        source_(source),
        reader_(source),
        writer_(target),
        step_reader_(source),
        step_writer_(target),
        detail_(detail) {
    for (const StoredRun& run : read_runs(target)) {
      known_[run.record.uuid] = run;
    }
  }

  MergeResult copy_all() {
    MergeResult result{.source = source_.path()};
    for (const StoredRun& run : read_runs(source_)) {
      const std::int64_t target_id = copy_run(run, result);
      copy_diagnostics(run.id, target_id);
      for (const std::int64_t point_id : read_point_ids(source_, {.run_id = run.id})) {
        copy_point(point_id, target_id, result);
      }
      copy_quality(run.id, target_id, result);
    }
    return result;
  }

 private:
  std::int64_t copy_run(const StoredRun& run, MergeResult& result) {
    const auto known = known_.find(run.record.uuid);
    if (known == known_.end()) {
      ++result.runs_added;
      return insert_run(target_, run.record, writer_of(source_, run.id));
    }
    ++result.runs_already_there;
    if (!is_final(known->second.record.status) && is_final(run.record.status)) {
      set_run_status(target_, known->second.id, run.record.status, run.record.finished_utc);
    }
    return known->second.id;
  }

  void copy_diagnostics(std::int64_t source_id, std::int64_t target_id) {
    const std::vector<Diagnostic> present = read_diagnostics(target_, target_id);
    for (const Diagnostic& diagnostic : read_diagnostics(source_, source_id)) {
      if (!holds(present, diagnostic)) {
        insert_diagnostic(target_, target_id, diagnostic);
      }
    }
  }

  void copy_point(std::int64_t point_id, std::int64_t target_id, MergeResult& result) {
    const PointMeasurement point = reader_.read(point_id);
    std::optional<std::int64_t> there = writer_.find(target_id, point.key);
    if (!there) {
      there = writer_.insert(target_id, detail_ == MergeDetail::kAll ? point : summarised(point));
      ++result.points_added;
      ++result.points_by_workload[point.key.workload];
    }
    copy_step(point_id, *there, result);
  }

  // Also to a point that came without: its writer was killed before it stored this.
  void copy_step(std::int64_t point_id, std::int64_t there, MergeResult& result) {
    const StepDetail detail = step_reader_.read(point_id);
    if (!detail.empty() && !step_writer_.holds(there)) {
      step_writer_.insert(there, detail);
      ++result.step_details_added;
    }
  }

  void copy_quality(std::int64_t source_id, std::int64_t target_id, MergeResult& result) {
    const std::vector<QualityPoint> present = read_quality(target_, target_id);
    for (const QualityPoint& point : read_quality(source_, source_id)) {
      if (std::none_of(present.begin(), present.end(),
                       [&](const QualityPoint& held) { return same_key(held, point); })) {
        insert_quality(target_, target_id, point);
        ++result.quality_rows_added;
      }
    }
  }

  Database& target_;
  Database& source_;
  PointReader reader_;
  PointWriter writer_;
  StepDetailReader step_reader_;
  StepDetailWriter step_writer_;
  MergeDetail detail_;
  std::map<std::string, StoredRun> known_;  // runs of the target by uuid
};

using Sources = std::vector<std::unique_ptr<Database>>;

std::vector<MergeResult> copy_all(Database& target, const Sources& sources, MergeDetail detail) {
  Transaction transaction(target);
  std::vector<MergeResult> results;
  for (const std::unique_ptr<Database>& source : sources) {
    const Snapshot snapshot(*source);
    results.push_back(RunCopier(target, *source, detail).copy_all());
  }
  transaction.commit();
  return results;
}

// A new database under another name until it is whole, so that nothing half made has its own.
class NewFile {
 public:
  explicit NewFile(const std::string& target) : target_(target) {
    std::error_code ignored;
    for (std::int64_t number = ::getpid(); path_.empty() || fs::exists(path_, ignored); ++number) {
      path_ = target + "." + std::to_string(number);
    }
  }
  ~NewFile() { remove(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  std::vector<MergeResult> fill(const Sources& sources, MergeDetail detail) const {
    try {
      const std::unique_ptr<Database> into = open_for_writing(path_);
      std::vector<MergeResult> results = copy_all(*into, sources, detail);
      if (!into->try_journal_mode("DELETE")) {  // all of it in one file
        throw Error(ExitCode::kEnvironment, path_ + ": another program holds it");
      }
      return results;
    } catch (const Error& error) {
      throw Error(error.code(), of_target(error.what()));
    }
  }
  // False: somebody made a file of that name meanwhile, or the folder's file system has no links.
  bool try_name() const { return ::link(path_.c_str(), target_.c_str()) == 0; }

 private:
  void remove() const {
    for (const char* part : {"", "-wal", "-shm", "-journal"}) {
      std::error_code ignored;
      fs::remove(path_ + part, ignored);
    }
  }
  std::string of_target(std::string sentence) const {
    const std::string own = fs::path(path_).filename(), name = fs::path(target_).filename();
    for (std::size_t at = 0; (at = sentence.find(own, at)) != std::string::npos;) {
      sentence.replace(at, own.size(), name);
      at += name.size();
    }
    return sentence;
  }

  std::string target_, path_;
};

}  // namespace

std::vector<MergeResult> merge_into(const std::string& target,
                                    const std::vector<std::string>& sources, MergeDetail detail) {
  Sources opened;
  for (const std::string& source : sources) {
    opened.push_back(open_source(source, target));
  }
  std::error_code ignored;
  if (!target.empty() && !fs::exists(target, ignored)) {
    const NewFile file(target);
    std::vector<MergeResult> results = file.fill(opened, detail);
    if (file.try_name()) {
      return results;
    }
  }
  const std::unique_ptr<Database> into = open_for_writing(target);
  try {
    std::vector<MergeResult> results = copy_all(*into, opened, detail);
    leave_plain_file(*into);
    return results;
  } catch (...) {
    leave_plain_file(*into);
    throw;
  }
}

}  // namespace versieve::db
