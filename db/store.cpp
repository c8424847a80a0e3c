#include "db/store.h"

#include "db/identity.h"
#include "db/open.h"
#include "db/points.h"
#include "db/quality_rows.h"
#include "db/runs.h"
#include "db/sqlite.h"
#include "db/step_detail_rows.h"
#include "model/words/error.h"

namespace versieve::db {
std::string sqlite_version() {
  return linked_version();
}

struct Store::Impl {
  Impl(const std::string& path, OpenMode mode)
      : database(mode == OpenMode::kReadOnly ? open_for_reading(path) : open_for_writing(path)),
        may_write(mode != OpenMode::kReadOnly),
        writer(may_write ? std::make_unique<PointWriter>(*database) : nullptr),
        detail_writer(may_write ? std::make_unique<StepDetailWriter>(*database) : nullptr) {}
  ~Impl();

  Database& for_writing() {
    if (!may_write) {
      throw Error(ExitCode::kUsage, database->path() + " was opened for reading only");
    }
    return *database;
  }

  std::unique_ptr<Database> database;
  bool may_write = false;
  std::unique_ptr<PointWriter> writer;
  std::unique_ptr<StepDetailWriter> detail_writer;
};

Store::Impl::~Impl() {
  writer.reset();  // their statements end before the mode can change
  detail_writer.reset();
  if (may_write) {
    leave_plain_file(*database);
  }
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store Store::open(const std::string& path, OpenMode mode) {
  return Store(std::make_unique<Impl>(path, mode));
}

std::int64_t Store::begin_run(const RunRecord& run) {
  RunRecord filled = run;
  filled.uuid = run.uuid.empty() ? random_uuid() : run.uuid;
  filled.started_utc = run.started_utc.empty() ? utc_now() : run.started_utc;
  Transaction transaction(impl_->for_writing());
  const std::int64_t run_id = insert_run(*impl_->database, filled, this_writer());
  transaction.commit();
  return run_id;
}

void Store::finish_run(std::int64_t run_id, RunStatus status) {
  set_run_status(impl_->for_writing(), run_id, status, utc_now());
}

std::int64_t Store::add_point(std::int64_t run_id, const PointMeasurement& point,
                              const StepDetail& detail) {
  try {
    Transaction transaction(impl_->for_writing());
    const std::int64_t point_id = impl_->writer->insert(run_id, point);
    impl_->detail_writer->insert(point_id, detail);
    transaction.commit();
    return point_id;
  } catch (...) {
    if (impl_->writer) {
      impl_->writer->forget();
      impl_->detail_writer->forget();
    }
    throw;
  }
}

void Store::add_quality(std::int64_t run_id, const std::vector<QualityPoint>& points) {
  Transaction transaction(impl_->for_writing());
  for (const QualityPoint& point : points) {
    insert_quality(*impl_->database, run_id, point);
  }
  transaction.commit();
}

void Store::add_diagnostic(std::int64_t run_id, const std::string& severity,
                           const std::string& source, const std::string& text) {
  insert_diagnostic(impl_->for_writing(), run_id, {utc_now(), severity, source, text});
}

bool Store::has_point(std::int64_t run_id, const PointKey& key) const {
  return has_finished_point(*impl_->database, run_id, key);
}

bool Store::has_point(const std::string& kind, const std::string& configuration,
                      const PointKey& key) const {
  return has_finished_point(*impl_->database, kind, configuration, key);
}

std::vector<StoredRun> Store::runs() const {
  return read_runs(*impl_->database);
}

std::optional<StoredRun> Store::run(const std::string& uuid) const {
  for (const StoredRun& run : runs()) {
    if (run.record.uuid == uuid) {
      return run;
    }
  }
  return std::nullopt;
}

std::vector<PointMeasurement> Store::points(const PointFilter& filter) const {
  const Snapshot snapshot(*impl_->database);
  PointReader reader(*impl_->database);
  std::vector<PointMeasurement> points;
  for (const std::int64_t point_id : read_point_ids(*impl_->database, filter)) {
    points.push_back(reader.read(point_id));
  }
  return points;
}

PointMeasurement Store::point(std::int64_t point_id) const {
  const Snapshot snapshot(*impl_->database);
  return PointReader(*impl_->database).read(point_id);
}

std::vector<PairId> Store::pairs() const {
  return read_pairs(*impl_->database);
}

std::vector<QualityPoint> Store::quality(std::optional<std::int64_t> run_id) const {
  const Snapshot snapshot(*impl_->database);
  return read_quality(*impl_->database, run_id);
}

Overview Store::overview(const PointFilter& filter) const {
  const Snapshot snapshot(*impl_->database);
  return read_overview(*impl_->database, filter);
}

std::vector<Diagnostic> Store::diagnostics(std::int64_t run_id) const {
  return read_diagnostics(*impl_->database, run_id);
}

const std::string& Store::path() const {
  return impl_->database->path();
}

int Store::schema_version() const {
  return static_cast<int>(impl_->database->integer("PRAGMA user_version"));
}

}  // namespace versieve::db
