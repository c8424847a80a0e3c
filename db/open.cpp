#include "db/open.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "db/runs.h"
#include "db/schema.h"
#include "model/words/error.h"

namespace fs = std::filesystem;

namespace versieve::db {
namespace {

constexpr int kBusyTimeoutMs = 30'000;

void require_name(const std::string& path) {
  if (path.empty()) {
    throw Error(ExitCode::kUsage, "a database needs a file name, and this one is empty");
  }
}

void require_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(ExitCode::kBadInput, path + " does not exist");
  }
  if (!fs::is_regular_file(path, ignored)) {
    throw Error(ExitCode::kBadInput, path + " is not a file");
  }
}

// Larger files are not read through before they are written to: it would take seconds.
constexpr std::uintmax_t kCheckedBytes = std::uintmax_t{256} << 20;

// Another process may be opening the file at this very moment. Whatever the mode in the end, every
// write is a transaction; WAL only lets readers go on meanwhile.
void prefer_wal(Database& database) {
  for (int attempt = 0; attempt < 50 && !database.try_journal_mode("WAL"); ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void prepare_writer(Database& database) {
  database.set_busy_timeout(kBusyTimeoutMs);
  if (fs::file_size(database.path()) <= kCheckedBytes) {
    check_pages(database);
  }
  migrate(database, schema_steps());
  database.execute("PRAGMA foreign_keys = ON");
  prefer_wal(database);
  database.execute("PRAGMA synchronous = FULL");
  abort_orphans(database);
}

// A file that could not be made into a database is not left behind.
void remove_if_empty(const std::string& path) {
  std::error_code ignored;
  if (fs::file_size(path, ignored) == 0) {
    fs::remove(path, ignored);
  }
}

}  // namespace

std::unique_ptr<Database> open_for_reading(const std::string& path) {
  require_name(path);
  require_file(path);
  check_header(path);
  std::unique_ptr<Database> database = std::make_unique<Database>(path, Access::kRead);
  database->set_busy_timeout(kBusyTimeoutMs);
  check_readable(*database);
  return database;
}

std::unique_ptr<Database> open_for_writing(const std::string& path) {
  require_name(path);
  std::error_code ignored;
  const bool is_new = !fs::exists(path, ignored);
  if (!is_new) {
    require_file(path);
    if (fs::file_size(path) > 0) {
      check_header(path);
    }
  }
  try {
    std::unique_ptr<Database> database = std::make_unique<Database>(path, Access::kCreate);
    prepare_writer(*database);
    return database;
  } catch (...) {
    if (is_new) {
      remove_if_empty(path);
    }
    throw;
  }
}

void check_pages(const Database& database) {
  const std::string verdict = database.text("PRAGMA quick_check(1)");
  if (verdict != "ok") {
    const std::string what = verdict.substr(verdict.find('\n') + 1);  // behind a heading, if any
    throw Error(ExitCode::kBadInput, database.path() + " is damaged: " + what);
  }
}

void leave_plain_file(Database& database) noexcept {
  try {
    database.set_busy_timeout(0);
    database.try_journal_mode("DELETE");
  } catch (const std::exception&) {
    // The file is whole either way; the next writer to close tries again.
  }
}

}  // namespace versieve::db
