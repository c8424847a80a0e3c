// Databases in folders that the reader may not write to: plain, left in WAL mode, with what a
// killed writer left beside them, and beside a live one. Root may write anywhere, so that the
// reader is a child without its rights.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "db/sqlite.h"
#include "db/store.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

constexpr int kNobody = 65534;
constexpr int kRefused = 100;

void add_points(Store& store, int count, const std::string& run = "run") {
  const std::int64_t run_id = store.begin_run(sample_run(run));
  for (int number = 0; number < count; ++number) {
    store.add_point(run_id, sample_point(number));
  }
}

// Points that a user without rights reads; kRefused: none, for the reason that is printed.
int points_for_nobody(const std::string& path, const std::string& expected_part = "") {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
      ::_exit(kRefused);
    }
    try {
      const Store store = Store::open(path, OpenMode::kReadOnly);
      ::_exit(store.path() == path ? static_cast<int>(store.points({}).size()) : kRefused);
    } catch (const std::exception& error) {
      const bool is_expected = !expected_part.empty() &&
                               std::string(error.what()).find(expected_part) != std::string::npos;
      if (!is_expected) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      ::_exit(is_expected ? kRefused : kRefused + 1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void set_read_only(const fs::path& folder, bool is_read_only) {
  fs::permissions(folder, is_read_only ? fs::perms(0555) : fs::perms(0755));
}

// Names that a folder holds.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A database whose writer vanished: its points stand in the -wal alone. The copy has no -shm.
void copy_of_killed_writer(const std::string& from, const std::string& to, int points) {
  const pid_t child = ::fork();
  if (child == 0) {
    Store store = Store::open(from, OpenMode::kCreateOrOpen);
    add_points(store, points);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  fs::copy_file(from, to);
  fs::copy_file(from + "-wal", to + "-wal");
}

}  // namespace

TEST_CASE("a plain database in a read-only folder is read") {
  const TempFolder scratch;
  const std::string path = (scratch / "a % b?#.db").string();
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    add_points(store, 3);
  }
  set_read_only(scratch.path(), true);
  CHECK(points_for_nobody(path) == 3);
  set_read_only(scratch.path(), false);
}

TEST_CASE("one that was left in WAL mode is read where no -shm can be made") {
  const TempFolder scratch;
  const std::string path = (scratch / "a % b?#.db").string();
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    add_points(store, 4);
  }
  {
    Database database(path, Access::kWrite);
    REQUIRE(database.try_journal_mode("WAL"));
  }
  set_read_only(scratch.path(), true);
  CHECK(points_for_nobody(path) == 4);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"a % b?#.db"});
  set_read_only(scratch.path(), false);
}

TEST_CASE("what a killed writer committed is read too, and nothing is left in its folder") {
  const TempFolder scratch, written;
  const std::string path = (scratch / "copied.db").string();
  copy_of_killed_writer((written / "w.db").string(), path, 5);
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path())) {
    fs::permissions(entry.path(), fs::perms(0444));
  }
  set_read_only(scratch.path(), true);
  const std::string before = file_bytes(path);
  CHECK(points_for_nobody(path) == 5);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"copied.db", "copied.db-wal"});
  CHECK(file_bytes(path) == before);
  set_read_only(scratch.path(), false);
}

TEST_CASE("beside a live writer all that it committed is read, in a read-only folder too") {
  const TempFolder scratch;
  set_read_only(scratch.path(), false);  // anyone may come in
  const std::string path = (scratch / "live.db").string();
  Store writer = Store::open(path, OpenMode::kCreateOrOpen);
  add_points(writer, 2);
  CHECK(points_for_nobody(path) == 2);
  set_read_only(scratch.path(), true);
  CHECK(points_for_nobody(path) == 2);
  set_read_only(scratch.path(), false);
  add_points(writer, 4, "later");
  CHECK(points_for_nobody(path) == 6);
}

TEST_CASE("a file that may not be read is refused with that reason, in a closed folder too") {
  const TempFolder scratch;
  const std::string path = (scratch / "closed.db").string();
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    add_points(store, 1);
  }
  fs::permissions(path, fs::perms(0));
  set_read_only(scratch.path(), true);
  CHECK(points_for_nobody(path, "closed.db cannot be read: Permission denied") == kRefused);
  set_read_only(scratch.path(), false);
  fs::permissions(scratch.path(), fs::perms(0));
  CHECK(points_for_nobody(path, "closed.db cannot be read: Permission denied") == kRefused);
  set_read_only(scratch.path(), false);
}
