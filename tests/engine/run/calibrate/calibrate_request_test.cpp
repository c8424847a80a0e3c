// `versieve calibrate` from files to files: a random tiny model, and the trained pair.
#include "engine/run/calibrate/calibrate_request.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/calibrate/text_loss.h"
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
    request.model = folder.path() / "model";
    test::write_tiny_pair(request.model, model);
    request.texts = {text("long.txt", 300)};
    request.budget = 1e-3;
    request.backend = "cpu";
    request.dtype = "f64";
    request.threads = 1;
  }
  std::filesystem::path text(const std::string& name, std::int64_t bytes) const {
    const std::filesystem::path path = folder.path() / name;
    std::string content;
    while (static_cast<std::int64_t>(content.size()) < bytes) {
      content += std::to_string(content.size() * 7919) + " ";
    }
    std::ofstream(path) << content.substr(0, static_cast<std::size_t>(bytes));
    return path;
  }
  ExitCode code() const {
    try {
      run_calibration(request);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  }

  test::TempFolder folder;
  CalibrateRequest request;
};

TEST_CASE("a calibration is written with its whole curve, and can be had again") {
  Fixture fixture;
  const CalibrateReport report = run_calibration(fixture.request);
  const nlohmann::ordered_json json = calibration_json(report);
  CHECK(json.at("format") == "versieve schedule");
  CHECK(json.at("texts")[0].at("tokens") == 301);
  CHECK(json.at("scored_tokens") == 300 - 80);  // five blocks of 16 are selected
  REQUIRE(json.at("curve").size() >= 1);
  CHECK(json.at("curve")[0].at("schedule") == "FFF");
  CHECK(json.at("curve")[0].at("layer").is_null());
  for (const nlohmann::ordered_json& step : json.at("curve")) {
    CHECK(step.at("schedule").get<std::string>()[0] == 'F');
    CHECK(step.at("rise").get<double>() <= 1e-3);
  }
  CHECK(json.at("schedule") == json.at("curve").back().at("schedule"));
  CHECK(calibration_json(run_calibration(fixture.request)) == json);
  fixture.request.threads = 2;
  CHECK(calibration_json(run_calibration(fixture.request)) == json);
  CHECK_THAT(calibration_text(report), Catch::Contains("schedule " + report.search.schedule()));
}

TEST_CASE("the schedule found is a part of a strategy that the engine runs") {
  Fixture fixture;
  fixture.request.budget = 100.0;
  const CalibrateReport report = run_calibration(fixture.request);
  CHECK(report.search.schedule() == "FRR");
  CHECK(!report.search.refused);
  const std::string plain = calibration_json(report).at("strategy");
  CHECK(Strategy::parse(plain).schedule_for(3) == "FRR");
  GenerateRequest generate{.model = fixture.request.model,
                           .prompt = {.text = fixture.request.texts[0]},
                           .strategies = {plain, "nsa/d4k3n12/dfs/c4e/FRR"},
                           .compares_ar = true,
                           .max_new_tokens = 16,
                           .backend = "cpu",
                           .threads = 1};
  const GenerateReport generated = run_request(generate);
  CHECK(generated.failure() == "");
  CHECK(generated.runs.at(1).identical());
}

TEST_CASE("what cannot be calibrated is refused with its code") {
  Fixture fixture;
  CalibrateRequest& request = fixture.request;
  const CalibrateRequest good = request;
  const auto expect = [&](ExitCode code, const auto& spoil) {
    request = good;
    spoil();
    CHECK(fixture.code() == code);
  };
  expect(ExitCode::kUsage, [&] { request.budget = -1e-9; });
  expect(ExitCode::kUsage, [&] { request.budget = std::nan(""); });
  expect(ExitCode::kUsage, [&] { request.texts.clear(); });
  expect(ExitCode::kUsage, [&] { request.backend = "tpu"; });
  expect(ExitCode::kUsage, [&] { request.dtype = "f16"; });
  expect(ExitCode::kBadInput, [&] { request.texts.push_back(fixture.folder / "absent.txt"); });
  expect(ExitCode::kBadInput, [&] { request.texts.push_back(fixture.text("over.txt", 5000)); });
  expect(ExitCode::kBadInput, [&] { request.model = fixture.folder / "absent"; });
  expect(ExitCode::kAnswerNo, [&] { request.texts = {fixture.text("short.txt", 80)}; });
  expect(ExitCode::kDone, [&] { request.texts = {fixture.text("just.txt", 81)}; });
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  Fixture other(dense);
  CHECK(other.code() == ExitCode::kAnswerNo);
}

TEST_CASE(
    "the trained model predicts a held-out text, and reuse in all layers costs it something") {
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  const Checkpoint checkpoint = load_target(demo / "nsa");
  Target<float> target = make_target(*ops, checkpoint, nullptr);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(demo / "nsa", checkpoint.shape);
  const std::string text = read_prompt(demo / "prompts/calibration/code-4000-2.txt");
  TextLoss<float> loss(*ops, target, {tokenizer->encode(text.substr(0, 1500))});
  CHECK(loss.scored_tokens() == 1500 - 1024);
  const double all_refresh = loss("FFFFFFFF");
  CHECK(all_refresh < 2.0);  // a guess among 256 bytes: 5.5 nats
  CHECK(loss("FRRRRRRR") > all_refresh);
}

}  // namespace
}  // namespace versieve::engine
