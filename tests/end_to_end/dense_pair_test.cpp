// The commands on a dense pair that a draft with a cache of its own makes possible: chains,
// SpecAttn once the layers are aligned, and what is judged of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

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

TEST_CASE("many prompts of a dense pair have the texts that each has alone") {
  const TempFolder folder;
  const fs::path model = folder / "model";
  TinyModel dense_model;
  dense_model.target.attention = AttentionKind::kDense;
  dense_model.target.layers = 4;
  write_tiny_dense_pair(model, dense_model, 3);
  const std::string command =
      "generate --json --max-new-tokens 20 --backend cpu --threads 1 "
      "--model " +
      model.string() + " ";
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    const std::string prompt = "the prompt of number " + std::to_string(i);
    std::ofstream(folder / ("p" + std::to_string(i))) << prompt;
    lines += json{{"prompt", prompt}}.dump() + "\n";
  }
  std::ofstream(folder / "prompts.jsonl") << lines;
  const CommandResult aligned =
      run_versieve("align --backend cpu --model " + model.string() + " --text " +
                   VERSIEVE_SOURCE_DIR "/engine/demo/prompts/test/chat-1000-3.txt --out " +
                   (model / "layer_map.json").string());
  CAPTURE(aligned.err);
  REQUIRE(aligned.code == 0);
  for (const std::string strategy :
       {"dense/d4k1n5/bfs/c1/F*", "dense/d3k2n6/bfs/c1/F*", "resa:b16p0.1f32/ar",
        "specattn:p0.9/d4k1n5/bfs/c1/F*", "dense/d4k1n5/bfs/c1/F*/draft=resa:b16p0.5",
        "indexer:k4w2/ar", "indexer:k4w2/d3k2n6/bfs/c1/F*",
        "specattn:p0.2/d4k1n5/bfs/c1/F*/sampling=exact' --temperature '0.9",
        "dense/d4k1n5/bfs/c1/F*/sampling=sigmoid' --temperature '0.8"}) {
    const std::string chosen = command + "--strategy '" + strategy + "' ";
    const CommandResult many =
        run_versieve(chosen + "--concurrency 3 --prompts " + (folder / "prompts.jsonl").string());
    CAPTURE(strategy, many.err);
    REQUIRE(many.code == 0);
    const json answer = json::parse(many.out);
    CHECK(answer.at("most_running") == 3);
    for (int i = 0; i < 4; ++i) {
      const CommandResult one =
          run_versieve(chosen + "--prompt-file " + (folder / ("p" + std::to_string(i))).string());
      REQUIRE(one.code == 0);
      const json& request = answer.at("requests")[static_cast<std::size_t>(i)];
      CHECK(request.at("text") == json::parse(one.out).at("text"));
      CHECK(request.at("ttft_ms") > 0.0);
      CHECK(request.at("tokens_per_s") > 0.0);
    }
  }
  // Of a request the draft's weights and lists are counted, too: fewer fit at once, and none is
  // lost.
  const std::string many = " --concurrency 4 --kv-memory 1 --prompts " +
                           (folder / "prompts.jsonl").string() + " --strategy ";
  const auto most_running = [&](const std::string& strategy) {
    const CommandResult run = run_versieve(command + many + strategy);
    CAPTURE(strategy, run.err);
    REQUIRE(run.code == 0);
    const json answer = json::parse(run.out);
    CHECK(answer.at("requests").size() == 4);
    CHECK(answer.at("kv_bytes") <= 1 << 20);
    return answer.at("most_running").get<int>();
  };
  CHECK(most_running("specattn:p0.9/d31k1n32/bfs/c1/F*") <
        most_running("dense/d31k1n32/bfs/c1/F*"));
  fs::remove(model / "layer_map.json");
  check_refused("generate --backend cpu --model " + model.string() +
                    " --strategy specattn:p0.9/d4k1n5/bfs/c1/F* --prompts " +
                    (folder / "prompts.jsonl").string(),
                1, "layer_map.json");
}

