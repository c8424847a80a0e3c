// Files for serving engines: which entry each of them gets, in whose words, and what the file says
// of the rest.
#include "engine/analyse/plan/deployment.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr const char* kFormats[] = {"sglang", "vllm", "trtllm"};

Evaluation evaluation(const std::string& tuple, double throughput) {
  Evaluation e;
  e.strategy = Strategy::parse(tuple);
  e.expected_accepted = 4.0;
  e.accepted_interval = {3.5, 4.5};
  e.cost = StepCost{.time_us = 4e6 / throughput};
  e.latency_interval_us = {3e6 / throughput, 5e6 / throughput};
  e.throughput = throughput;
  e.throughput_interval = {0.9 * throughput, 1.1 * throughput};
  return e;
}

// Tuples of the second of two buckets, best first, 100 tokens/s apart.
PlanTable table(const std::vector<std::string>& tuples) {
  PlanTable t;
  t.hardware = "h200-sxm";
  t.model = "nsa-1b";
  t.provenance_note = "measured here";
  t.acceptance_pair = "demo-nsa";
  t.dtype = "bf16";
  t.launch = "graph";
  t.buckets = {{0, 4096}, {4096, 8192}};
  t.classes = {PrecisionClass::kStrict};
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const Evaluation e = evaluation(tuples[i], 1000.0 - 100.0 * static_cast<double>(i));
    t.entries.push_back({.bucket = 1,
                         .precision = e.strategy.precision(),
                         .rank = static_cast<std::int64_t>(i) + 1,
                         .evaluation = e});
  }
  return t;
}

void add_baseline(PlanTable& t, const std::string& role, const std::string& tuple,
                  double throughput) {
  t.baselines.push_back({1, role, evaluation(tuple, throughput)});
}

std::string exported(const PlanTable& t, const char* format, const DeploymentWish& wish = {}) {
  return deployment_file(t, *serving_engine(format), wish);
}

// What a reader of YAML sees.
std::string without_comments(const std::string& file) {
  std::istringstream lines(file);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    out += first == std::string::npos || line[first] == '#' ? "" : line + "\n";
  }
  return out;
}

// Comments with their lines joined.
std::string comments(const std::string& file) {
  std::istringstream lines(file);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    out += line.rfind("#   ", 0) == 0 ? line.substr(3) : (line.rfind("#", 0) == 0 ? line : "");
  }
  return out;
}

bool says(const std::string& file, const std::string& part) {
  return comments(file).find(part) != std::string::npos;
}

