// Acceptance points: windows of real text, the loop rule, and the trained pair on the CPU.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <numeric>

#include "engine/io/tokenizer/byte_tokenizer.h"
#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/text_windows.h"
#include "model/words/error.h"
#include "tests/engine/measure/sweep/campaign_case.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const std::filesystem::path kDemo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
const PairSource kPair{.model = kDemo / "nsa", .prompts = listed_prompts({kDemo / "prompts"})};

std::vector<std::int32_t> repeated(int period, int count) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(i % period);
  }
  return tokens;
}

std::vector<TextWindow> windows(std::int64_t context_len, std::int64_t count,
                                bool as_prompts = false) {
  const ByteTokenizer tokenizer(260, 256, 257, 258);
  return PromptTexts(listed_prompts({kDemo / "prompts"}), tokenizer, {})
      .windows({.regime = "code",
                .split = "test",
                .context_len = context_len,
                .continuation_len = 100,
                .count = count,
                .as_prompts = as_prompts});
}

}  // namespace

TEST_CASE("a window is a context from BOS on and what its author wrote next") {
  const std::vector<TextWindow> found = windows(2000, 3);
  REQUIRE(found.size() == 3);
  CHECK(found[0].prompt.size() == 2000);
  CHECK(found[0].prompt[0] == 256);
  CHECK(found[0].continuation.size() == 100);
  CHECK(found[0].continuation[0] < 256);
  CHECK(found[0].file != found[1].file);
  const std::string text = read_prompt(kDemo / "prompts" / found[0].file);
  CHECK(found[0].prompt[1] == static_cast<unsigned char>(text[0]));
  CHECK(found[0].continuation[0] == static_cast<unsigned char>(text[1999]));
}

TEST_CASE("a text gives further windows only when every file gave one") {
  const std::vector<TextWindow> found = windows(10000, 3);
  REQUIRE(found.size() == 3);  // one file is that long
  CHECK(found[0].file == found[1].file);
  CHECK(found[0].prompt != found[1].prompt);
  CHECK(found[0].name() != found[1].name());
  CHECK(windows(200000, 3).empty());
}

TEST_CASE("as prompts shorter texts of the planner's range come whole, and joined ones fill up") {
  const std::vector<TextWindow> found = windows(2048, 12, true);
  REQUIRE(found.size() == 12);
  CHECK(found[0].name() == "test/code-400-0.txt@0");
  CHECK(found[0].prompt.size() == 401);  // with BOS
  CHECK(found[0].continuation.empty());
  CHECK(found[5].name() == "test/code-4000-5.txt@0");
  CHECK(found[5].prompt.size() == 2048);
  CHECK(found[5].continuation.size() == 100);
  CHECK(found[10].start == 1024);  // every file gave one
  const std::vector<TextWindow> longer = windows(6144, 30, true);
  std::int64_t joined = 0;
  for (const TextWindow& window : longer) {
    CHECK(window.prompt.size() > 4096);  // the range's shortest
    CHECK(window.prompt.size() <= 6144);
    joined += window.file.back() == '+' ? 1 : 0;
  }
  CHECK(longer.front().name() == "test/code-8000-7.txt@0");
  CHECK(joined == 10);  // from each file on
  CHECK(windows(6144, 30).size() == longer.size() - 10);
  CHECK(windows(200000, 3, true).empty());
}

TEST_CASE("where no text is as long as a window all of them are one") {
  const std::vector<TextWindow> found = windows(20000, 2);  // the longest file has 16,000 bytes
  REQUIRE(found.size() == 2);
  CHECK(found[0].name() == "test/code-400-0.txt+@0");
  CHECK(found[0].prompt.size() == 20000);
  const std::string first = read_prompt(kDemo / "prompts/test/code-400-0.txt");
  const std::string second = read_prompt(kDemo / "prompts/test/code-800-1.txt");
  CHECK(found[0].prompt[1] == static_cast<unsigned char>(first[0]));
  CHECK(found[0].prompt[1 + first.size()] == static_cast<unsigned char>(second[0]));
  CHECK(found[1].start == 1024);
}

TEST_CASE("text that repeats itself four times is a loop, real text is none") {
  CHECK(is_looping(repeated(5, 100)));
  CHECK(is_looping(repeated(30, 100)));
  CHECK(!is_looping(repeated(30, 80)));  // three periods want 90
  CHECK(!is_looping(repeated(5, 40)));   // shorter than 64
  CHECK(!is_looping(windows(2000, 1)[0].prompt));
  CHECK(!is_looping(std::vector<std::int32_t>{1, 2, 3}));
}

