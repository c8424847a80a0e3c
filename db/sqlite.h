// SQLite's C API as types that own what they hold: a connection, a prepared statement, a
// transaction. Every failure becomes an Error with one sentence that names the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace versieve::db {

std::string linked_version();  // of SQLite

// kReadFrozen: nothing beside the file is read or made, as if nobody could ever write to it.
enum class Access { kCreate, kWrite, kRead, kReadFrozen };

// One thread's at a time.
class Database {
 public:
  Database(const std::string& path, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);  // one or more statements, no results
  std::int64_t integer(const std::string& sql) const;
  std::string text(const std::string& sql) const;
  std::int64_t last_insert_id() const;
  // Milliseconds that a statement waits for another process's lock.
  void set_busy_timeout(int milliseconds);

  // False if another connection is in the way.
  bool try_journal_mode(const std::string& mode);

  // The name that errors give where another than the file's own is known to the user.
  void set_path(const std::string& path) { path_ = path; }
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }
  // Throws what SQLite's result code means for the user; `code` is SQLITE_OK or another result.
  void check(int code) const;

 private:
  [[noreturn]] void fail(int code) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
};

// The bytes of a file that this process may have open as a database, in pieces until `take` says
// that it has enough (false). Read through SQLite, for any regular file: whoever closes a
// descriptor of his own drops all locks of the process on that file (sqlite.org/howtocorrupt.html,
// part 2.2).
void read_bytes(const std::string& path, const std::function<bool(std::string_view)>& take);

// A prepared statement, to be bound from left to right, run, and used again:
//   insert.bind(run_id).bind(name).run();
//   for (query.bind(run_id); query.next();) use(query.integer(0));
class Statement {
 public:
  Statement(const Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value);
  Statement& bind(double value);  // NaN is stored as NULL
  Statement& bind(const std::string& value);
  Statement& bind(const std::optional<double>& value);
  Statement& bind(const std::optional<std::int64_t>& value);

  bool next();  // true: a row is there; false: done, bindings cleared, ready to be bound again
  void run();   // for statements without rows
  void reset();

  std::int64_t integer(int column) const;
  double real(int column) const;  // NULL is read as NaN
  std::string text(int column) const;
  std::optional<double> optional_real(int column) const;
  bool is_null(int column) const;

 private:
  const Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// BEGIN IMMEDIATE; rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

// A read transaction: all statements within see one state of the file.
class Snapshot {
 public:
  explicit Snapshot(Database& database);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Database& database_;
};

}  // namespace versieve::db