namespace {

const std::string kMeasured = VERSIEVE_SOURCE_DIR "/db/measured/h100.db";

TinyModel dense_model() {
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  return model;
}

std::string plan_of(const fs::path& model, const std::string& more = "") {
  return "plan --db " + kMeasured + " --buckets 0-4096 --model " + model.string() + more;
}

json planned(const fs::path& model, const std::string& more = "") {
  const CommandResult result = run_versieve(plan_of(model, " --json" + more));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

// The strategies of a class, without what follows the attention.
std::set<std::string> attentions(const json& table, const std::string& precision) {
  std::set<std::string> found;
  for (const json& entry : table.at("entries")) {
    if (entry.at("class") == precision) {
      const std::string strategy = entry.at("strategy");
      found.insert(strategy.substr(0, strategy.find_first_of(":/")));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a dense folder whose draft is a model is planned, and its table runs and is exported") {
  const TempFolder folder;
  const fs::path model = folder / "model";
  write_tiny_dense_pair(model, dense_model(), 3);
  const std::string text = (folder / "text").string();
  std::ofstream out(text);
  for (int line = 0; line < 8; ++line) {
    out << "Line " << line << " of what all of them read.\n";
  }
  out.close();
  REQUIRE(run_versieve("align --text " + text + " --backend cpu --threads 1 --model " +
                       model.string() + " --out " + (model / "layer_map.json").string())
              .code == 0);
  const std::string table = (folder / "table.json").string();
  const json plan = planned(model, " --out " + table);
  CHECK(plan.at("classes") == json({"Strict", "Sparse+Rectify", "Sparse", "Approx-sampling"}));
  CHECK(attentions(plan, "Strict") == std::set<std::string>{"dense"});
  CHECK(attentions(plan, "Sparse").count("specattn") == 1);
  CHECK(attentions(plan, "Sparse+Rectify").count("resa") == 1);
  const json& provenance = plan.at("provenance");
  CHECK(provenance.at("draft_is_model") == true);
  CHECK(provenance.at("sources").at("pair_sha256").get<std::string>().size() == 64);
  CHECK(plan.at("baselines")[0].at("strategy") == "dense/ar");
  CHECK(plan.at("baselines")[1].at("strategy") == "dense/d5k1n6/bfs/c1/F*");
  // Five steps of the draft's three layers are more than the target's four.
  CHECK(plan.at("baselines")[1].at("step_latency_us").get<double>() >
        2.0 * plan.at("baselines")[0].at("step_latency_us").get<double>());
  for (const json& precision : plan.at("classes")) {
    const std::string name = precision.get<std::string>();
    CAPTURE(name);
    const std::string line = "generate --backend cpu --threads 1 --max-new-tokens 8 --table " +
                             table + " --class " + name + " --prompt-file " + text + " --model " +
                             model.string();
    if (name == "Approx-sampling") {  // at this vocabulary the exact sampler is the faster one
      check_refused(line + " --temperature 0.8", 1, "Approx-sampling is empty");
      continue;
    }
    const CommandResult ran = run_versieve(line + " --json");
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    CHECK(json::parse(ran.out).at("generated_tokens").get<std::int64_t>() >= 1);
    // The best of a cell may be one of the baselines: the class's own best runs as well.
    const json& entries = plan.at("entries");
    const auto own = std::find_if(entries.begin(), entries.end(), [&](const json& e) {
      return e.at("class") == name && e.at("baseline").is_null();
    });
    REQUIRE(own != entries.end());
    const std::string strategy = own->at("strategy").get<std::string>();
    const CommandResult alone =
        run_versieve("generate --json --backend cpu --threads 1 --max-new-tokens 8 --strategy '" +
                     strategy + "' --prompt-file " + text + " --model " + model.string());
    CAPTURE(strategy, alone.err);
    REQUIRE(alone.code == 0);
    CHECK(json::parse(alone.out).at("precision_class") == name);
  }
  const std::string yaml = (folder / "serve.yaml").string();
  REQUIRE(run_versieve("export --format vllm --table " + table + " --out " + yaml).code == 0);
  CHECK(text_of_file(yaml).find("method: draft_model\n") != std::string::npos);
  check_refused(plan_of(model, " --draft-vocab 64"), 2, "a model of its own");
  check_refused(plan_of(model, " --baseline nsa/ar"), 2, "this one is dense");
  check_refused(plan_of(model, " --baseline dense/d2k2n4/bfs/c1/F*"), 2, "chains alone");
  check_refused(plan_of(model, " --borrow none"), 1, "--borrow does not name acceptance");
}

TEST_CASE("a dense folder is planned with the head that it has, or without any draft") {
  const TempFolder folder;
  write_tiny_pair(folder / "head", dense_model());
  const json head = planned(folder / "head");
  CHECK(head.at("baselines")[1].at("strategy") == "dense/d8k8n128/bfs/c1/F*");
  CHECK(attentions(head, "Strict") == std::set<std::string>{"dense"});
  CHECK(attentions(head, "Sparse").count("specattn") == 0);
  CHECK(head.at("provenance").at("draft_is_model") == false);
  write_tiny_target(folder / "bare", dense_model());
  const json bare = planned(folder / "bare");
  CHECK(bare.at("classes") == json({"Strict", "Sparse+Rectify", "Sparse"}));
  for (const json& entry : bare.at("entries")) {
    const std::string strategy = entry.at("strategy").get<std::string>();
    const bool drafts = strategy.find("/ar") == std::string::npos;
    CAPTURE(strategy);
    CHECK(drafts == (strategy.find("/draft=resa:") != std::string::npos));
    CHECK((!drafts || entry.at("note").get<std::string>().find("drafts for itself") == 0));
  }
  check_refused(plan_of(folder / "bare", " --draft-vocab 64"), 2, "has no draft");
  check_refused(plan_of(folder / "bare", " --baseline dense/d2k1n3/bfs/c1/F*"), 2,
                "the pair has no draft");
  const json reuse = planned(folder / "head", " --class Reuse-only");
  CHECK(reuse.at("entries").empty());
  CHECK(reuse.at("unavailable").size() == 1);
}

TEST_CASE("selections that nothing can be measured of are refused before a database is made") {
  const TempFolder folder;
  const fs::path model = folder / "model", database = folder / "mine.db",
                 empty = folder / "none.txt";
  write_tiny_dense_pair(model, dense_model(), 3);
  std::ofstream(empty) << "\n";
  const std::string sweep =
      "profile --sweep selections --backend cpu --threads 1 --db " + database.string();
  check_refused(sweep, 2, "needs a dense target");  // the pair that ships is sparse
  check_refused(sweep + " --model " + model.string() + " --prompts " + empty.string(), 3,
                "no calibration prompt of regime 'prose'");
  check_refused("profile --sweep demo-acceptance --backend cpu --threads 1 --db " +
                    database.string() + " --model " + model.string(),
                2, "this one is dense");
  check_refused("quality --strategy resa:b16p0.1f8/ar --text " + empty.string() + " --model " +
                    (folder / "nothing").string() + " --db " + database.string(),
                3, "nothing");
  check_refused("profile --sweep pair --backend cpu --dense " + (folder / "nothing").string() +
                    " --db " + database.string(),
                3, "nothing");
  CHECK(!fs::exists(database));
  check_refused(
      "simulate --strategy specattn:p0.9/d7k1n8/bfs/c1/F* --workload decode --selections ''", 2,
      "--selections: is empty");
}

TEST_CASE("a dense target's own chains are profiled, and its plan counts on them") {
  const TempFolder folder;
  const fs::path model = folder / "model", database = folder / "mine.db", sweep = folder / "s.json";
  write_tiny_target(model, dense_model());
  std::ofstream(sweep) << R"({"name": "chains", "prompts": 2, "new_tokens": 24, "grids": [
      {"workload": "acceptance", "regime": "code", "context_len": 300,
       "strategy": "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1"},
      {"workload": "step", "model": "pair", "regime": "code", "context_len": 300,
       "launch": "stream", "strategy": "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1"}]})";
  REQUIRE(run_versieve("merge --into " + database.string() + " " + kMeasured).code == 0);
  const CommandResult profiled =
      run_versieve("profile --json --backend cpu --threads 1 --sweep " + sweep.string() + " --db " +
                   database.string() + " --model " + model.string());
  CAPTURE(profiled.err);
  REQUIRE(profiled.code == 0);
  CHECK(json::parse(profiled.out).at("ok") == 2);
  const CommandResult planned =
      run_versieve("plan --json --class Strict --buckets 0-4096 --device H100 --db " +
                   database.string() + " --model " + model.string());
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const json table = json::parse(planned.out);
  CHECK(table.at("provenance").at("sources").at("chain_tokens") == "own");
  bool found = false;
  for (const json& entry : table.at("entries")) {
    const std::string strategy = entry.at("strategy").get<std::string>();
    if (strategy.find("/draft=resa:b16p0.1") != std::string::npos) {
      found = true;
      CHECK(entry.at("note").get<std::string>().find("tokens a step counted of the pair") !=
            std::string::npos);
    }
  }
  CHECK(found);
}

TEST_CASE("a draft model beside an NSA target has no price, which a sentence says") {
  const TempFolder folder;
  write_tiny_target(folder / "nsa", {});
  write_tiny_target(folder / "nsa/draft", dense_model());
  check_refused(plan_of(folder / "nsa"), 2, "priced beside a dense target");
}
