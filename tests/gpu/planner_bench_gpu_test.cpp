// A planner table played on a GPU: every run is replayed from recordings, none of which is made
// while anything is timed, and the texts are those of plain decoding.
#include <catch2/catch.hpp>
#include <cstdio>

#include "engine/measure/bench/planner_bench.h"
#include "profiler/gpu_timer.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_table.h"

namespace versieve::engine {
namespace {

TEST_CASE("what is timed of a played table is recorded beforehand", "[planner]") {
  if (const std::string missing = profiler::gpu_missing_because(); !missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return;
  }
  const std::filesystem::path demo = VERSIEVE_SOURCE_DIR "/engine/demo";
  PlannerBenchOptions options;
  options.model = demo / "nsa";
  options.prompts = {demo / "prompts/test/code-1000-3.txt", demo / "prompts/test/chat-400-0.txt"};
  options.max_new_tokens = 128;
  options.rounds = 2;
  options.backend = "cuda";
  for (const double temperature : {0.0, 0.7}) {
    options.temperature = temperature;
    const PlannerBench bench =
        bench_planner(test::tiny_table(), options, [](const PlannerProgress&) {});
    CAPTURE(temperature, planner_bench_text(bench));
    CHECK(bench.failure() == "");
    CHECK(bench.all_recorded);
    CHECK(bench.record_s == 0.0);
    CHECK(bench.cells.size() == 9);  // three buckets, three classes of this target
    REQUIRE(bench.guard_us());
    CHECK(bench.guard_us()->median < 20.0);
  }
}

}  // namespace
}  // namespace versieve::engine
