// The tables of runs: devices and environments stored once, runs, their diagnostics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.h"
#include "db/store.h"

namespace versieve::db {

// Stores the run as it is given. Throws if its uuid is there already.
std::int64_t insert_run(Database& database, const RunRecord& run, const std::string& writer);
void set_run_status(Database& database, std::int64_t run_id, RunStatus status,
                    const std::string& finished_utc);
std::string writer_of(const Database& database, std::int64_t run_id);
// Running runs whose writer is certainly gone become aborted, with a diagnostic that says so.
void abort_orphans(Database& database);

std::vector<StoredRun> read_runs(const Database& database);

void insert_diagnostic(Database& database, std::int64_t run_id, const Diagnostic& diagnostic);
std::vector<Diagnostic> read_diagnostics(const Database& database, std::int64_t run_id);

}  // namespace versieve::db
