// The peer: recorded cells, what its script may print, and another program's output.
#include "engine/measure/bench/public_path.h"

#include <catch2/catch.hpp>

#include "engine/io/child_program.h"

using namespace versieve::engine;

TEST_CASE("the recorded public path has its twelve cells, parts below the sum") {
  int cells = 0;
  for (const std::int64_t context : {1024, 4096, 16384, 65536}) {
    for (const std::int64_t queries : {1, 4, 16, 64, 128}) {
      const auto found = recorded_public_path(context, queries);
      if (found) {
        cells += 1;
        const double parts = found->routing_us + found->selection_us + found->window_us;
        CHECK(parts <= found->busy_us);
        CHECK(parts > 0.85 * found->busy_us);  // the gates are the rest
      }
    }
  }
  CHECK(cells == 12);
  CHECK(recorded_public_path(65536, 64)->busy_us == 2029.0);
  CHECK(!recorded_public_path(65536, 63));
}

TEST_CASE("a script's cells are read from its last line") {
  const PublicPathRun run = parse_public_path(
      "a warning\n{\"device\": \"NVIDIA H200\", \"torch\": \"2.11\", \"triton\": \"3.6\", "
      "\"cells\": [{\"n\": 16, \"context\": 4096, \"busy_us\": 223.5, \"routing_us\": 106, "
      "\"selection_us\": 15, \"window_us\": 93}]}\n",
      0);
  CHECK(run.missing_because.empty());
  CHECK(run.versions == "torch 2.11, triton 3.6");
  REQUIRE(run.cells.size() == 1);
  CHECK(run.cells[0].queries == 16);
  CHECK(run.cells[0].context_len == 4096);
  CHECK(run.cells[0].busy_us == 223.5);
}

TEST_CASE("whatever goes wrong with the peer is one sentence") {
  CHECK(parse_public_path("", 127).missing_because.find("python3 was not found") == 0);
  CHECK(parse_public_path("{\"error\": \"python3 has no torch\"}", 1).missing_because ==
        "the public operators were not run: python3 has no torch");
  for (const char* printed : {"", "\n", "Traceback", "{", "[1]", "{}"}) {
    const PublicPathRun run = parse_public_path(printed, 1);
    CAPTURE(printed, run.missing_because);
    CHECK(run.missing_because.find("exit code 1") != std::string::npos);
    CHECK(run.cells.empty());
  }
  CHECK(run_public_path("/no/such/folder", "x", {{4096, 4}}).missing_because.find("no folder") !=
        std::string::npos);
  CHECK(run_public_path("/tmp", "/no/script.py", {{4096, 4}}).missing_because.find("script") !=
        std::string::npos);
}

TEST_CASE("another program's output and exit code come back") {
  const ChildResult done = run_child({"sh", "-c", "echo one; echo \"$0\"; exit 3", "two words"});
  CHECK(done.output == "one\ntwo words\n");
  CHECK(done.exit_code == 3);
  CHECK(run_child({"no-such-program-anywhere"}).exit_code == 127);
  CHECK(run_child({"sh", "-c", "kill -9 $$"}).exit_code == 128 + 9);
}
