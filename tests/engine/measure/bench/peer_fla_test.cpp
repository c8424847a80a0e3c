// flash-linear-attention beside our layer: the shapes that it takes, what its script may print, who
// is the stronger peer and whether the goals are met.
#include "engine/measure/bench/peer_fla.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/measure/bench/verify_peers.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const char* const kPrinted =
    "a warning\n{\"device\": \"NVIDIA H100 80GB HBM3\", \"package\": \"flash-linear-attention "
    "0.6.0\", \"licence\": \"MIT\", \"torch\": \"2.11\", \"triton\": \"3.6\", \"window_by\": "
    "\"PyTorch's flash attention\", \"cache\": \"cold\", \"cells\": [{\"heads\": 64, \"kv_heads\": "
    "4, \"n\": 16, \"context\": 4096, \"whole_us\": 90.5, \"kept_us\": 80, \"pooling_us\": 9, "
    "\"routing_us\": 30, \"window_us\": 8, \"overlap\": 0.2, \"selection_us\": 40, \"given_us\": "
    "50}]}\n";

VerifyVariant timed(const char* name, bool reuse, double us) {
  VerifyVariant v{.name = name};
  v.variant.reuse = reuse;
  v.time.median = us;
  return v;
}

// Ours: refresh 20 us, reuse 10 us.
VerifyBench bench_of_one_cell() {
  VerifyBench bench;
  bench.backend = "cuda";
  bench.options.queries = {16};
  bench.options.contexts = {4096};
  bench.options.overlaps = {0.2};
  VerifyVariant vanilla = timed("vanilla", false, 60.0);
  vanilla.variant.form = NsaForm::kVanilla;
  bench.cells.push_back(
      {.queries = 16,
       .context_len = 4096,
       .overlap = 0.2,
       .variants = {vanilla, timed("refresh c8e", false, 20.0), timed("reuse c8e", true, 10.0)}});
  return bench;
}

LlmShape layer_of(std::int64_t heads, std::int64_t kv_heads) {
  VerifyBenchOptions options;
  options.heads = HeadCounts{heads, kv_heads};
  return bench_layer(options);
}

}  // namespace

TEST_CASE("parallel_nsa runs at a layer's own heads where a KV head has 16, a power of two") {
  using List = std::vector<HeadCounts>;
  CHECK(fla_heads(layer_of(64, 4)) == List{{64, 4}});
  CHECK(fla_heads(layer_of(64, 2)) == List{{64, 2}});
  CHECK(fla_heads(layer_of(32, 8)) == List{{64, 4}, {128, 8}});
  CHECK(fla_heads(layer_of(48, 2)) == List{{16, 1}, {32, 2}});
  CHECK(fla_heads(layer_of(8, 1)) == List{{16, 1}});
}

TEST_CASE("the cells of flash-linear-attention's script are read from its last line") {
  const FlaRun run = parse_fla(kPrinted, 0);
  REQUIRE(run.missing_because.empty());
  CHECK(run.package == "flash-linear-attention 0.6.0 (MIT)");
  CHECK(run.versions == "torch 2.11, triton 3.6");
  CHECK(run.window_by == "PyTorch's flash attention");
  REQUIRE(run.cells.size() == 1);
  CHECK(run.cells[0].heads == HeadCounts{64, 4});
  CHECK(run.cells[0].queries == 16);
  CHECK(run.cells[0].context_len == 4096);
  CHECK(run.cells[0].overlap == 0.2);
  CHECK(run.cells[0].whole_us == 90.5);
  CHECK(run.cells[0].kept_us == 80.0);
  CHECK(run.cells[0].given_us == 50.0);
  CHECK(run.cells[0].pooling_us == 9.0);
  CHECK(run.cells[0].routing_us == 30.0);
  CHECK(run.cells[0].selection_us == 40.0);
  CHECK(run.cells[0].window_us == 8.0);
}

