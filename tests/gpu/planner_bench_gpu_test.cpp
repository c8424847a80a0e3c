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

TEST_CASE("a geometry is played by recorded steps whose yields are given", "[planner]") {
  if (const std::string missing = profiler::gpu_missing_because(); !missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return;
  }
  PlanTable table = test::tiny_table();
  table.buckets = {{0, 2048}, {2048, 4096}, {4096, 8192}};
  PlannerBenchOptions options;
  options.model = "demo";
  options.synthetic = law_play(table, 5);
  options.classes = {PrecisionClass::kStrict};
  options.buckets = {table.buckets[0]};
  options.prompts_per_bucket = 6;
  options.max_new_tokens = 128;
  options.rounds = 2;
  options.backend = "cuda";
  const PlannerBench bench = bench_planner(table, options, [](const PlannerProgress&) {});
  CAPTURE(planner_bench_text(bench));
  CHECK(bench.all_recorded);
  CHECK(bench.record_s == 0.0);
  REQUIRE(bench.cells.size() == 1);
  CHECK(bench.cells[0].prompts == 6);
  // 2.0 tokens a step are expected of each tuple; 6 texts of some 64 steps.
  CHECK(bench.cells[0].row(Contender::kStatic).tokens_a_step == Approx(2.0).margin(0.35));
  CHECK(bench.cells[0].row(Contender::kBase).tokens_a_step == Approx(2.0).margin(0.35));
}

}  // namespace
}  // namespace versieve::engine
