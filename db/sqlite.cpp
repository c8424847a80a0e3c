// The only file that includes sqlite3.h.
#include "db/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::db {
namespace {

// A connection is one thread's at a time (sqlite.h), so that SQLite need not lock it at each call.
int open_flags(Access access) {
  switch (access) {
    case Access::kCreate:
      return SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    case Access::kWrite:
      return SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    case Access::kRead:
      return SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY;
    case Access::kReadFrozen:
      return SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  }
  return 0;
}

// A URI of what stands for itself, every other byte as its code.
std::string frozen_uri(const std::string& file) {
  std::string uri = "file:";
  for (const unsigned char c : file) {
    if (std::isalnum(c) != 0 || c == '/' || c == '.' || c == '-' || c == '_') {
      uri += static_cast<char>(c);
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(c));
      uri += code;
    }
  }
  return uri + "?immutable=1";
}

// In the words of every other file that cannot grow. The last writer to close would move what a
// -wal holds into the file, which needs the room that is not there.
Error no_room(const std::string& path, int reason) {
  const std::string log = std::filesystem::path(path).filename().string() + "-wal";
  return {ExitCode::kEnvironment,
          path + ": cannot be written: " + std::strerror(reason) +
              "; nothing stored before is lost (" + log +
              ", where it stays, holds a part of it, which the next writer moves in)"};
}

bool is_of_room(int reason) {
  return reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
}

// Of a file's size limit SQLite says that a write failed, and leaves why in errno.
Error error_for(int code, const std::string& path, const std::string& message, int reason) {
  if ((code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE) && is_of_room(reason)) {
    return no_room(path, reason);
  }
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return {ExitCode::kBadInput, path + " is not a Versieve database: it is not a SQLite file"};
    case SQLITE_CORRUPT:
      return {ExitCode::kBadInput, path + " is damaged: " + message};
    case SQLITE_FULL:
      return no_room(path, is_of_room(reason) ? reason : ENOSPC);
    case SQLITE_READONLY:
      return {ExitCode::kEnvironment, path + " cannot be written: it or its folder is read-only"};
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ExitCode::kEnvironment, path + " cannot be opened: " + message +
                                          " (folder missing or no permission to use it)"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ExitCode::kEnvironment, path + " is locked by another process"};
    case SQLITE_NOMEM:
      return {ExitCode::kEnvironment, "out of memory for " + path};
    case SQLITE_IOERR:
      return {ExitCode::kEnvironment, "reading or writing " + path + " failed: " + message};
    default:
      return {ExitCode::kBadInput, path + ": " + message};
  }
}

}  // namespace

std::string linked_version() {
  return sqlite3_libversion();
}

Database::Database(const std::string& path, Access access) : path_(path) {
  // Made absolute, so that SQLite takes no name for a URI or for its ":memory:".
  const std::string file = std::filesystem::absolute(path).string();
  const std::string name = access == Access::kReadFrozen ? frozen_uri(file) : file;
  const int code = sqlite3_open_v2(name.c_str(), &handle_, open_flags(access), nullptr);
  if (code != SQLITE_OK) {
    const Error error =
        error_for(code, path_, handle_ ? sqlite3_errmsg(handle_) : "no memory", errno);
    sqlite3_close_v2(handle_);
    throw error;
  }
  sqlite3_extended_result_codes(handle_, 1);
}

void read_bytes(const std::string& path, const std::function<bool(std::string_view)>& take) {
  constexpr sqlite3_int64 kPiece = 1 << 20;
  const Database database(path, Access::kRead);
  sqlite3_file* file = nullptr;
  database.check(sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_FILE_POINTER, &file));
  sqlite3_int64 size = 0;
  database.check(file->pMethods->xFileSize(file, &size));
  std::string piece;
  for (sqlite3_int64 begin = 0; begin < size; begin += kPiece) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, size - begin)));
    database.check(
        file->pMethods->xRead(file, piece.data(), static_cast<int>(piece.size()), begin));
    if (!take(piece)) {
      return;
    }
  }
}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

void Database::execute(const std::string& sql) {
  check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t Database::integer(const std::string& sql) const {
  Statement statement(*this, sql);
  return statement.next() ? statement.integer(0) : 0;
}

std::string Database::text(const std::string& sql) const {
  Statement statement(*this, sql);
  return statement.next() ? statement.text(0) : std::string();
}

std::int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(handle_);
}

void Database::set_busy_timeout(int milliseconds) {
  check(sqlite3_busy_timeout(handle_, milliseconds));
}

bool Database::try_journal_mode(const std::string& mode) {
  const std::string sql = "PRAGMA journal_mode = " + mode;
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  const bool in_the_way = (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED;
  check(in_the_way ? SQLITE_OK : code);
  return !in_the_way;
}

void Database::check(int code) const {
  if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE) {
    fail(code);
  }
}

void Database::fail(int code) const {
  const int reason = errno;
  throw error_for(code, path_, sqlite3_errmsg(handle_), reason);
}

Statement::Statement(const Database& database, const std::string& sql) : database_(database) {
  database.check(sqlite3_prepare_v2(database.handle(), sql.c_str(), static_cast<int>(sql.size()),
                                    &statement_, nullptr));
  VERSIEVE_ASSERT(statement_ != nullptr, "a statement holds SQL");
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

Statement& Statement::bind(std::int64_t value) {
  database_.check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}

Statement& Statement::bind(double value) {
  database_.check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}

Statement& Statement::bind(const std::string& value) {
  database_.check(sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(),
                                      SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(const std::optional<double>& value) {
  if (value) {
    return bind(*value);
  }
  database_.check(sqlite3_bind_null(statement_, ++bound_));
  return *this;
}

Statement& Statement::bind(const std::optional<std::int64_t>& value) {
  if (value) {
    return bind(*value);
  }
  database_.check(sqlite3_bind_null(statement_, ++bound_));
  return *this;
}

bool Statement::next() {
  VERSIEVE_ASSERT(bound_ == sqlite3_bind_parameter_count(statement_) || bound_ == 0,
                  "every parameter of a statement is bound");
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) {
    return true;
  }
  reset();  // before the check: a failed statement can be used again
  database_.check(code);
  return false;
}

void Statement::run() {
  const bool has_row = next();
  VERSIEVE_ASSERT(!has_row, "run() is for statements without rows");
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bound_ = 0;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double Statement::real(int column) const {
  return is_null(column) ? std::nan("") : sqlite3_column_double(statement_, column);
}

std::string Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return text == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

std::optional<double> Statement::optional_real(int column) const {
  if (is_null(column)) {
    return std::nullopt;
  }
  return sqlite3_column_double(statement_, column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (open_) {
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

Snapshot::Snapshot(Database& database) : database_(database) {
  database_.execute("BEGIN");
}

Snapshot::~Snapshot() {
  sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace versieve::db
