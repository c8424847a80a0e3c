// Files that are not what they should be: one sentence, the right exit code, not a byte changed.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "db/merge.h"
#include "db/open.h"
#include "db/schema.h"
#include "db/sqlite.h"
#include "db/store.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

std::string make_database(const TempFolder& scratch, const std::string& name, int points) {
  const std::string path = (scratch / name).string();
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run("run-" + name));
  for (int number = 0; number < points; ++number) {
    store.add_point(run_id, sample_point(number));
  }
  store.finish_run(run_id, RunStatus::kComplete);
  return path;
}

// Both modes refuse with this code and a sentence that holds `part`; the bytes stay.
void check_refused(const std::string& path, ExitCode code, const std::string& part) {
  const std::string before = file_bytes(path);
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kCreateOrOpen}) {
    const Error error = error_of([&] { Store::open(path, mode).points({}); });
    CAPTURE(error.what());
    CHECK(error.code() == code);
    CHECK(std::string(error.what()).find(part) != std::string::npos);
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    CHECK(is_one_sentence(error.what()));
    CHECK(file_bytes(path) == before);
  }
}

}  // namespace

TEST_CASE("a missing file is refused by readers with exit code 3 and is not created") {
  const TempFolder scratch;
  const std::string path = (scratch / "none.db").string();
  const Error error = error_of([&] { Store::open(path, OpenMode::kReadOnly); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(is_one_sentence(error.what()));
  CHECK(!fs::exists(path));
}

TEST_CASE(
    "a point with a word that nobody knows is refused with the point, the word and the known") {
  const TempFolder scratch;
  const std::string path = make_database(scratch, "a.db", 3);
  Database(path, Access::kWrite).execute("UPDATE word SET text = 'tpu' WHERE text = 'cuda'");
  const Error error = error_of([&] { Store::open(path, OpenMode::kReadOnly).points({}); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(is_one_sentence(error.what()));
  for (const char* part : {"a.db: point 1: ", "backend 'tpu'", "cuda, cpu, sim, imported"}) {
    CAPTURE(part, error.what());
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

TEST_CASE("a file that is no SQLite file is refused untouched") {
  const TempFolder scratch;
  write_bytes((scratch / "a.db").string(),
              "These are the notes of a Tuesday.\n" + std::string(500, 'x'));
  check_refused((scratch / "a.db").string(), ExitCode::kBadInput, "not a SQLite file");
  write_bytes((scratch / "b.db").string(), "short");
  check_refused((scratch / "b.db").string(), ExitCode::kBadInput, "not a SQLite file");
}

TEST_CASE("another program's SQLite file is refused untouched") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  {
    Database other(path, Access::kCreate);
    other.execute("CREATE TABLE bookmarks (url TEXT); PRAGMA application_id = 7;");
  }
  check_refused(path, ExitCode::kBadInput, "another program");
}

TEST_CASE("a truncated database is refused untouched, wherever it was cut") {
  const TempFolder scratch;
  const std::string whole = file_bytes(make_database(scratch, "whole.db", 40));
  for (const double part : {0.0001, 0.3, 0.7, 0.99}) {
    const std::string path = (scratch / "cut.db").string();
    write_bytes(
        path, whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    check_refused(path, ExitCode::kBadInput, part < 0.001 ? "not a SQLite file" : "damaged");
  }
}

TEST_CASE("a database with overwritten pages is refused untouched") {
  const TempFolder scratch;
  const std::string path = make_database(scratch, "a.db", 40);
  std::string bytes = file_bytes(path);
  for (std::size_t at = 8192; at + 4096 <= bytes.size(); at += 8192) {
    bytes.replace(at, 4096, std::string(4096, '\xa5'));
  }
  write_bytes(path, bytes);
  check_refused(path, ExitCode::kBadInput, "damaged");
}

TEST_CASE("a newer schema is refused with both versions named, whatever it says of its readers") {
  const TempFolder scratch;
  const std::string path = make_database(scratch, "a.db", 3);
  Database(path, Access::kWrite)
      .execute(
          "PRAGMA user_version = 97; UPDATE meta SET value = '95' WHERE key = "
          "'min_reader_version';");
  check_refused(path, ExitCode::kBadInput, "97");
  check_refused(path, ExitCode::kBadInput, std::to_string(schema_version()));
  Database(path, Access::kWrite)
      .execute("UPDATE meta SET value = '1' WHERE key = 'min_reader_version'");
  check_refused(path, ExitCode::kBadInput, "97");
  const std::string before = file_bytes(path);
  CHECK(error_of([&] { Store::open(path, OpenMode::kCreateOrOpen); }).code() ==
        ExitCode::kBadInput);
  CHECK(file_bytes(path) == before);
}

TEST_CASE("a folder that does not exist or is a file's place is exit code 4 or 3, and no crash") {
  const TempFolder scratch;
  const Error nowhere =
      error_of([&] { Store::open((scratch / "no/such/a.db").string(), OpenMode::kCreateOrOpen); });
  CHECK(nowhere.code() == ExitCode::kEnvironment);
  CHECK(is_one_sentence(nowhere.what()));
  const Error folder =
      error_of([&] { Store::open(scratch.path().string(), OpenMode::kCreateOrOpen); });
  CHECK(folder.code() == ExitCode::kBadInput);
}

TEST_CASE("an empty name is refused, and a name that SQLite reads otherwise is a file like any") {
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kCreateOrOpen}) {
    const Error error = error_of([&] { Store::open("", mode); });
    CHECK(error.code() == ExitCode::kUsage);
    CHECK(is_one_sentence(error.what()));
  }
  const TempFolder scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());
  for (const char* name : {":memory:", "file:a.db?mode=memory"}) {
    CHECK_NOTHROW(Store::open(name, OpenMode::kCreateOrOpen));
    CHECK(fs::is_regular_file(scratch / name));
  }
  fs::current_path(before);
}

TEST_CASE("memory that ends is no fault of the file") {
  const TempFolder scratch;
  const std::string path = make_database(scratch, "a.db", 2);
  const pid_t child = ::fork();
  if (child == 0) {  // the limit is the whole program's, and stays
    const std::unique_ptr<Database> database = open_for_reading(path);
    const Error error = error_of([&] {
      database->execute("PRAGMA hard_heap_limit = 1");
      database->text("SELECT hex(zeroblob(1000000)) FROM sqlite_master");
    });
    const bool right = error.code() == ExitCode::kEnvironment &&
                       std::string(error.what()) == "out of memory for " + path;
    ::_exit(right ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a read-only folder can be read from and is exit code 4 for writers") {
  const TempFolder scratch;
  const std::string path = make_database(scratch, "a.db", 2);
  const fs::path folder = fs::path(path).parent_path();
  constexpr fs::perms kRead =
      fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  constexpr fs::perms kEnter =
      fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  fs::permissions(path, kRead);
  fs::permissions(folder, kRead | kEnter);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;  // root may write everywhere
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
      ::_exit(1);
    }
    const std::size_t read = Store::open(path, OpenMode::kReadOnly).points({}).size();
    const Error old_file = error_of(
        [&] { Store::open(path, OpenMode::kCreateOrOpen).begin_run(sample_run("run-z")); });
    const Error new_file =
        error_of([&] { Store::open((folder / "new.db").string(), OpenMode::kCreateOrOpen); });
    const bool right = read == 2 && old_file.code() == ExitCode::kEnvironment &&
                       new_file.code() == ExitCode::kEnvironment &&
                       is_one_sentence(old_file.what()) && is_one_sentence(new_file.what());
    ::_exit(right ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  fs::permissions(folder, fs::perms::owner_all);
  CHECK(!fs::exists(folder / "new.db"));
}

TEST_CASE("a merge refuses bad sources and leaves the target as it was") {
  const TempFolder scratch;
  const std::string target = make_database(scratch, "target.db", 3);
  const std::string good = make_database(scratch, "good.db", 5);
  const std::string before = file_bytes(target);
  const std::string foreign = (scratch / "foreign.db").string();
  write_bytes(foreign, std::string(5000, 'q'));
  const std::string corrupt = make_database(scratch, "corrupt.db", 30);
  std::string bytes = file_bytes(corrupt);
  bytes.replace(bytes.size() / 2 / 4096 * 4096, 4096, std::string(4096, '\xa5'));
  write_bytes(corrupt, bytes);
  const std::string newer = make_database(scratch, "newer.db", 2);
  const std::string next = std::to_string(schema_version() + 1);
  Database(newer, Access::kWrite)
      .execute("PRAGMA user_version = " + next + "; UPDATE meta SET value = '" + next +
               "' WHERE key = 'min_reader_version'");
  for (const std::string& bad : {foreign, corrupt, newer, (scratch / "missing.db").string()}) {
    const Error error = error_of([&] { merge_into(target, {good, bad}); });
    CAPTURE(error.what());
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(std::string(error.what()).find(bad) != std::string::npos);
    CHECK(is_one_sentence(error.what()));
    CHECK(file_bytes(target) == before);
  }
  CHECK(error_of([&] { merge_into(target, {target}); }).code() == ExitCode::kUsage);
}
