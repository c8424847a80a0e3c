// Whole steps: bytes by hand, rows on the CPU.
#include "engine/measure/bench/step_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/measure/sweep/step_point.h"
#include "model/launches/draft_tree.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("a plain step reads weights, compressed cache, blocks and window once") {
  const Strategy ar = Strategy::parse("nsa/ar");
  const double weights =
      2.0 *
      (16.0 * (2048.0 * (2048 + 1024 + 96) + 2048.0 * 2048 + 3.0 * 2048 * 8192) + 128256.0 * 2048);
  // Layers, tokens, 2 G d e. The sixteenth block is the newest, which holds no committed token yet,
  // and the block before it is the window's too.
  const double cache = 16.0 * (1023 + 15 * 64 + 512 - 64) * 2048;
  CHECK(step_bytes(ar, "nsa-1b", 16384, 2) == Approx(weights + cache).epsilon(0.001));
  // A tree reads the draft's weights beside them, once a pass: its head alone is as large as the
  // target's.
  const DraftShape draft = draft_shape_for(named_llm_shape("nsa-1b"));
  const double passes = draft_passes({.depth = 6, .width = 8, .nodes = 64}).passes;
  const double drafted = passes * 2.0 * static_cast<double>(draft.parameter_count());
  const double tree = step_bytes(Strategy::parse("nsa/d6k8n64/bfs/c1/F*"), "nsa-1b", 16384, 2);
  CHECK(tree > weights + cache + 0.8 * drafted);
  CHECK(tree < 1.1 * (weights + cache + drafted));
  // A head of fewer rows is that much less to read at each of the six levels.
  const double some =
      step_bytes(Strategy::parse("nsa/d6k8n64/bfs/c1/F*"), "nsa-1b:v32000", 16384, 2);
  CHECK(tree - some == Approx(6.0 * (128256 - 32000) * 2048 * 2).epsilon(0.03));
}

TEST_CASE("steps are timed on the CPU and compared with plain decoding") {
  StepBenchOptions options;
  options.geometry = "demo";
  options.contexts = {300};
  options.strategies = {"nsa/ar", "nsa/d2k2n4/bfs/c1/F*", "nsa/ar/bfs/c1/F*/topk=gvr"};
  options.samples = 6;
  options.on_gpu = false;
  int rows = 0;
  const StepBench bench = bench_steps(options, [&](const StepRow&) { rows += 1; });
  REQUIRE(bench.rows.size() == 3);
  CHECK(rows == 3);
  const StepRow& ar = bench.rows[0];
  const StepRow& tree = bench.rows[1];
  CHECK(ar.time.count == 6);
  CHECK(*ar.over_ar == 1.0);
  CHECK(*tree.over_ar == Approx(tree.time.median / ar.time.median));
  for (const StepRow* row : {&ar, &tree}) {
    CHECK(row->verification.count == 6);
    CHECK(row->verification.median > 0.0);
    CHECK(row->verification.median_low <= row->verification.median);
    CHECK(row->verification.median <= row->verification.median_high);
  }
  CHECK(*tree.verification_over_ar == Approx(tree.verification.median / ar.verification.median));
  CHECK(ar.tokens == 1.0);
  CHECK(tree.tokens == 3.0);  // two levels and the root
  CHECK(!ar.bound_us);        // nobody measured this CPU's reads
  CHECK(bench.rows[2].refused_because.find("gvr") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(step_bench_json(bench));
  CHECK(json["rows"][0]["time_us"]["median"] == ar.time.median);
  CHECK(json["rows"][1]["verification_us"]["median"] == tree.verification.median);
  CHECK(json["rows"][1]["tokens_per_second"] == Approx(3e6 / tree.time.median));
  CHECK(json["rows"][2]["refused_because"].get<std::string>() == bench.rows[2].refused_because);
  CHECK(step_bench_text(bench).find("gvr") != std::string::npos);
  CHECK(json["cold_reads"].empty());
  StepBench of_gpu = bench;
  of_gpu.cold_reads = {{1, 1.71}, {4096, 925}};
  CHECK(nlohmann::json::parse(step_bench_json(of_gpu))["cold_reads"][0]["us"] == 1.71);
  CHECK(step_bench_text(of_gpu).find("1 1.71 | 4096 925; 4.64 TB/s") != std::string::npos);
}

TEST_CASE("verification is timed in both launch modes, between whole steps") {
  SweepPlan plan;
  plan.timing.stop.fixed_samples = 6;
  plan.trace_repetitions = 0;
  plan.counter_repetitions = 0;
  const std::unique_ptr<Instrument> instrument = make_host_instrument();
  const std::unique_ptr<StepPointRunner> runner =
      make_step_runner<float>(plan, *instrument, false, 1);
  PointKey key{.workload = WorkloadKind::kStep,
               .model = "demo",
               .strategy = "nsa/d2k2n4/dfs/c1/F*",
               .dtype = Dtype::kF32,
               .backend = Backend::kCpu,
               .cache_state = CacheState::kAsIs,
               .context_len = 300,
               .num_queries = 4};
  for (const LaunchMode launch : {LaunchMode::kGraph, LaunchMode::kStream}) {
    key.launch = launch;
    const PointMeasurement alone = runner->run_verification(key);
    CHECK(alone.time_ns.size() == 6);
    CHECK(alone.ranges.empty());
    CHECK(runner->run(key).time_ns.size() == 6);
  }
  key.strategy = "nsa/ar/bfs/c1/F*/topk=gvr";
  key.num_queries = 1;
  CHECK(runner->run_verification(key).status == PointStatus::kRefused);
}

TEST_CASE("what no step can be is a usage error") {
  const auto refused = [](StepBenchOptions options) {
    options.on_gpu = false;
    try {
      bench_steps(options, [](const StepRow&) {});
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kUsage);
    }
  };
  refused({.samples = 1});
  refused({.contexts = {4}});
  refused({.strategies = {"nsa/fast"}});
  refused({.geometry = "nsa-70b"});
}