void check_refused(const PlanTable& t, const char* format, const DeploymentWish& wish,
                   const std::string& part) {
  try {
    exported(t, format, wish);
    FAIL("exported to " << format);
  } catch (const Error& e) {
    CAPTURE(format, e.what());
    CHECK(e.code() == ExitCode::kAnswerNo);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a file for SGLang, in full") {
  PlanTable t = table({"nsa/d6k8n64/bfs/c4e/F*"});
  t.entries[0].evaluation.source = Provenance::kMeasured;
  t.requests = 16;
  CHECK(exported(t, "sglang", {.draft_model = "/models/draft"}) ==
        R"(# Speculative decoding for SGLang, from a planner table of versieve, schema 1.
# Use: python -m sglang.launch_server --model-path TARGET --config FILE.yaml
# Written for SGLang 0.5.23: names and rules are those of its argument reader, and no server was
#   started. Hold them against the help text of yours.
#
# Planned for h200-sxm, geometry nsa-1b (bf16, graph launches): measured here.
# Acceptance: demo-nsa on real text. All numbers are of versieve's own kernels, one request at a
#   time; they rank drafts for SGLang and do not predict its speed.
#
# Tuple: nsa/d6k8n64/bfs/c4e/F*, rank 1 of class Strict for contexts of 4096-8192 tokens.
# Its numbers (measured, intervals 90 % for the mean of 16 requests): 1000.0 [900.0, 1100.0]
#   accepted tokens/s; 4.00 [3.50, 4.50] tokens a step of 4000.0 [3000.0, 5000.0] us.
# It is the best of its class and contexts.
# Dropped, having no counterpart: attention nsa (SGLang verifies with the target's own); traversal
#   order, group, schedule and options bfs/c4e/F* (c: queries that share loads, e exact, a
#   approximate; F refreshes a layer's blocks, R reuses them).
# Dropped, because one setting serves all requests: the other contexts (0-4096), classes and
#   ranks, and the guard (alpha 0.2, drop ratio 0.85, warm-up 8, hysteresis 5, at most 2
#   transitions).
# A step verifies 64 nodes with the root, 63 without it; SGLang counts the root.
# Up to 3 requests at once the products of weights are bound by bandwidth on h200-sxm; beyond, 64
#   nodes a request cost time of their own, which the numbers above do not count.
# Acceptance stays the engine's exact rule: no threshold and no relaxed rule is set, and none
#   belongs here.
# No setting ends a tree above a batch: where more than 3 requests run at once, measure against a
#   server without speculation. On Hopper a top-k above 1 takes FA3 from the whole server unless
#   attention-backend is set, so it is set here; it also takes page-size 64. A top-k above 1
#   resets max-running-requests to 48 where it is not set.

speculative-algorithm: EAGLE3
speculative-draft-model-path: "/models/draft"
speculative-num-steps: 6
speculative-eagle-topk: 8
speculative-num-draft-tokens: 64
attention-backend: fa3
)");
}

TEST_CASE("each engine gets the same tree in its own words") {
  const PlanTable t = table({"nsa/d6k8n32/bfs/c1/F*"});
  const DeploymentWish wish{.draft_model = "draft"};
  CHECK(without_comments(exported(t, "sglang", wish)) ==
        "speculative-algorithm: EAGLE3\nspeculative-draft-model-path: \"draft\"\n"
        "speculative-num-steps: 6\nspeculative-eagle-topk: 8\n"
        "speculative-num-draft-tokens: 32\nattention-backend: fa3\n");
  CHECK(without_comments(exported(t, "trtllm", wish)) ==
        "speculative_config:\n  decoding_type: Eagle3\n  speculative_model: \"draft\"\n"
        "  max_draft_len: 6\n  use_dynamic_tree: true\n  dynamic_tree_max_topK: 8\n"
        "  max_total_draft_tokens: 31\n  max_concurrency: 6\n");
  for (const char* format : kFormats) {
    CHECK(says(exported(t, format, wish), std::string(format) == "sglang"
                                              ? "SGLang counts the root"
                                              : "does not count the root"));
  }
}

TEST_CASE("and the same chain, up to the batch that the machine pays for by its bytes") {
  PlanTable t = table({"nsa/d5k1n6/bfs/c1/F*"});
  const DeploymentWish wish{.draft_model = "draft"};
  CHECK(without_comments(exported(t, "sglang", wish)) ==
        "speculative-algorithm: EAGLE3\nspeculative-draft-model-path: \"draft\"\n"
        "speculative-num-steps: 5\nspeculative-eagle-topk: 1\n"
        "speculative-num-draft-tokens: 6\n");
  CHECK(says(exported(t, "sglang", wish), "more than 33 requests"));
  CHECK(!says(exported(t, "sglang", wish), "FA3"));
  CHECK(without_comments(exported(t, "vllm", wish)) ==
        "speculative-config:\n  method: eagle3\n  model: \"draft\"\n"
        "  num_speculative_tokens: 5\n"
        "  num_speculative_tokens_per_batch_size: [[1, 33, 5], [34, 8192, 0]]\n");
  CHECK(without_comments(exported(t, "trtllm", wish)) ==
        "speculative_config:\n  decoding_type: Eagle3\n  speculative_model: \"draft\"\n"
        "  max_draft_len: 5\n  max_concurrency: 33\n");
  t.hardware = "of-my-own";  // whose peaks no table holds
  CHECK(without_comments(exported(t, "vllm", wish)) ==
        "speculative-config:\n  method: eagle3\n  model: \"draft\"\n"
        "  num_speculative_tokens: 5\n");
  for (const char* format : kFormats) {
    CHECK(says(exported(t, format, wish), "No limit of the batch is known for of-my-own"));
  }
}

TEST_CASE("a tree keeps FA3 on Hopper, and says what to set where the machine is not known") {
  PlanTable t = table({"nsa/d6k8n32/bfs/c1/F*"});
  for (const char* hopper : {"h100-sxm", "h100-pcie", "gh200", "h200-sxm"}) {
    t.hardware = hopper;
    CHECK(exported(t, "sglang").find("\nattention-backend: fa3\n") != std::string::npos);
  }
  for (const char* other : {"b200", "l40s", "of-my-own"}) {
    t.hardware = other;
    const std::string file = exported(t, "sglang");
    CHECK(without_comments(file).find("attention-backend") == std::string::npos);
    CHECK(says(file, "On Hopper set attention-backend: fa3 too"));
  }
}

TEST_CASE("a missing draft model is a name that no engine can load, and is said") {
  const PlanTable t = table({"nsa/d5k1n6/bfs/c1/F*"});
  const std::string missing = ": \"<path of the draft's weights>\"\n";
  for (const char* format : kFormats) {
    const std::string file = exported(t, format);
    CHECK(without_comments(file).find(missing) != std::string::npos);
    CHECK(says(file, "NOT COMPLETE"));
    CHECK(!says(exported(t, format, {.draft_model = "draft"}), "NOT COMPLETE"));
  }
}

TEST_CASE("the best entry that the engine takes whole is chosen, and the loss is said") {
  const PlanTable t = table({"nsa/d6k8n64/bfs/c1/F*", "nsa/d6k8n48/bfs/c1/F*",
                             "nsa/d4k1n5/bfs/c1/F*", "nsa/d6k1n7/bfs/c1/F*"});
  const std::string chain = exported(t, "vllm");
  CHECK(without_comments(chain).find("num_speculative_tokens: 4\n") != std::string::npos);
  CHECK(says(chain, "Tuple: nsa/d4k1n5/bfs/c1/F*, rank 3 of class Strict"));
  CHECK(says(chain,
             "The best is nsa/d6k8n64/bfs/c1/F* with 1000.0 [900.0, 1100.0] tokens/s "
             "(predicted). vLLM cannot take it: it drafts chains only. What is taken "
             "yields 20.0 % less."));
  const std::string tree = exported(t, "trtllm");  // 63 drafted tokens are more than 6 x 8
  CHECK(without_comments(tree).find("max_total_draft_tokens: 47\n") != std::string::npos);
  CHECK(says(tree, "yields 10.0 % less"));
  CHECK(says(exported(t, "sglang"), "It is the best of its class"));
}

TEST_CASE("where no chain is listed, the bucket's plain chain stands in") {
  PlanTable t = table({"nsa/d6k8n64/bfs/c1/F*", "nsa/d6k8n48/bfs/c1/F*"});
  add_baseline(t, "autoregressive", "nsa/ar", 300.0);
  add_baseline(t, "chain", "nsa/d4k1n5/bfs/c1/F*", 700.0);
  const std::string file = exported(t, "vllm");
  CHECK(without_comments(file).find("num_speculative_tokens: 4\n") != std::string::npos);
  CHECK(says(file, "Tuple: nsa/d4k1n5/bfs/c1/F*, a baseline for contexts of 4096-8192 tokens"));
  CHECK(says(file, "What is taken yields 30.0 % less."));
  t.baselines[0].evaluation.throughput = 800.0;
  CHECK(without_comments(exported(t, "vllm")) == "{}\n");
}

TEST_CASE("a target's own draft goes to no engine: the pair's chain does, else plain decoding") {
  const char* const own = "dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1";
  PlanTable t = table({own, "dense/d3k1n4/bfs/c1/F*"});
  for (const char* format : kFormats) {
    CHECK(says(exported(t, format), "Tuple: dense/d3k1n4/bfs/c1/F*, rank 2 of class Strict"));
    CHECK(says(exported(t, format),
               "cannot take it: none of its settings drafts by the target's "
               "own steps over chosen blocks."));
  }
  t = table({own});
  check_refused(t, "sglang", {}, "nothing like the entries of class Strict");
  add_baseline(t, "autoregressive", "dense/ar", 300.0);
  CHECK(without_comments(exported(t, "sglang")) == "{}\n");
  CHECK(says(exported(t, "sglang"), "What is taken yields 70.0 % less."));
}

TEST_CASE("where nothing listed fits, the best one is cut, and what is known of the loss is said") {
  const PlanTable t = table({"nsa/d6k4n64/bfs/c1/F*", "nsa/d5k4n64/bfs/c1/F*"});
  const std::string cut =
      "Cut to depth 6, width 4, 25 nodes, for which the table has no number; "
      "the lowest that it lists has 900.0 tokens/s (predicted), 10.0 % less";
  CHECK(says(exported(t, "trtllm"), cut));
  CHECK(without_comments(exported(t, "trtllm")).find("max_total_draft_tokens: 24\n") !=
        std::string::npos);
  CHECK(says(exported(t, "vllm"), "Cut to depth 6, width 1, 7 nodes"));
  CHECK(without_comments(exported(t, "vllm")).find("num_speculative_tokens: 6\n") !=
        std::string::npos);
  CHECK(chosen_deployment(t, *serving_engine("vllm"), {}).is_cut());
  CHECK(!chosen_deployment(t, *serving_engine("sglang"), {}).is_cut());
}

TEST_CASE("a file says the bounds that its entries keep, and no chain beyond them stands in") {
  PlanTable t = table({"nsa/d6k4n64/bfs/c1/F*"});
  add_baseline(t, "autoregressive", "nsa/ar", 300.0);
  add_baseline(t, "chain", "nsa/d6k1n7/bfs/c1/F*", 800.0);
  CHECK(!says(exported(t, "vllm"), "Objective"));
  CHECK(chosen_deployment(t, *serving_engine("vllm"), {}).draft.depth == 6);
  t.aims.itl_ms = 1.2;  // of the chain 1.25 and at most 1.39
  CHECK(says(exported(t, "vllm"),
             "Objective latency: entries are ranked by tokens a second, and only those are listed "
             "that 90 % of such requests see within 1.2 ms a token."));
  CHECK(without_comments(exported(t, "vllm")) == "{}\n");
  t.aims = {.objective = Objective::kEnergy};
  CHECK(says(exported(t, "vllm"), "Objective energy: entries are ranked by tokens a joule."));
}

TEST_CASE("a choice with more levels than its nodes can fill is written as the tree it grows") {
  const std::string file = without_comments(exported(table({"nsa/d8k8n5/bfs/c1/F*"}), "sglang"));
  CHECK(file.find("num-steps: 4\n") != std::string::npos);
  CHECK(file.find("draft-tokens: 5\n") != std::string::npos);
}

TEST_CASE("where plain decoding is best, speculation stays off in a file that still loads") {
  const PlanTable t = table({"nsa/ar", "nsa/d6k1n7/bfs/c1/F*"});
  for (const char* format : kFormats) {
    const std::string file = exported(t, format);
    CHECK(without_comments(file) == "{}\n");
    CHECK(says(file, "Plain decoding is the fastest"));
  }
}

TEST_CASE("the context picks the bucket, and without one the last stands") {
  PlanTable t = table({"nsa/d6k1n7/bfs/c1/F*"});
  t.entries.push_back({.bucket = 0, .evaluation = evaluation("nsa/d3k1n4/bfs/c1/F*", 900.0)});
  const auto length_at = [&](const DeploymentWish& wish) {
    return chosen_deployment(t, *serving_engine("vllm"), wish).draft.depth;
  };
  CHECK(length_at({}) == 6);
  CHECK(length_at({.context = 4096}) == 3);
  CHECK(length_at({.context = 4097}) == 6);
  for (const std::int64_t context : {-5, 0, 8193}) {
    check_refused(t, "vllm", {.context = context}, "its buckets are 0-4096, 4096-8192");
  }
  t.buckets.clear();
  check_refused(t, "vllm", {}, "its buckets are none");
}

TEST_CASE("a class without entries is refused with the table's reason") {
  PlanTable t = table({"nsa/d6k1n7/bfs/c1/F*"});
  check_refused(t, "sglang", {.precision = PrecisionClass::kReuseOnly}, "planned without it");
  t.unavailable.push_back({1, PrecisionClass::kReuseOnly, "no schedule was calibrated"});
  check_refused(t, "sglang", {.precision = PrecisionClass::kReuseOnly}, "no schedule was");
}

TEST_CASE("a class that the engine has nothing like is refused, whatever the table holds") {
  const PlanTable t = table({"resa:b16p0.1f32/ar", "resa:b16p0.1f0/ar"});
  for (const char* format : kFormats) {
    check_refused(t, format, {.precision = PrecisionClass::kSparseRectified}, "nothing like");
    check_refused(t, format, {.precision = PrecisionClass::kSparse}, "nothing like");
  }
  for (const char* format : {"vllm", "trtllm"}) {
    check_refused(t, format, {.precision = PrecisionClass::kApproxSampling}, "another law");
  }
  check_refused(t, "trtllm", {.precision = PrecisionClass::kApproxSampling}, "relaxed_topk");
  check_refused(t, "trtllm", {.precision = PrecisionClass::kSparse}, "rocket, dsa, skip_softmax");
}

TEST_CASE("of SpecAttn the chain goes out with its draft model, and what is read is said") {
  PlanTable t =
      table({"nsa/d8k8n128/bfs/c1/F*", "resa:b16p0.1f0/ar", "specattn:p0.9/d6k1n7/bfs/c1/F*"});
  for (PlanEntry& e : t.entries) {
    e.precision = PrecisionClass::kSparse;
  }
  const DeploymentWish wish{.precision = PrecisionClass::kSparse, .draft_model = "draft"};
  CHECK(without_comments(exported(t, "sglang", wish)) ==
        "speculative-algorithm: STANDALONE\nspeculative-draft-model-path: \"draft\"\n"
        "speculative-num-steps: 6\nspeculative-eagle-topk: 1\n"
        "speculative-num-draft-tokens: 7\n");
  CHECK(without_comments(exported(t, "vllm", wish)) ==
        "speculative-config:\n  method: draft_model\n  model: \"draft\"\n"
        "  num_speculative_tokens: 6\n");
  CHECK(
      without_comments(exported(t, "trtllm", wish))
          .find(
              "speculative_config:\n  decoding_type: Draft_Target\n  speculative_model: \"draft\"\n"
              "  max_draft_len: 6\n") == 0);
  for (const char* format : kFormats) {
    const std::string file = exported(t, format, wish);
    CHECK(says(file, "Tuple: specattn:p0.9/d6k1n7/bfs/c1/F*, rank 3 of class Sparse"));
    CHECK(says(file, "The numbers count on what is dropped (Sparse"));
    CHECK(says(file, "reads all tokens at each step"));
    CHECK(says(file, "Acceptance stays the engine's exact rule"));
  }
}

TEST_CASE("sigmoids go out where an engine keeps what was drafted, and nowhere under Strict") {
  PlanTable t = table(
      {"nsa/d8k8n128/bfs/c1/F*", "nsa/d6k1n7/bfs/c1/F*/sampling=sigmoid", "nsa/d4k1n5/bfs/c1/F*"});
  for (PlanEntry& e : t.entries) {
    e.precision = PrecisionClass::kApproxSampling;
  }
  const DeploymentWish wish{.precision = PrecisionClass::kApproxSampling, .draft_model = "draft"};
  const std::string file = exported(t, "sglang", wish);
  CHECK(without_comments(file) ==
        "speculative-algorithm: EAGLE3\nspeculative-draft-model-path: \"draft\"\n"
        "speculative-num-steps: 6\nspeculative-eagle-topk: 1\n"
        "speculative-num-draft-tokens: 7\nspeculative-accept-threshold-single: 0.0\n");
  CHECK(says(file, "LOSSY: every drafted token is kept"));
  CHECK(says(file, "nobody measured this setting's"));
  CHECK(!says(file, "exact rule: no threshold"));
  for (PlanEntry& e : t.entries) {
    e.precision = PrecisionClass::kStrict;
  }
  t.entries.erase(t.entries.begin() + 1);
  for (const char* format : kFormats) {
    CHECK(without_comments(exported(t, format)).find("threshold") == std::string::npos);
  }
}

TEST_CASE("a dense pair's draft model goes out under its own name, by a Strict chain") {
  PlanTable t = table({"dense/d5k1n6/bfs/c1/F*"});
  t.draft_is_model = true;
  CHECK(without_comments(exported(t, "sglang")).find("STANDALONE") != std::string::npos);
  CHECK(without_comments(exported(t, "vllm")).find("method: draft_model\n") != std::string::npos);
  CHECK(without_comments(exported(t, "trtllm")).find("Draft_Target\n") != std::string::npos);
  t.draft_is_model = false;
  CHECK(without_comments(exported(t, "vllm")).find("method: eagle3\n") != std::string::npos);
}

TEST_CASE("classes that only save work go out with what the numbers count on") {
  PlanTable t = table({"nsa/d6k8n32/bfs/c4a/(FR)*"});
  t.entries[0].note = "acceptance measured without reuse";
  const std::string file = exported(t, "sglang", {.precision = PrecisionClass::kApproxReuse});
  CHECK(says(file, "The numbers count on what is dropped (Approx+Reuse: neighbours"));
  CHECK(says(file, "Its note: acceptance measured without reuse."));
  CHECK(says(file, "options bfs/c4a/(FR)*"));
}

TEST_CASE("no text of a table or of the user leaves its place") {
  PlanTable t = table({"nsa/d6k1n7/bfs/c1/F*"});
  t.hardware = "h\nspeculative-accept-threshold-acc: 0.1\r\x01 \xe2\x80\xa8x: 1";
  const std::string file = exported(t, "vllm", {.draft_model = "a\\\"b\n#c"});
  CHECK(without_comments(file) ==
        "speculative-config:\n  method: eagle3\n  model: \"a\\\\\\\"b\\x0A#c\"\n"
        "  num_speculative_tokens: 6\n");
  CHECK(file.find_first_of("\r\x01\xe2") == std::string::npos);
}
