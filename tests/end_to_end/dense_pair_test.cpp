// The commands on a dense pair that a draft with a cache of its own makes possible: chains,
// SpecAttn once the layers are aligned, and what is judged of it.
#include <catch2/catch.hpp>

#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("a dense pair speculates losslessly, and is aligned and judged") {
  const TempFolder folder;
  const fs::path model = folder / "model";
  TinyModel dense_model;
  dense_model.target.attention = AttentionKind::kDense;
  dense_model.target.layers = 4;
  write_tiny_dense_pair(model, dense_model, 3);
  const std::string prompt =
      (fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test/chat-1000-3.txt").string();
  const std::string on_cpu = " --backend cpu --threads 1 --model " + model.string();
  const auto generate = [&](const std::string& strategy) {
    const CommandResult done =
        run_versieve("generate --json --compare-ar --max-new-tokens 24 --prompt-file " + prompt +
                     " --strategy '" + strategy + "'" + on_cpu);
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    return json::parse(done.out);
  };
  const json dense = generate("dense/d4k1n5/bfs/c1/F*");
  CHECK(dense.at("identical_to_ar") == true);
  const std::string chosen = "specattn:p0.9/d4k1n5/bfs/c1/F*";
  check_refused("generate --max-new-tokens 24 --prompt-file " + prompt + " --strategy '" + chosen +
                    "'" + on_cpu,
                1, "layer_map.json");
  const CommandResult aligned = run_versieve("align --text " + prompt + " --out " +
                                             (model / "layer_map.json").string() + on_cpu);
  CAPTURE(aligned.err);
  REQUIRE(aligned.code == 0);
  CHECK(generate(chosen).at("generated_tokens") == dense.at("generated_tokens"));
  const CommandResult judged = run_versieve("quality --scored 8 --text " + prompt + on_cpu);
  CAPTURE(judged.err);
  CHECK(judged.code == 0);
}
