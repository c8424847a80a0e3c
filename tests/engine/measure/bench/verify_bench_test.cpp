// One layer's bench: the floor's bytes by hand, a whole bench on the CPU, its JSON.
#include "engine/measure/bench/verify_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "model/launches/nsa_shape.h"
#include "model/words/draft_tree.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

VerifyBenchOptions tiny() {
  VerifyBenchOptions options;
  options.geometry = "demo";
  options.queries = {1, 5};
  options.contexts = {700};
  options.overlaps = {0.9};
  options.groups = {"c1", "c8a"};
  options.samples = 6;
  options.on_gpu = false;
  return options;
}

}  // namespace

TEST_CASE("a layer must fetch compressed cache, selected blocks and window counted once") {
  const traffic::NsaVerifyShape shape{.nsa = {},
                                      .num_heads = 8,
                                      .num_kv_heads = 2,
                                      .head_dim = 64,
                                      .context_len = 4096,
                                      .num_queries = 2,
                                      .element_bytes = 2};
  // Both heads: blocks 0, 5, 63 and the draft's own 64. The window's 511 tokens lie in blocks 56
  // (63 of its tokens) to 63.
  std::vector<std::int32_t> selected;
  for (int row = 0; row < 4; ++row) {
    std::vector<std::int32_t> blocks = {0, 5, 63, 64};
    blocks.resize(16, -1);
    selected.insert(selected.end(), blocks.begin(), blocks.end());
  }
  const double head_token = 2.0 * 64 * 2;
  const double tokens = 255 + (2 * 64 + 511) + 2;  // compressed; blocks 0, 5 and window; tree
  const double rows = 2.0 * 8 * (64 + 3) * 2;      // q and gates
  CHECK(fetched_bytes(shape, selected) == Approx(2 * tokens * head_token + rows));
}

TEST_CASE("every count of queries has a tree of that many nodes") {
  for (std::int64_t queries = 1; queries <= 256; ++queries) {
    CHECK(synthetic_tree(bench_tree(queries)).size() == queries);
  }
}

TEST_CASE("a bench on the CPU times every contender in every cell") {
  int cells = 0;
  const VerifyBench bench = bench_verify(tiny(), [&](const VerifyCell&) { cells += 1; });
  REQUIRE(bench.cells.size() == 2);
  CHECK(cells == 2);
  CHECK(bench.dtype == "f32");
  CHECK(bench.cells[0].queries == 1);
  CHECK(bench.cells[0].overlap == 1.0);
  const VerifyCell& cell = bench.cells[1];
  REQUIRE(cell.variants.size() == 5);  // vanilla, and two groups in both layers
  CHECK(cell.vanilla().variant.form == NsaForm::kVanilla);
  for (const VerifyVariant& v : cell.variants) {
    CAPTURE(v.name);
    CHECK(v.time.count == 6);
    CHECK(v.time.median > 0.0);
    CHECK(v.over_vanilla.median > 0.0);
    CHECK(v.floor_bytes > 0.0);
    CHECK(!v.floor_us);  // nobody measured this CPU's reads
  }
  CHECK(cell.vanilla().over_vanilla.median == 1.0);
  CHECK(cell.best(false).time.median <= cell.variants[1].time.median);
  CHECK(cell.best(true).variant.reuse);
  CHECK(!cell.recorded);
}

TEST_CASE("the bench's JSON holds its cells; the text says what is missing") {
  VerifyBench bench = bench_verify(tiny(), [](const VerifyCell&) {});
  bench.peer = parse_public_path("", 127);
  bench.cells[1].recorded = recorded_public_path(4096, 4);
  const nlohmann::json json = nlohmann::json::parse(verify_bench_json(bench));
  CHECK(json["bench"] == "verify");
  CHECK(json["cells"].size() == 2);
  const nlohmann::json& cell = json["cells"][1];
  CHECK(cell["variants"].size() == 5);
  CHECK(cell["variants"][2]["name"] == "refresh c8a");
  CHECK(cell["variants"][2]["group_mode"] == "approx");
  CHECK(cell["variants"][4]["layer"] == "reuse");
  CHECK(cell["variants"][0]["floor_us"].is_null());
  CHECK(cell["public_recorded"]["busy_us"] == 132.0);
  CHECK(cell["public_recorded"]["ratio_of_vanilla"] ==
        Approx(132.0 / bench.cells[1].vanilla().time.median));
  CHECK(cell["public_same_run"].is_null());
  CHECK(json["public_same_run"]["missing_because"].get<std::string>().find("python3") == 0);
  CHECK(json["cold_reads"].empty());
  CHECK(verify_bench_text(bench).find("python3 was not found") != std::string::npos);
}

TEST_CASE("a bench states the cold reads that its floors are read from") {
  VerifyBench bench = bench_verify(tiny(), [](const VerifyCell&) {});
  CHECK(verify_bench_text(bench).find("cold reads on this machine") == std::string::npos);
  bench.cold_reads = {{1, 1.71}, {4096, 925}};
  const nlohmann::json json = nlohmann::json::parse(verify_bench_json(bench));
  REQUIRE(json["cold_reads"].size() == 2);
  CHECK(json["cold_reads"][1]["mebibytes"] == 4096.0);
  CHECK(json["cold_reads"][1]["us"] == 925.0);
  CHECK(verify_bench_text(bench).find(
            "cold reads on this machine, MiB us: 1 1.71 | 4096 925; 4.64 TB/s") !=
        std::string::npos);
}

TEST_CASE("a bench of what cannot be is a usage error") {
  const auto refused = [](const VerifyBenchOptions& options) {
    try {
      bench_verify(options, [](const VerifyCell&) {});
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kUsage);
    }
  };
  VerifyBenchOptions options = tiny();
  options.queries = {257};
  refused(options);
  options = tiny();
  options.overlaps = {1.5};
  refused(options);
  options = tiny();
  options.groups = {"c3e"};
  refused(options);
  options = tiny();
  options.geometry = "nsa-70b";
  refused(options);
  options = tiny();
  options.samples = 2;
  refused(options);
}
