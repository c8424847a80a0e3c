#include "db/runs.h"

#include "db/identity.h"
#include "model/words/error.h"

namespace versieve::db {
namespace {

std::int64_t environment_id(Database& database, const std::string& text) {
  Statement(database, "INSERT INTO environment (text) VALUES (?) ON CONFLICT DO NOTHING")
      .bind(text)
      .run();
  Statement query(database, "SELECT id FROM environment WHERE text = ?");
  query.bind(text).next();
  return query.integer(0);
}

std::int64_t device_id(Database& database, const std::string& name, const std::string& uuid_hash) {
  Statement(database, "INSERT INTO device (name, uuid_hash) VALUES (?, ?) ON CONFLICT DO NOTHING")
      .bind(name)
      .bind(uuid_hash)
      .run();
  Statement query(database, "SELECT id FROM device WHERE name = ? AND uuid_hash = ?");
  query.bind(name).bind(uuid_hash).next();
  return query.integer(0);
}

bool has_uuid(Database& database, const std::string& uuid) {
  Statement query(database, "SELECT 1 FROM run WHERE uuid = ?");
  return query.bind(uuid).next();
}

constexpr const char* kRunColumns =
    "SELECT run.id, run.uuid, run.kind, device.name, device.uuid_hash, run.counter_access, "
    "run.counter_detail, run.self_check, run.started_utc, run.finished_utc, run.status, "
    "run.configuration, environment.text, run.revision, run.seed, "
    "run.ok_count, run.refused_count, run.failed_count, "
    // Sweeps from before the warm-up configure how often they count, and no more.
    "CASE WHEN json_valid(run.configuration) "
    "THEN json_type(run.configuration, '$.counter_repetitions') IS NULL "
    "OR ifnull(json_extract(run.configuration, '$.counter_warm_up'), 0) ELSE 1 END "
    "FROM run JOIN device ON device.id = run.device_id "
    "JOIN environment ON environment.id = run.environment_id ORDER BY run.id";

StoredRun read_run(const Statement& row) {
  StoredRun run;
  run.id = row.integer(0);
  run.record.uuid = row.text(1);
  run.record.kind = row.text(2);
  run.record.device = row.text(3);
  run.record.device_uuid_hash = row.text(4);
  run.record.counter_access = counter_state_of(row.text(5));
  run.record.counter_detail = row.text(6);
  run.record.self_check = self_check_verdict_of(row.text(7));
  run.record.started_utc = row.text(8);
  run.record.finished_utc = row.text(9);
  run.record.status = run_status_of(row.text(10));
  run.record.configuration = row.text(11);
  run.record.environment = row.text(12);
  run.record.revision = row.text(13);
  run.record.seed = static_cast<std::uint64_t>(row.integer(14));
  run.ok_count = row.integer(15);
  run.refused_count = row.integer(16);
  run.failed_count = row.integer(17);
  run.record.counted_warm = row.integer(18) != 0;
  return run;
}

}  // namespace

std::int64_t insert_run(Database& database, const RunRecord& run, const std::string& writer) {
  if (has_uuid(database, run.uuid)) {
    throw Error(ExitCode::kBadInput, database.path() + " already holds the run " + run.uuid);
  }
  Statement insert(database,
                   "INSERT INTO run (uuid, kind, device_id, environment_id, counter_access, "
                   "counter_detail, self_check, started_utc, finished_utc, status, configuration, "
                   "revision, seed, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(run.uuid)
      .bind(run.kind)
      .bind(device_id(database, run.device, run.device_uuid_hash))
      .bind(environment_id(database, run.environment))
      .bind(std::string(name_of(run.counter_access)))
      .bind(run.counter_detail)
      .bind(std::string(name_of(run.self_check)))
      .bind(run.started_utc)
      .bind(run.finished_utc)
      .bind(std::string(name_of(run.status)))
      .bind(run.configuration)
      .bind(run.revision)
      .bind(static_cast<std::int64_t>(run.seed))
      .bind(writer);
  insert.run();
  return database.last_insert_id();
}

void set_run_status(Database& database, std::int64_t run_id, RunStatus status,
                    const std::string& finished_utc) {
  Statement(database, "UPDATE run SET status = ?, finished_utc = ? WHERE id = ?")
      .bind(std::string(name_of(status)))
      .bind(finished_utc)
      .bind(run_id)
      .run();
}

std::string writer_of(const Database& database, std::int64_t run_id) {
  Statement query(database, "SELECT writer FROM run WHERE id = ?");
  return query.bind(run_id).next() ? query.text(0) : std::string();
}

void abort_orphans(Database& database) {
  std::vector<std::int64_t> orphans;
  Statement query(database, "SELECT id, writer FROM run WHERE status = 'running'");
  while (query.next()) {
    if (writer_is_gone(query.text(1))) {
      orphans.push_back(query.integer(0));
    }
  }
  for (const std::int64_t run_id : orphans) {
    Transaction transaction(database);
    set_run_status(database, run_id, RunStatus::kAborted, "");
    insert_diagnostic(database, run_id,
                      {utc_now(), "warning", "store",
                       "the run's process ended without finishing it; its points are kept"});
    transaction.commit();
  }
}

std::vector<StoredRun> read_runs(const Database& database) {
  std::vector<StoredRun> runs;
  Statement query(database, kRunColumns);
  while (query.next()) {
    runs.push_back(read_run(query));
  }
  return runs;
}

void insert_diagnostic(Database& database, std::int64_t run_id, const Diagnostic& diagnostic) {
  Statement(database,
            "INSERT INTO diagnostic (run_id, time_utc, severity, source, text) "
            "VALUES (?, ?, ?, ?, ?)")
      .bind(run_id)
      .bind(diagnostic.time_utc)
      .bind(diagnostic.severity)
      .bind(diagnostic.source)
      .bind(diagnostic.text)
      .run();
}

std::vector<Diagnostic> read_diagnostics(const Database& database, std::int64_t run_id) {
  std::vector<Diagnostic> diagnostics;
  Statement query(
      database,
      "SELECT time_utc, severity, source, text FROM diagnostic WHERE run_id = ? ORDER BY id");
  for (query.bind(run_id); query.next();) {
    diagnostics.push_back({query.text(0), query.text(1), query.text(2), query.text(3)});
  }
  return diagnostics;
}

}  // namespace versieve::db