TEST_CASE("the trained pair's points hold steps, overlap and the teacher's figure") {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "prompts": 1, "new_tokens": 20, "grids": [
          {"workload": "acceptance", "regime": "code", "context_len": 300, "dtype": "f32",
           "draft": ["ar", "d3k2n8"]}]})",
      "test", Backend::kCpu);
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 2, .pair = kPair});
  REQUIRE(points.size() == 2);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    REQUIRE(point.acceptance);
    const std::vector<std::int64_t>& histogram = point.acceptance->accepted_histogram;
    CHECK(std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0}) ==
          point.acceptance->steps);
    CHECK(point.acceptance->generated_tokens >= 20);
    const std::vector<TextYield>& texts = point.acceptance->texts;
    REQUIRE(texts.size() == 1);
    CHECK(texts[0].text == "calibration/code-700-0.txt@0");
    CHECK(texts[0].steps == point.acceptance->steps);
    CHECK(static_cast<double>(texts[0].tokens) ==
          Approx(point.acceptance->accepted_per_step * static_cast<double>(texts[0].steps)));
    CHECK(point.acceptance->looping == texts[0].looping);
    CHECK(point.time_ns.empty());
    CHECK(*point.unique_blocks > 1.0);
  }
  CHECK(points[0].acceptance->accepted_per_step == 1.0);
  CHECK(*points[0].acceptance->teacher_forced == 1.0);
  CHECK(!points[0].adjacent_overlap);
  for (const PointMeasurement& point : points) {
    REQUIRE(point.acceptance->walks.size() == 1);
    const AcceptanceWalk& walk = point.acceptance->walks[0];
    CHECK(walk.text == "calibration/code-700-0.txt@0");
    const double yielded = std::accumulate(walk.yields.begin(), walk.yields.end(), 0.0);
    CHECK(yielded / static_cast<double>(walk.yields.size()) ==
          Approx(*point.acceptance->teacher_forced));
    CHECK(yielded >= 255);  // the whole continuation, of which the first token is given
  }
  CHECK(*points[1].acceptance->teacher_forced > 1.3);  // a trained draft is of use on code
  CHECK(*points[1].adjacent_overlap > 0.1);
  CHECK(points[0].sharing.empty());
  std::map<SharingAlong, double> overlap;
  std::map<SharingAlong, std::int64_t> layers;
  for (const BlockSharing& row : points[1].sharing) {
    CHECK(row.steps > 1);
    overlap[row.along] += *row.overlap[1];
    layers[row.along] += 1;
  }
  CHECK(layers.size() == 3);
  const double count = static_cast<double>(layers[SharingAlong::kBfs]);
  CHECK(count == 8.0);
  CHECK(overlap[SharingAlong::kBfs] / count == Approx(*points[1].adjacent_overlap));
  CHECK(overlap[SharingAlong::kDfs] / count > 0.1);
}

TEST_CASE("every text is counted, loops among them, and as many are walked as asked for") {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "prompts": 3, "walks": 1, "new_tokens": 24, "grids": [
          {"workload": "acceptance", "regime": "code", "context_len": 300, "dtype": "f32",
           "draft": ["d3k2n8"]}]})",
      "test", Backend::kCpu);
  CHECK(configuration_json(plan).find("\"walks\":1") != std::string::npos);
  PointMeasurement point;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu), {.threads = 2, .pair = kPair},
      [&](const PointMeasurement& measured) { point = measured; }, [](const CampaignProgress&) {});
  REQUIRE(point.status == PointStatus::kOk);
  const AcceptanceMeasurement& a = *point.acceptance;
  REQUIRE(a.texts.size() == 3);
  CHECK(a.walks.size() == 1);
  std::int64_t steps = 0, tokens = 0;
  for (const TextYield& text : a.texts) {
    steps += text.steps;
    tokens += text.tokens;
  }
  CHECK(steps == a.steps);
  CHECK(a.accepted_per_step == Approx(static_cast<double>(tokens) / static_cast<double>(steps)));
  CHECK(a.texts[0].text != a.texts[1].text);
}

TEST_CASE("points of another pair than the one at hand are refused, by hash as by name") {
  for (const PairId& other : {PairId{"demo-nsa", std::string(64, 'a')}, PairId{"other", ""}}) {
    const SweepPlan plan = sweep_from_json(
        R"({"name": "test", "grids": [{"workload": "acceptance", "regime": "code",
            "context_len": 300, "dtype": "f32"}]})",
        "test", Backend::kCpu, other);
    REQUIRE(plan.points.size() == 1);
    CHECK(plan.points[0].model == other.name);
    CHECK(plan.points[0].pair == other.sha256);
    PointMeasurement refused;
    run_campaign(
        plan, plan.points, open_campaign(plan, Backend::kCpu), {.threads = 1, .pair = kPair},
        [&](const PointMeasurement& point) { refused = point; }, [](const CampaignProgress&) {});
    CHECK(refused.status == PointStatus::kRefused);
    CHECK(refused.reason.find("the one at hand is demo-nsa (sha256 b795a4c58339)") !=
          std::string::npos);
  }
}

TEST_CASE("text that is not there is refused with a sentence") {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "grids": [{"workload": "acceptance", "regime": ["verse", "code"],
          "context_len": 500000, "dtype": "f32"}]})",
      "test", Backend::kCpu);
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = kPair});
  REQUIRE(points.size() == 2);
  CHECK(points[0].status == PointStatus::kRefused);
  CHECK(points[0].reason.find("verse") != std::string::npos);
  CHECK(points[1].status == PointStatus::kRefused);
}
