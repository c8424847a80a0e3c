#include "db/schema.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "db/identity.h"
#include "model/words/error.h"

namespace fs = std::filesystem;

namespace versieve::db {
namespace {

// SQLite's file header (sqlite.org/fileformat2.html, part 1.3).
constexpr std::size_t kHeaderBytes = 100;
constexpr char kMagic[] = "SQLite format 3";  // with its closing zero
constexpr std::size_t kPageSizeAt = 16;
constexpr std::size_t kChangeCounterAt = 24;
constexpr std::size_t kPageCountAt = 28;
constexpr std::size_t kApplicationIdAt = 68;
constexpr std::size_t kVersionValidForAt = 92;

using Header = std::array<unsigned char, kHeaderBytes>;

std::uint64_t big_endian(const Header& header, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value = value << 8 | header[at + i];
  }
  return value;
}

bool exists_nonempty(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && fs::file_size(path, ignored) > 0;
}

Error foreign(const std::string& path) {
  return {ExitCode::kBadInput, path + " is not a Versieve database: it belongs to another program"};
}

void check_size(const std::string& path, const Header& header) {
  std::uint64_t page_bytes = big_endian(header, kPageSizeAt, 2);
  page_bytes = page_bytes == 1 ? 65536 : page_bytes;
  const bool count_is_valid =
      big_endian(header, kChangeCounterAt, 4) == big_endian(header, kVersionValidForAt, 4);
  const std::uint64_t pages = big_endian(header, kPageCountAt, 4);
  if (count_is_valid && fs::file_size(path) < pages * page_bytes) {
    throw Error(ExitCode::kBadInput, path + " is damaged: it is shorter than its header says");
  }
}

bool has_tables(const Database& database) {
  return database.integer("SELECT count(*) FROM sqlite_master") != 0;
}

bool is_ours(const Database& database) {
  return database.integer("PRAGMA application_id") == kApplicationId;
}

Error newer(const Database& database, std::int64_t version, std::int64_t needs,
            std::int64_t known) {
  return {ExitCode::kBadInput,
          database.path() + " was written by a newer Versieve: its schema is " +
              std::to_string(version) + " and needs a program that knows " + std::to_string(needs) +
              ", this one knows " + std::to_string(known)};
}

// A copy of the older file as it was, whole or not at all.
void keep_copy(Database& database, std::int64_t version) {
  const std::string copy = database.path() + ".schema" + std::to_string(version);
  const std::string unfinished = copy + "." + std::to_string(::getpid());
  std::error_code failed;
  fs::remove(unfinished, failed);
  try {
    Statement(database, "VACUUM INTO ?").bind(unfinished).run();
  } catch (...) {  // a full disk: what was begun takes place that others need
    fs::remove(unfinished, failed);
    throw;
  }
  fs::rename(unfinished, copy, failed);
  if (failed) {
    const std::string reason = failed.message();
    fs::remove(unfinished, failed);
    throw Error(ExitCode::kEnvironment, copy + " cannot be written: " + reason);
  }
}

void record_step(Database& database, const SchemaStep& step) {
  Statement(database,
            "INSERT INTO migration (version, name, sha256, applied_utc) VALUES (?, ?, ?, ?)")
      .bind(std::int64_t{step.version})
      .bind(std::string(step.name))
      .bind(std::string(step.sha256))
      .bind(utc_now())
      .run();
}

void write_identity(Database& database, int version) {
  Statement(database, "INSERT OR REPLACE INTO meta (key, value) VALUES ('min_reader_version', ?)")
      .bind(std::to_string(min_reader_version()))
      .run();
  database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version = " + std::to_string(version));
}

// Within one transaction, version number included: a step that is killed leaves the old file.
void run_steps(Database& database, std::span<const SchemaStep> steps) {
  Transaction transaction(database);
  const std::int64_t version = database.integer("PRAGMA user_version");
  if (version >= steps.back().version) {
    return;  // another process was quicker
  }
  for (const SchemaStep& step : steps) {
    if (step.version > version) {
      database.execute(step.sql);
      record_step(database, step);
    }
  }
  if (!database.text("PRAGMA foreign_key_check").empty()) {
    throw Error(ExitCode::kBadInput, database.path() + " holds rows that refer to missing rows");
  }
  write_identity(database, steps.back().version);
  transaction.commit();
}

// As much of the header as there is.
std::string begin_of(const std::string& path) {
  std::string begin;
  read_bytes(path, [&](std::string_view piece) {
    begin = piece.substr(0, kHeaderBytes);
    return false;
  });
  return begin;
}

}  // namespace

int schema_version() {
  return schema_steps().back().version;
}

int min_reader_version() {
  return 1;
}

bool is_database(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), R_OK) == 0 &&
         begin_of(path).starts_with(std::string_view(kMagic, sizeof kMagic));
}

bool has_unfinished_writes(const std::string& path) {
  return exists_nonempty(path + "-wal") || exists_nonempty(path + "-journal");
}

void check_header(const std::string& path) {
  if (has_unfinished_writes(path)) {
    return;
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw Error(ExitCode::kBadInput, path + " cannot be read: " + std::strerror(errno));
  }
  const std::string begin = begin_of(path);
  Header header{};
  std::copy(begin.begin(), begin.end(), header.begin());
  if (begin.size() != kHeaderBytes || std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) {
    throw Error(ExitCode::kBadInput, path + " is not a Versieve database: it is not a SQLite file");
  }
  if (big_endian(header, kApplicationIdAt, 4) != kApplicationId) {
    throw foreign(path);
  }
  check_size(path, header);
}

void check_readable(const Database& database) {
  if (!is_ours(database)) {
    throw foreign(database.path());
  }
  const std::int64_t version = database.integer("PRAGMA user_version");
  if (version > schema_version()) {
    throw newer(database, version, version, schema_version());
  }
}

void migrate(Database& database, std::span<const SchemaStep> steps) {
  const std::int64_t version = database.integer("PRAGMA user_version");
  const bool is_new = version == 0 && !has_tables(database);
  if (!is_new && !is_ours(database)) {
    throw foreign(database.path());
  }
  if (version > steps.back().version) {
    throw newer(database, version, version, steps.back().version);
  }
  if (version == steps.back().version) {
    return;
  }
  if (!is_new) {
    keep_copy(database, version);
  }
  database.execute("PRAGMA foreign_keys = OFF");  // no-op within a transaction, so before it
  run_steps(database, steps);
}

}  // namespace versieve::db