TEST_CASE("whatever goes wrong with flash-linear-attention is one sentence") {
  CHECK(parse_fla("", 127).missing_because ==
        "python3 was not found, so flash-linear-attention's operators were not run");
  CHECK(parse_fla("{\"error\": \"python3 has no torch\"}", 1).missing_because ==
        "flash-linear-attention's operators were not run: python3 has no torch");
  for (const char* printed : {"", "\n", "Traceback", "{", "[1]", "{}"}) {
    CHECK(parse_fla(printed, 1).missing_because.find("exit code 1") != std::string::npos);
  }
  for (const char* printed :
       {"{}", "{\"error\": 3}", "{\"package\": 1}",
        "{\"package\": \"a\", \"licence\": \"b\", \"torch\": \"c\", "
        "\"triton\": \"d\", \"window_by\": \"e\", \"cells\": [{\"n\": 1}]}"}) {
    CAPTURE(printed);
    CHECK(!parse_fla(printed, 0).missing_because.empty());
    CHECK(parse_fla(printed, 0).cells.empty());
  }
  CHECK(run_fla("/no/such/folder", "x", {}).missing_because ==
        "there is no folder '/no/such/folder' with flash-linear-attention's operators");
}

TEST_CASE("a cell is judged against the stronger peer, refresh and reuse each") {
  VerifyBench bench = bench_of_one_cell();
  VerifyCell& cell = bench.cells[0];
  CHECK(!stronger_peer(cell, false));
  cell.fla = parse_fla(kPrinted, 0).cells;
  CHECK(stronger_peer(cell, false)->us == 80.0);
  CHECK(stronger_peer(cell, false)->ratio == 4.0);
  CHECK(stronger_peer(cell, false)->met);
  CHECK(stronger_peer(cell, true)->ratio == 5.0);
  CHECK(stronger_peer(cell, true)->met);
  cell.peer = PublicPathTime{.queries = 16,
                             .context_len = 4096,
                             .busy_us = 100.0,
                             .routing_us = 70.0,
                             .selection_us = 20.0,
                             .window_us = 8.0};
  CHECK(stronger_peer(cell, false)->peer.name == "parallel_nsa");
  CHECK(stronger_peer(cell, true)->peer.name == "public path");
  CHECK(stronger_peer(cell, true)->us == 28.0);
  CHECK(!stronger_peer(cell, true)->met);  // 2.8 of 3
}

TEST_CASE("a bench prints both peers, their parts and the goals") {
  VerifyBench bench = bench_of_one_cell();
  bench.fla = parse_fla(kPrinted, 0);
  bench.cells[0].fla = bench.fla->cells;
  const std::string text = verify_bench_text(bench);
  CHECK(text.find("refresh 20.0: 4.00x over parallel_nsa 64/4, 4x met") != std::string::npos);
  CHECK(text.find("reuse 10.0: 5.00x over parallel_nsa 64/4, 3x met") != std::string::npos);
  CHECK(text.find("goals met: refresh 1 of 1 cells, reuse 1 of 1") != std::string::npos);
  CHECK(text.find("flash-linear-attention 0.6.0 (MIT), torch 2.11, triton 3.6") !=
        std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(verify_bench_json(bench));
  const nlohmann::json& cell = json["cells"][0];
  CHECK(cell["peers"][0]["heads"] == "64/4");
  CHECK(cell["peers"][0]["kept_us"] == 80.0);
  CHECK(cell["stronger_peer"]["refresh"]["met"] == true);
  CHECK(cell["stronger_peer"]["reuse"]["goal"] == 3.0);
  CHECK(json["fla_same_run"]["window_by"] == "PyTorch's flash attention");
  CHECK(json["layer"]["num_kv_heads"] == 8);

  bench.fla = parse_fla("", 127);
  bench.cells[0].fla.clear();
  CHECK(verify_bench_text(bench).find("python3 was not found") != std::string::npos);
  CHECK(nlohmann::json::parse(verify_bench_json(bench))["cells"][0]["stronger_peer"]["refresh"]
            .is_null());
}

TEST_CASE("a layer of other heads or compression is timed; one that cannot be is a usage error") {
  VerifyBenchOptions options;
  options.heads = HeadCounts{64, 4};
  options.compression = Compression{64, 64};
  const LlmShape layer = bench_layer(options);
  CHECK(layer.num_heads == 64);
  CHECK(layer.num_kv_heads == 4);
  CHECK(layer.head_dim == 64);
  CHECK(layer.nsa.cmp_block == 64);
  CHECK(layer.nsa.cmp_stride == 64);
  CHECK(has_own_layer(options));
  CHECK(!has_own_layer({}));
  CHECK_THROWS_AS(check_peers({.public_path = "x"}, options), Error);
  CHECK_NOTHROW(check_peers({.fla_path = "x"}, options));
  options.heads = HeadCounts{64, 5};
  CHECK_THROWS_AS(bench_layer(options), Error);
  options.heads = HeadCounts{64, 4};
  options.compression = Compression{64, 48};
  CHECK_THROWS_AS(bench_layer(options), Error);
}
