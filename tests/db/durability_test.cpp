// Two writers at once, a writer killed at any moment, a disk that fills up: no committed point is
// lost, and the file stays whole.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <random>

#include "db/open.h"
#include "db/schema.h"
#include "db/store.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"
#include "tests/support/file_locks.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

namespace {

// A child that adds `count` points with what their steps did from `first` on, and reports each that
// was stored.
pid_t start_writer(const std::string& path, const std::string& uuid, int first, int count,
                   int report) {
  const pid_t child = ::fork();
  if (child != 0) {
    return child;
  }
  try {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run(uuid));
    for (int number = first; number < first + count; ++number) {
      store.add_point(run_id, sample_point(number), sample_detail(number));
      if (::write(report, &number, sizeof number) != sizeof number) {
        ::_exit(1);
      }
    }
    store.finish_run(run_id, RunStatus::kComplete);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "writer: %s\n", error.what());
    ::_exit(2);
  }
  ::_exit(0);
}

std::vector<int> drain(int reports) {
  std::vector<int> numbers;
  int number = 0;
  while (::read(reports, &number, sizeof number) == sizeof number) {
    numbers.push_back(number);
  }
  return numbers;
}

int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

namespace {

void kill_writers(int kills) {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  constexpr int kPointsEach = 1000;
  std::mt19937 random(20261120);
  std::uniform_int_distribution<int> microseconds(0, 60'000);
  int killed = 0;
  int stored = 0;
  for (int round = 0; round < kills; ++round) {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    const std::string uuid = "run-" + std::to_string(round);
    const pid_t child = start_writer(path, uuid, round * kPointsEach, kPointsEach, pipe_ends[1]);
    ::close(pipe_ends[1]);
    ::usleep(static_cast<useconds_t>(microseconds(random)));
    ::kill(child, SIGKILL);
    killed += WIFSIGNALED(wait_for(child)) ? 1 : 0;
    const std::vector<int> reported = drain(pipe_ends[0]);
    ::close(pipe_ends[0]);
    stored += static_cast<int>(reported.size());

    const Store store = Store::open(path, OpenMode::kCreateOrOpen);
    check_pages(*open_for_reading(path));
    const std::optional<StoredRun> run = store.run(uuid);
    CHECK((reported.empty() || run.has_value()));
    if (run) {
      const std::vector<PointMeasurement> points = store.points({.run_id = run->id});
      CHECK(run->record.status == RunStatus::kAborted);  // its writer is gone
      REQUIRE(points.size() >= reported.size());
      REQUIRE(points.size() <= reported.size() + 1);  // stored, killed before it could say so
      for (std::size_t i = 0; i < reported.size(); ++i) {
        CHECK(describe(points[i]) == describe(sample_point(reported[i])));
      }
      for (const PointOverview& point : store.overview({.run_id = run->id}).points) {
        CHECK(point.is_traced);  // a point without its trace would never get one by resuming
      }
    }
  }
  CHECK(killed >= kills / 2);  // the kills really fell among the writes
  CHECK(stored > 0);
}

}  // namespace

TEST_CASE(
    "a writer killed at random moments loses no point whose add_point returned, nor a trace "
    "alone") {
  kill_writers(20);
}

TEST_CASE("so do two hundred kills", "[.volume]") {
  kill_writers(200);
}

TEST_CASE("two processes that create and write one file at once both finish") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  constexpr int kPoints = 60;
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t first = start_writer(path, "run-a", 0, kPoints, pipe_ends[1]);
  const pid_t second = start_writer(path, "run-b", 1000, kPoints, pipe_ends[1]);
  ::close(pipe_ends[1]);
  CHECK(drain(pipe_ends[0]).size() == 2 * kPoints);
  ::close(pipe_ends[0]);
  CHECK(wait_for(first) == 0);
  CHECK(wait_for(second) == 0);
  const Store store = Store::open(path, OpenMode::kReadOnly);
  REQUIRE(store.runs().size() == 2);
  for (const StoredRun& run : store.runs()) {
    CHECK(run.record.status == RunStatus::kComplete);
    CHECK(run.ok_count == kPoints);
  }
  CHECK(!std::filesystem::exists(path + "-wal"));  // one plain file is left
}

TEST_CASE("a run whose writer still lives stays running") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  Store writer = Store::open(path, OpenMode::kCreateOrOpen);
  writer.begin_run(sample_run("run-a"));
  const Store other = Store::open(path, OpenMode::kCreateOrOpen);
  CHECK(other.run("run-a")->record.status == RunStatus::kRunning);
}

