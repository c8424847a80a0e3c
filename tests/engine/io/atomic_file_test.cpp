// An output file appears whole or not at all.
#include "engine/io/atomic_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/support/errors.h"
#include "tests/support/file_locks.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Larger files fail to be written, as on a full disk. Returns the limit before, to be set again.
rlimit limit_files_to(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &small);
  return old;
}

}  // namespace

TEST_CASE("a loop of links is no place to write, and stays") {
  const test::TempFolder folder;
  fs::create_symlink(folder / "b", folder / "a");
  fs::create_symlink(folder / "a", folder / "b");
  CHECK_THROWS_AS(engine::write_file_atomically(folder / "a", "text"), Error);
  CHECK(fs::is_symlink(folder / "a"));
  CHECK(fs::is_symlink(folder / "b"));
}

TEST_CASE("whether a file can be written is found out without a trace") {
  const test::TempFolder folder;
  engine::require_writable(folder / "new");
  engine::require_writable("");
  engine::require_writable("/dev/null");
  CHECK(fs::is_empty(folder.path()));
  CHECK_THROWS_AS(engine::require_writable(folder / "none" / "new"), Error);
  CHECK_THROWS_AS(engine::require_writable(folder.path()), Error);
}

// As on a full disk.
TEST_CASE("that a file of some size cannot be written is found out without a trace") {
  const TempFolder folder;
  const rlimit old = limit_files_to(4096);
  CHECK_THROWS_WITH(engine::require_writable(folder / "new"),
                    Catch::Contains("cannot be written: File too large"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a committed file has its text and leaves nothing beside it") {
  const TempFolder folder;
  write_file_atomically(folder / "out.txt", "first");
  write_file_atomically(folder / "out.txt", "second");
  CHECK(text_in(folder / "out.txt") == "second");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that is not committed leaves the old one untouched") {
  const TempFolder folder;
  write_file_atomically(folder / "out.txt", "old");
  {
    AtomicFile file(folder / "out.txt");
    file.write("half");
  }
  CHECK(text_in(folder / "out.txt") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a symbolic link to a file that is not there yet makes that file") {
  const TempFolder folder;
  fs::create_directory(folder / "elsewhere");
  fs::create_symlink("elsewhere/new.txt", folder / "first.txt");
  fs::create_symlink(folder / "first.txt", folder / "second.txt");
  write_file_atomically(folder / "second.txt", "new");
  CHECK(fs::is_symlink(folder / "second.txt"));
  CHECK(fs::is_symlink(folder / "first.txt"));
  CHECK(text_in(folder / "elsewhere/new.txt") == "new");
  // Into a folder that is not there: refused, and the link stays.
  fs::create_symlink("nowhere/new.txt", folder / "third.txt");
  CHECK_THROWS_AS(write_file_atomically(folder / "third.txt", "new"), Error);
  CHECK(fs::is_symlink(folder / "third.txt"));
}

TEST_CASE("a symbolic link to the output survives") {
  const TempFolder folder;
  write_file_atomically(folder / "real.txt", "old");
  fs::create_symlink("real.txt", folder / "link.txt");
  write_file_atomically(folder / "link.txt", "new");
  CHECK(fs::is_symlink(folder / "link.txt"));
  CHECK(text_in(folder / "real.txt") == "new");
}

TEST_CASE("a folder that does not exist is one sentence with the environment's code") {
  const TempFolder folder;
  const Error error = error_of([&] { write_file_atomically(folder / "no/out.txt", "x"); });
  CHECK(error.code() == ExitCode::kEnvironment);
  CHECK(contains(error.what(), "no/out.txt: cannot be written: No such file"));
  CHECK_THROWS_AS(write_file_atomically(folder.path(), "x"), Error);
}

TEST_CASE("a device is written directly and stays a device") {
  write_file_atomically("/dev/null", "gone");
  const Error error = error_of([&] { write_file_atomically("/dev/full", "x"); });
  CHECK(error.code() == ExitCode::kEnvironment);
  CHECK(contains(error.what(), "No space left"));
  struct stat status = {};
  REQUIRE(::stat("/dev/full", &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
}

TEST_CASE("a pipe that nobody reads and a socket are refused by what they are") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto refusal = [&](const char* name) {
    const Error error = error_of([&] { write_file_atomically(folder / name, "x"); });
    CHECK(error.code() == ExitCode::kEnvironment);
    return std::string(error.what());
  };
  CHECK(contains(refusal("pipe"), "it is a pipe, and nobody reads it"));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "socket";
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(contains(refusal("socket"), "it is a socket"));
  ::close(server);
}

TEST_CASE("a file-size limit stops a large output without a trace") {
  const TempFolder folder;
  const rlimit old = limit_files_to(4096);
  const std::string text(10000, 'x');
  std::string sentence;
  try {
    write_file_atomically(folder / "out.txt", text);
  } catch (const Error& error) {
    sentence = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK(contains(sentence, "File too large"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("no output takes a database's place, whoever writes it") {
  const test::TempFolder folder;
  const std::string bytes = std::string("SQLite format 3\0", 16) + std::string(84, 'x');
  std::ofstream(folder / "m.db", std::ios::binary) << bytes;
  fs::create_symlink(folder / "m.db", folder / "link.json");
  for (const char* name : {"m.db", "link.json"}) {
    const Error error = test::error_of([&] { write_file_atomically(folder / name, "{}"); });
    CHECK(error.code() == ExitCode::kUsage);
    CHECK(std::string(error.what()).find("is a database: name another file") != std::string::npos);
    CHECK(test::error_of([&] { require_writable(folder / name); }).code() == ExitCode::kUsage);
    CHECK_NOTHROW(require_room(folder / name));  // points are added to it
  }
  // Nor that of its log, which holds what was committed last.
  for (const char* part : {"m.db-wal", "m.db-shm", "m.db-journal"}) {
    const Error error = test::error_of([&] { write_file_atomically(folder / part, "{}"); });
    CHECK(error.code() == ExitCode::kUsage);
    CHECK(std::string(error.what()).find("a part of the database 'm.db'") != std::string::npos);
  }
  CHECK_NOTHROW(write_file_atomically(folder / "notes-wal", "{}"));  // of no database
  std::ifstream kept(folder / "m.db", std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(kept), {}) == bytes);
}

TEST_CASE("looking whether a file is a database drops none of this process's locks on it") {
  const test::TempFolder folder;
  const std::string path = folder / "m.db";
  std::ofstream(path, std::ios::binary) << std::string("SQLite format 3\0", 16);
  const int held = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  REQUIRE(::fcntl(held, F_SETLK, &lock) == 0);
  REQUIRE(is_locked_by_this_process(path));
  CHECK(test::error_of([&] { write_file_atomically(path, "{}"); }).code() == ExitCode::kUsage);
  CHECK(test::error_of([&] { write_file_atomically(path + "-wal", "{}"); }).code() ==
        ExitCode::kUsage);
  require_room(path);
  CHECK(is_locked_by_this_process(path));
  ::close(held);
  CHECK_FALSE(is_locked_by_this_process(path));
}

// As the shell's `3>>kept` opens it: what stands there stays, and what comes after goes behind.
TEST_CASE("a file that is open already is written where it is open, and not replaced") {
  const test::TempFolder folder;
  const std::string kept = folder / "kept";
  const int held = ::open(kept.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(::write(held, "before\n", 7) == 7);
  const std::string name = "/dev/fd/" + std::to_string(held);
  fs::create_symlink(name, folder / "link");
  for (const std::string& path : {name, std::string(folder / "link")}) {
    require_writable(path);
    write_file_atomically(path, "text\n");
  }
  REQUIRE(::write(held, "after\n", 6) == 6);
  ::close(held);
  CHECK(text_in(kept) == "before\ntext\ntext\nafter\n");
  CHECK(files_in(folder.path()) == 2);
  CHECK_FALSE(is_standard_output(name));
  CHECK(is_standard_output("/dev/stdout"));
  CHECK(is_standard_output("/proc/self/fd/1"));
  CHECK_FALSE(is_standard_output("/dev/stderr"));
  CHECK_FALSE(is_standard_output(folder / "no/file"));
  // One that is no longer open, and a database that text would be added to.
  CHECK(error_of([&] { write_file_atomically(name, "x"); }).code() == ExitCode::kEnvironment);
  std::ofstream(kept, std::ios::binary) << std::string("SQLite format 3\0", 16);
  const int database = ::open(kept.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  CHECK(error_of([&] {
          write_file_atomically("/dev/fd/" + std::to_string(database), "x");
        }).code() == ExitCode::kUsage);
  ::close(database);
}

TEST_CASE("one file is not named for two outputs, there or not yet") {
  const test::TempFolder folder;
  CHECK(test::error_of([&] { require_two_files(folder / "a", folder / "./a"); }).code() ==
        ExitCode::kUsage);
  CHECK_NOTHROW(require_two_files(folder / "a", folder / "b"));
  CHECK_NOTHROW(require_two_files("", ""));
  CHECK_NOTHROW(require_two_files("/dev/null", "/dev/null"));
}

TEST_CASE("an output takes the place of none of the files that it is made of") {
  const test::TempFolder folder;
  std::ofstream(folder / "a") << "text";
  const std::vector<fs::path> in = {folder / "gone", folder / "a"};
  CHECK(test::error_of([&] { require_other_files(in, folder / "a"); }).code() == ExitCode::kUsage);
  CHECK_NOTHROW(require_other_files(in, folder / "b"));
}
