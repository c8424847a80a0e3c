// Does a request give the promised keys, and each wrong one its sentence and code?
#include <catch2/catch.hpp>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/run/model/load.h"
#include "engine/run/speculate/generate_request.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

struct Fixture {
  explicit Fixture(const test::TinyModel& model = {}) {
    test::write_tiny_pair(folder.path() / "model", model);
    std::ofstream(folder.path() / "prompt.txt") << "The quick brown fox jumps over the lazy dog.";
    request.model = folder.path() / "model";
    request.prompt.text = folder.path() / "prompt.txt";
    request.strategies = {"nsa/d4k3n12/bfs/c1/F*"};
    request.max_new_tokens = 24;
    request.backend = "cpu";
    request.threads = 1;
  }

  ExitCode code() const {
    try {
      run_request(request);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  }

  test::TempFolder folder;
  GenerateRequest request;
};

TEST_CASE("one strategy's report has the keys of the contract") {
  Fixture fixture;
  fixture.request.compares_ar = true;
  const GenerateReport report = run_request(fixture.request);
  const nlohmann::json json = report_json(report);
  CHECK(json.at("backend") == "cpu");
  CHECK(json.at("strategy") == "nsa/d4k3n12/bfs/c1/F*");
  CHECK(json.at("prompt_tokens") == 45);  // 44 bytes and BOS
  CHECK(json.at("identical_to_ar") == true);
  CHECK(json.at("generated_tokens").get<int>() >= 1);
  CHECK(json.at("accepted_per_step_mean").get<double>() >= 1.0);
  for (const char* key : {"device", "steps", "tokens_per_s", "ar_tokens_per_s", "text"}) {
    CHECK(json.contains(key));
  }
  CHECK(!json.contains("runs"));
  CHECK_THAT(report_text(report), Catch::Contains("identical to autoregressive"));
}

// A plan of one bucket whose guard takes every step for a low one.
GuardedPlan impatient_plan(const std::vector<std::string>& ranked) {
  GuardedPlan plan{.constants = {.drop_ratio = 100.0, .warmup = 0, .hysteresis = 1},
                   .rule = GuardRule::kNextRanked};
  GuardedBucket bucket{.range = {0, 4096}};
  for (const std::string& text : ranked) {
    bucket.ranked.push_back(Strategy::parse(text));
    bucket.expected.push_back({.expected_accepted = 4.0, .step_us = 10.0});
  }
  plan.buckets.push_back(bucket);
  return plan;
}

TEST_CASE("a guard that changes the tuple within a request leaves the text as it is") {
  Fixture fixture;
  fixture.request.compares_ar = true;
  fixture.request.max_new_tokens = 60;
  fixture.request.strategies.clear();
  fixture.request.plan =
      impatient_plan({"nsa/d4k3n12/bfs/c1/F*", "nsa/d2k2n5/dfs/c4e/F*", "nsa/d5k1n6/bfs/c2e/F*"});
  const GenerateReport report = run_request(fixture.request);
  const nlohmann::json json = report_json(report);
  CHECK(json.at("strategy") == "nsa/d4k3n12/bfs/c1/F*");
  CHECK(json.at("identical_to_ar") == true);
  CHECK(json.at("kernel") == "reference");
  const nlohmann::json& moves = json.at("guard").at("moves");
  REQUIRE(moves.size() >= 2);  // and perhaps back to the best one seen
  CHECK(moves[0].at("strategy") == "nsa/d2k2n5/dfs/c4e/F*");
  CHECK(moves[1].at("rank") == 3);
  CHECK(moves[0].at("token") < moves[1].at("token"));
  CHECK_THAT(report_text(report), Catch::Contains("after"));
}

TEST_CASE("tuples of different schedules under one guard are compared with nothing") {
  Fixture fixture;
  fixture.request.compares_ar = true;
  fixture.request.strategies.clear();
  fixture.request.plan = impatient_plan({"nsa/d4k3n12/bfs/c1/FRF", "nsa/d2k2n5/dfs/c4e/F*"});
  CHECK(report_json(run_request(fixture.request)).at("identical_to_ar").is_null());
}

TEST_CASE("a plan without a bucket for the prompt, or beside a strategy, is refused") {
  Fixture fixture;
  fixture.request.plan = impatient_plan({"nsa/d4k3n12/bfs/c1/F*"});
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.request.strategies.clear();
  CHECK(fixture.code() == ExitCode::kDone);
  fixture.request.plan->buckets[0].range = {1024, 4096};
  CHECK(fixture.code() == ExitCode::kAnswerNo);
  fixture.request.plan.reset();
  CHECK(fixture.code() == ExitCode::kUsage);
}

TEST_CASE("without a comparison identical_to_ar is null") {
  Fixture fixture;
  const nlohmann::json json = report_json(run_request(fixture.request));
  CHECK(json.at("identical_to_ar").is_null());
  CHECK(json.at("ar_tokens_per_s").is_null());
}

TEST_CASE("several strategies stand in runs, in their order") {
  Fixture fixture;
  fixture.request.compares_ar = true;
  fixture.request.strategies = {"nsa/ar", "nsa/d2k2n5/dfs/c2e/F*", "nsa/d3k1n4/bfs/c1/FRF"};
  const nlohmann::json json = report_json(run_request(fixture.request));
  REQUIRE(json.at("runs").size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(json.at("runs")[i].at("strategy") == fixture.request.strategies[i]);
    CHECK(json.at("runs")[i].at("identical_to_ar") == true);
  }
}

TEST_CASE("approximate groups run, and a text that they changed is reported, not a failure") {
  Fixture fixture;
  fixture.request.compares_ar = true;
  for (const char* text : {"nsa/d4k3n12/bfs/c4a/F*", "nsa/d4k3n12/dfs/c8a/FRF"}) {
    fixture.request.strategies = {text};
    const GenerateReport report = run_request(fixture.request);
    CHECK(report.failure() == "");
    CHECK(report.runs.at(0).generation.tokens.size() >= 1);
    CHECK_THAT(report_text(report), Catch::Contains("approximate strategies do not claim it"));
  }
  GenerateReport report;
  StrategyRun run{.strategy = Strategy::parse("nsa/d4k3n12/bfs/c4a/F*")};
  run.divergence = Divergence{.index = 3, .logit_gap = 0.5F};
  report.runs.push_back(run);
  CHECK(report.failure() == "");
  CHECK(report_json(report).at("first_divergence").at("index") == 3);
}

TEST_CASE("a text that left the autoregressive one is a no with its place and gap") {
  GenerateReport report;
  StrategyRun run{.strategy = Strategy::parse("nsa/d4k1n5/bfs/c1/F*")};
  run.generation.tokens = {1, 2, 3};
  run.reference = Generation{.tokens = {1, 2, 4}, .gaps = {0.5F, 0.25F, 0.125F}};
  run.divergence = first_divergence(run.generation, *run.reference);
  report.runs.push_back(run);
  CHECK_THAT(report.failure(), Catch::Contains("token 2") && Catch::Contains("0.125"));
  const nlohmann::json json = report_json(report);
  CHECK(json.at("identical_to_ar") == false);
  CHECK(json.at("first_divergence").at("index") == 2);
  CHECK(json.at("first_divergence").at("logit_gap") == 0.125);
  CHECK(json.contains("reason"));
}

TEST_CASE("a shorter text is not identical to a longer one that begins with it") {
  const Generation cut{.tokens = {1, 2}};
  const Generation whole{.tokens = {1, 2, 3}, .gaps = {1.0F, 1.0F, 1.0F}};
  CHECK(first_divergence(cut, whole)->index == 2);
  CHECK(first_divergence(whole, cut)->index == 2);
  CHECK(!first_divergence(whole, whole).has_value());
}

TEST_CASE("contradictory requests are usage errors") {
  Fixture fixture;
  GenerateRequest& request = fixture.request;
  const GenerateRequest good = request;
  const auto expect_usage = [&](const auto& spoil) {
    request = good;
    spoil();
    CHECK(fixture.code() == ExitCode::kUsage);
  };
  expect_usage([&] { request.strategies.clear(); });
  expect_usage([&] { request.strategies = {"nsa/d4k3n12"}; });
  expect_usage([&] { request.temperature = -1.0; });
  expect_usage([&] { request.temperature = 1e-7; });
  expect_usage([&] { request.temperature = 1e-310; });
  expect_usage([&] { request.temperature = std::numeric_limits<double>::quiet_NaN(); });
  expect_usage([&] { request.max_new_tokens = 0; });
  expect_usage([&] { request.backend = "tpu"; });
  expect_usage([&] { request.dtype = "f16"; });
  expect_usage([&] {
    request.compares_ar = true;
    request.temperature = 0.5;
    request.strategies = {"nsa/d4k3n12/bfs/c1/F*/sampling=exact"};
  });
  expect_usage([&] { request.sigmoid.alpha = 5.0; });  // of sigmoids alone
  // What would change nothing.
  expect_usage([&] {
    request.adapts_length = true;
    request.strategies = {"nsa/ar"};
  });
  for (const kernels::Truncation& cuts :
       {kernels::Truncation{.top_k = 5}, kernels::Truncation{.top_p = 0.9},
        kernels::Truncation{.min_p = 0.1}}) {
    expect_usage([&] { request.truncation = cuts; });
  }
  request = good;
  request.temperature = 0.5;
  request.sigmoid.alpha = 5.0;
  request.strategies = {"nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid"};
  CHECK(fixture.code() == ExitCode::kDone);
}

TEST_CASE("adapt-gamma is the strategy's gamma=adapt, and its report says so") {
  Fixture fixture;
  fixture.request.adapts_length = true;
  fixture.request.strategies = {"nsa/d6k1n7/bfs/c1/F*"};
  const nlohmann::json by_option = report_json(run_request(fixture.request));
  CHECK(by_option.at("strategy") == "nsa/d6k1n7/bfs/c1/F*/gamma=adapt");
  fixture.request.adapts_length = false;
  fixture.request.strategies = {"nsa/d6k1n7/bfs/c1/F*/gamma=adapt"};
  const nlohmann::json by_text = report_json(run_request(fixture.request));
  CHECK(by_text.at("tokens") == by_option.at("tokens"));
  CHECK(by_text.at("accepted_histogram") == by_option.at("accepted_histogram"));
}

TEST_CASE("a format that is not asked for is the weights' on a GPU and f32 on a CPU") {
  const std::vector<std::byte> bytes(64);
  const auto weights = [&](StorageType matrix, StorageType norm) {
    return WeightTable({}, {{"matrix", {.type = matrix, .shape = {4, 2}, .bytes = bytes}},
                            {"norm", {.type = norm, .shape = {4}, .bytes = bytes}},
                            {"t2d", {.type = StorageType::kBool, .shape = {64}, .bytes = bytes}}});
  };
  const std::pair<StorageType, Dtype> on_gpu[] = {{StorageType::kBf16, Dtype::kBf16},
                                                  {StorageType::kF16, Dtype::kBf16},
                                                  {StorageType::kF32, Dtype::kF32},
                                                  {StorageType::kF64, Dtype::kF32}};
  for (const auto& [stored, expected] : on_gpu) {
    CAPTURE(name_of(stored));
    for (const StorageType norm : {StorageType::kF32, StorageType::kBf16}) {
      const UsualDtype usual = usual_dtype(Backend::kCuda, weights(stored, norm));
      CHECK(usual.dtype == expected);
      CHECK(usual.remark.empty() == (stored != StorageType::kF16));
    }
    const UsualDtype on_cpu = usual_dtype(Backend::kCpu, weights(stored, stored));
    CHECK(on_cpu.dtype == Dtype::kF32);
    CHECK(on_cpu.remark.empty());
  }
  Fixture fixture;
  CHECK(fixture.request.dtype == "auto");
  CHECK(report_json(run_request(fixture.request)).at("dtype") == "f32");
}

TEST_CASE("strategies that the model or the engine cannot run are a no") {
  Fixture fixture;
  for (const char* text :
       {"dense/ar", "nsa/ar/bfs/c1/FRFRF", "resa:b16p0.1f32/ar", "nsa/ar/bfs/c1/F*/topk=gvr"}) {
    fixture.request.strategies = {text};
    INFO(text);
    CHECK(fixture.code() == ExitCode::kAnswerNo);
  }
}

TEST_CASE("a model without a draft decodes with ar only") {
  Fixture fixture;
  std::filesystem::remove_all(fixture.request.model / "draft");
  CHECK(fixture.code() == ExitCode::kAnswerNo);
  fixture.request.strategies = {"nsa/ar"};
  CHECK(fixture.code() == ExitCode::kDone);
}

TEST_CASE("prompts that cannot be read are bad input") {
  Fixture fixture;
  fixture.request.prompt.text = fixture.folder.path() / "missing.txt";
  CHECK(fixture.code() == ExitCode::kBadInput);
  std::ofstream(fixture.folder.path() / "empty.txt").close();
  fixture.request.prompt.text = fixture.folder.path() / "empty.txt";
  CHECK(fixture.code() == ExitCode::kBadInput);
  std::ofstream(fixture.folder.path() / "long.txt") << std::string(5000, 'a');
  fixture.request.prompt.text = fixture.folder.path() / "long.txt";
  CHECK(fixture.code() == ExitCode::kBadInput);
}

TEST_CASE("a draft with a smaller vocabulary of its own drafts losslessly and samples") {
  test::TinyModel model;
  model.draft.vocab = 200;
  Fixture fixture(model);
  fixture.request.compares_ar = true;
  fixture.request.strategies = {"nsa/d4k3n12/bfs/c1/F*", "nsa/d4k1n5/bfs/c1/F*"};
  CHECK(run_request(fixture.request).failure().empty());
  fixture.request.temperature = 0.9;  // coupled: still the text of plain decoding
  const GenerateReport sampled = run_request(fixture.request);
  CHECK(sampled.failure().empty());
  REQUIRE(sampled.runs.size() == 2);
  CHECK(sampled.runs[0].identical());
  CHECK(sampled.runs[1].identical());
}

TEST_CASE("a dense pair runs with dense strategies") {
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  Fixture fixture(model);
  fixture.request.compares_ar = true;
  fixture.request.strategies = {"dense/ar", "dense/d4k3n12/dfs/c4e/F*"};
  const GenerateReport report = run_request(fixture.request);
  CHECK(report.runs[0].identical());
  CHECK(report.runs[1].identical());
  for (const char* text : {"dense/ar/bfs/c1/FRF", "dense/d4k3n12/bfs/c4a/F*",
                           "resa:b4p0.2f8/d4k3n12/bfs/c1/F*", "resa:b4p0.2f8/ar/bfs/c1/FRF"}) {
    fixture.request.strategies = {text};
    CHECK(fixture.code() == ExitCode::kAnswerNo);
  }
}

TEST_CASE("a dense draft that is right now and then keeps the text, and specattn reads less") {
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  model.sharpness = 8.0;
  Fixture fixture(model);
  GenerateRequest& request = fixture.request;
  request.model = fixture.folder / "pair";
  test::write_tiny_dense_pair(request.model, model, 3);
  std::ofstream(request.model / "layer_map.json")
      << R"({"format": "versieve layer map", "schema": 1, "map": [0, 1, 2, 2]})";
  request.prompt.text =
      std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test/chat-1000-3.txt";
  request.compares_ar = true;
  request.max_new_tokens = 48;
  request.strategies = {"dense/d7k1n8/bfs/c1/F*", "dense/d4k3n12/dfs/c1/F*",
                        "specattn:p0.9/d7k1n8/bfs/c1/F*", "specattn:p1/d7k1n8/bfs/c1/F*"};
  const GenerateReport report = run_request(request);
  for (const std::size_t exact : {0, 1, 3}) {
    CHECK(report.runs[exact].identical());
    CHECK(report.runs[exact].generation.accepted_per_step() > 1.2);
    CHECK(report.runs[exact].generation.accepted_per_step() < 7.0);
  }
  CHECK(report.runs[2].generation.reads_saved > 0.05);
  CHECK(report.runs[2].generation.reads_saved < 0.5);  // two of four layers read everything
  CHECK(report.runs[3].generation.reads_saved == 0.0);
  CHECK(report.failure().empty());
}

TEST_CASE("ReSA reports its rectifications and claims no identity") {
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  Fixture fixture(model);
  fixture.request.compares_ar = true;
  fixture.request.max_new_tokens = 21;
  fixture.request.strategies = {"resa:b2p0.1f5/ar", "resa:b16p1f32/ar"};
  const GenerateReport report = run_request(fixture.request);
  CHECK(report.failure().empty());
  CHECK(report.runs[1].identical());
  const nlohmann::json json = report_json(report);
  const std::int64_t steps = json["runs"][0]["steps"];
  CHECK(json["runs"][0]["rectifications"] == steps / 5);
  CHECK(json["runs"][1]["rectifications"] == 0);
  CHECK(json["runs"][0]["phase_s"]["rectify"] > 0.0);
  CHECK(json["runs"][0]["ar_tokens_per_s"] > 0.0);
}

}  // namespace
}  // namespace versieve::engine