TEST_CASE("a reader sees committed points while a writer goes on") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  Store writer = Store::open(path, OpenMode::kCreateOrOpen);
  const std::int64_t run_id = writer.begin_run(sample_run("run-a"));
  const Store reader = Store::open(path, OpenMode::kReadOnly);
  for (int number = 0; number < 3; ++number) {
    writer.add_point(run_id, sample_point(number));
    CHECK(reader.points({}).size() == static_cast<std::size_t>(number) + 1);
  }
}

// A document that is looked at again while a job of the same program adds points to it.
TEST_CASE("looking at a file drops none of the locks that this process has on it") {
  const TempFolder folder;
  const std::string path = (folder / "m.db").string();
  Store writer = Store::open(path, OpenMode::kCreateOrOpen);
  writer.begin_run(sample_run("run"));
  REQUIRE(is_locked_by_this_process(path));
  CHECK(is_database(path));
  check_header(path);
  Store::open(path, OpenMode::kReadOnly).points({});
  std::size_t bytes = 0;
  read_bytes(path, [&](std::string_view piece) {
    bytes += piece.size();
    return true;
  });
  CHECK(bytes == std::filesystem::file_size(path));
  CHECK(is_locked_by_this_process(path));
}

TEST_CASE("a database is told by its first bytes, whatever else lies there") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  CHECK_FALSE(is_database(path));
  CHECK_FALSE(is_database(folder.path().string()));
  for (const char* text : {"", "{}", "SQLite format", "SQLite format 3 in a text of its own"}) {
    CAPTURE(text);
    write_bytes(path, text);
    CHECK_FALSE(is_database(path));
  }
  write_bytes(path, std::string("SQLite format 3\0 and no more", 28));
  CHECK(is_database(path));
}

TEST_CASE("a full disk is one sentence with exit code 4 and loses nothing stored before") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4 << 20, 4 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int verdict = 1;
    try {
      Store store = Store::open(path, OpenMode::kCreateOrOpen);
      const std::int64_t run_id = store.begin_run(sample_run("run-a"));
      for (int number = 0; number < 100'000; ++number) {
        store.add_point(run_id, sample_point(number));
        if (::write(pipe_ends[1], &number, sizeof number) != sizeof number) {
          ::_exit(2);
        }
      }
    } catch (const Error& error) {
      const std::string sentence = error.what();
      const bool is_said = sentence.find("a.db: cannot be written: ") != std::string::npos &&
                           sentence.find("(a.db-wal, where it stays") != std::string::npos;
      verdict =
          error.code() == ExitCode::kEnvironment && is_one_sentence(sentence) && is_said ? 0 : 3;
    }
    ::_exit(verdict);
  }
  ::close(pipe_ends[1]);
  const std::vector<int> reported = drain(pipe_ends[0]);
  ::close(pipe_ends[0]);
  CHECK(wait_for(child) == 0);
  REQUIRE(reported.size() > 10);
  const Store store = Store::open(path, OpenMode::kCreateOrOpen);
  CHECK(store.points({}).size() == reported.size());
  check_pages(*open_for_reading(path));
}

// What stays beside the file is a part of it, and the next writer leaves one plain file again.
TEST_CASE("what a full disk leaves beside a file is moved into it by the next writer") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  std::string sentence;
  int stored = 0;
  const rlimit old = [] {
    rlimit limit = {};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("run-a"));
    rlimit small = old;
    small.rlim_cur = std::filesystem::file_size(path + "-wal") + (3 << 20);
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      for (;; ++stored) {
        store.add_point(run_id, sample_point(stored));
      }
    } catch (const Error& error) {
      sentence = error.what();
    }
    small.rlim_cur = std::filesystem::file_size(path);  // it cannot take what the log holds
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  CHECK(std::filesystem::exists(path + "-wal"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  CAPTURE(sentence);
  CHECK(sentence.find("a.db: cannot be written: ") != std::string::npos);
  CHECK(sentence.find("nothing stored before is lost (a.db-wal, where it stays") !=
        std::string::npos);
  CHECK(stored > 0);
  CHECK(Store::open(path, OpenMode::kCreateOrOpen).points({}).size() ==
        static_cast<std::size_t>(stored));
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
  CHECK_FALSE(std::filesystem::exists(path + "-shm"));
}
