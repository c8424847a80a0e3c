#include "db/open.h"

#include <stdlib.h>
#include <unistd.h>

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
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw Error(ExitCode::kBadInput, path + " cannot be read: " + error.message());
  }
  if (!fs::exists(status)) {
    throw Error(ExitCode::kBadInput, path + " does not exist");
  }
  if (!fs::is_regular_file(status)) {
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

std::unique_ptr<Database> opened(const std::string& path, Access access) {
  std::unique_ptr<Database> database = std::make_unique<Database>(path, access);
  database->set_busy_timeout(kBusyTimeoutMs);
  check_readable(*database);
  return database;
}

bool folder_can_be_written(const std::string& path) {
  return ::access(fs::absolute(path).parent_path().c_str(), W_OK) == 0;
}

// A folder of its own under the temporary one, gone at the end of its scope.
class CopyFolder {
 public:
  CopyFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "versieve-read-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      throw Error(ExitCode::kEnvironment, name + ": no temporary folder can be made");
    }
    path_ = name;
  }
  ~CopyFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  CopyFolder(const CopyFolder&) = delete;
  CopyFolder& operator=(const CopyFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// What a killed writer committed and left beside the file is joined to it in a copy: a read-only
// folder lets nobody do it in place. The open files outlive their names.
std::unique_ptr<Database> opened_copy(const std::string& path) {
  const CopyFolder folder;
  const std::string copy = (folder.path() / "copy.db").string();
  try {
    for (const char* part : {"", "-wal", "-journal"}) {
      if (fs::exists(path + part)) {
        fs::copy_file(path + part, copy + part);
        fs::permissions(copy + part, fs::perms::owner_read | fs::perms::owner_write);
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kEnvironment,
                path + " has unfinished writes beside it and cannot be copied to " +
                    folder.path().string() + ": " + error.code().message());
  }
  leave_plain_file(*std::make_unique<Database>(copy, Access::kWrite));
  std::unique_ptr<Database> database = opened(copy, Access::kReadFrozen);
  database->set_path(path);
  return database;
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
  try {
    return opened(path, Access::kRead);
  } catch (const Error& error) {
    // A file whose last writer was killed, or that was copied from beside one, is still in WAL
    // mode: SQLite wants to make a -shm beside it.
    if (error.code() != ExitCode::kEnvironment || folder_can_be_written(path)) {
      throw;
    }
    return has_unfinished_writes(path) ? opened_copy(path) : opened(path, Access::kReadFrozen);
  }
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
