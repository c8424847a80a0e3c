// Does a test program's folder go with it, and what a killed one left with the next?
#include "tests/support/own_folder.h"

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_folder.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// TMPDIR as it was, at the end of the scope.
class Elsewhere {
 public:
  explicit Elsewhere(const fs::path& folder) : before_(::getenv("TMPDIR")) {
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  ~Elsewhere() { ::setenv("TMPDIR", before_.c_str(), 1); }

 private:
  std::string before_;
};

// A program that has a folder of its own with a file in it, once `made` says so.
pid_t begin_program(int made) {
  const pid_t program = ::fork();
  if (program == 0) {
    const OwnFolder own;
    std::ofstream(own.path() / "large") << "left";
    static_cast<void>(!::write(made, "!", 1));
    ::pause();
    ::_exit(0);
  }
  return program;
}

}  // namespace

TEST_CASE("a program's folder is where temporary files go, and goes with it") {
  const TempFolder parent;
  const Elsewhere elsewhere(parent.path());
  {
    const OwnFolder own;
    CHECK(fs::temp_directory_path() == own.path());
    std::ofstream(own.path() / "file") << "text";
    CHECK(own.path().parent_path() == parent.path());
  }
  CHECK(fs::is_empty(parent.path()));
}

TEST_CASE("what a killed program left goes when another begins, what a running one has stays") {
  const TempFolder parent;
  const Elsewhere elsewhere(parent.path());
  int made[2] = {};
  REQUIRE(::pipe(made) == 0);
  const pid_t program = begin_program(made[1]);
  char sign = 0;
  REQUIRE(::read(made[0], &sign, 1) == 1);
  const auto folders = [&] {
    return std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator());
  };
  CHECK(folders() == 1);
  {
    const OwnFolder own;
    CHECK(folders() == 2);
    ::setenv("TMPDIR", parent.path().c_str(), 1);
  }
  CHECK(folders() == 1);
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  CHECK(folders() == 1);
  {
    const OwnFolder own;
    CHECK(folders() == 1);  // its own
  }
  CHECK(fs::is_empty(parent.path()));
}

TEST_CASE("a folder that cannot be made is a sentence") {
  const TempFolder parent;
  std::ofstream(parent / "file") << "no folder";
  const Elsewhere elsewhere(parent.path() / "none");
  CHECK_THROWS(OwnFolder());
}
