// A planner table played live: who plays, on which prompts, and what is said of it.
#include "engine/measure/bench/planner_bench.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/measure/sweep/sweep.h"
#include "engine/run/speculate/reference.h"
#include "model/words/error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_table.h"

namespace versieve::engine {
namespace {

const std::vector<PrecisionClass> kNsaClasses = {
    PrecisionClass::kStrict, PrecisionClass::kReuseOnly, PrecisionClass::kApproxOnly};

// Attends as an NSA target does, or not.
std::string nsa_alone(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa ? "" : "another target's";
}

PlayedBucket tiny_bucket(std::int64_t candidates = 3, std::int64_t longest = 64) {
  return played_bucket(test::tiny_table(), test::tiny_table().classes,
                       {.bucket = 0, .longest = longest, .candidates = candidates}, nsa_alone);
}

// Every run takes ten steps of two tokens, at `tokens_per_s` in all rounds.
PromptPlay even_play(const PlayedBucket& bucket, double tokens_per_s) {
  PromptPlay play{.prompt = "a.txt", .tokens = 40, .form = PromptForm::kWhole, .runs = {}};
  for (std::size_t i = 0; i < bucket.runs.size(); ++i) {
    play.runs.push_back({.tokens_per_s = {tokens_per_s, tokens_per_s, tokens_per_s},
                         .step_us = {100.0, 100.0, 100.0},
                         .tokens = 20,
                         .steps = 10,
                         .yielded = 20.0,
                         .reference = reference_of(bucket.runs[i].first())});
  }
  return play;
}

struct BytesTokenizer final : Tokenizer {
  TokenIds encode_text(std::string_view text, SpecialsInText) const override {
    return {text.begin(), text.end()};
  }
  const TokenIds& before() const override { return before_; }
  const TokenIds& after() const override { return after_; }
  std::string decode(std::span<const std::int32_t>, SpecialsDecoded) const override { return {}; }
  std::int32_t id_count() const override { return 300; }

 private:
  TokenIds before_ = {256}, after_;
};

PromptTokens text_of(const std::string& name, std::int64_t length, std::int32_t letter) {
  PromptTokens prompt{.name = name, .tokens = {256}};
  prompt.tokens.resize(static_cast<std::size_t>(length), letter);
  return prompt;
}

}  // namespace

TEST_CASE("cells share the runs that they have in common") {
  const PlayedBucket bucket = tiny_bucket();
  REQUIRE(bucket.cells.size() == 4);
  const PlayedCell& strict = bucket.cells[0];
  const PlayedCell& reuse = bucket.cells[1];
  CHECK(bucket.runs[strict.plain].first().text() == "nsa/ar");
  CHECK(bucket.runs[strict.base].first().text() == "nsa/d3k3n12/bfs/c8e/F*");
  CHECK(bucket.runs[strict.base_single].first().text() == "nsa/d3k3n12/bfs/c1/F*");
  CHECK(bucket.runs[strict.first[0]].first().text() == "nsa/d3k2n6/dfs/c2e/F*");
  CHECK(strict.plain == reuse.plain);
  CHECK(strict.base == reuse.base);
  CHECK(strict.first[1] == reuse.first[1]);
  CHECK(strict.best_r != reuse.best_r);
  CHECK(bucket.runs[strict.best_r].plan.rule == GuardRule::kNextRanked);
  CHECK(bucket.runs[strict.best_p].plan.rule == GuardRule::kMostPromising);
  CHECK(bucket.runs[strict.best_p].ranked().size() == 4);  // plain decoding last
  CHECK(bucket.runs[*strict.never_moving].plan.constants.drop_ratio == 0.0);
  CHECK(bucket.cells[3].unplayed_because.find("another target's") != std::string::npos);
  CHECK(tiny_bucket(1).cells[0].first.size() == 1);
  PlanTable bare = test::tiny_table();
  bare.baselines.clear();
  CHECK(!played_bucket(bare, kNsaClasses, {}, nsa_alone).is_played());
}

TEST_CASE("a run that grows over a border has the next bucket's tuples") {
  const PlanTable table = test::bordered_table();
  const auto strict_of = [&](std::int64_t longest) {
    return played_bucket(table, {PrecisionClass::kStrict}, {.longest = longest}, nsa_alone);
  };
  const PlayedBucket within = strict_of(64);
  CHECK(within.runs[within.cells[0].best_r].plan.buckets.size() == 1);
  const PlayedBucket across = strict_of(65);
  const PlayedCell& cell = across.cells[0];
  // What stays the same is one tuple to the end.
  CHECK(across.runs[cell.plain].plan.buckets.size() == 1);
  CHECK(across.runs[cell.base].plan.buckets.size() == 1);
  CHECK(across.runs[cell.first[1]].plan.buckets.size() == 1);
  REQUIRE(across.runs[cell.first[0]].plan.buckets.size() == 2);
  CHECK(across.runs[cell.first[0]].plan.buckets[1].range == ContextBucket{64, 256});
  CHECK(across.runs[cell.first[0]].tuples()[1].text() == "nsa/d2k3n7/bfs/c1/F*");
  CHECK(across.runs[cell.best_p].plan.buckets.size() == 2);
  CHECK(across.runs[*cell.never_moving].plan.buckets.size() == 1);
  // A tuple of the next bucket that cannot run here.
  const PlayedBucket refused = played_bucket(
      table, {PrecisionClass::kStrict}, {.longest = 65}, [](const Strategy& strategy) {
        return strategy.text() == "nsa/d2k3n7/bfs/c1/F*" ? "not here" : "";
      });
  CHECK(refused.cells[0].unplayed_because == "'nsa/d2k3n7/bfs/c1/F*': not here");
  CHECK(refused.runs.empty());
}

TEST_CASE("a baseline in exact groups is played as it is and in groups of one") {
  PlanTable table = test::tiny_table();
  table.baselines[1].evaluation = test::told("nsa/d3k3n12/bfs/c4e/F*");
  CHECK(coarsened_base(table, 0)->text() == "nsa/d3k3n12/bfs/c4e/F*");
  CHECK(single_base(table, 0)->text() == "nsa/d3k3n12/bfs/c1/F*");
  table.baselines.clear();
  CHECK(!coarsened_base(table, 0));
}

TEST_CASE("prompts of a bucket's length play it, longer ones are cut, texts are joined if asked") {
  const BytesTokenizer tokenizer;
  const std::vector<PromptTokens> prompts = {text_of("a", 10, 'a'), text_of("b", 90, 'b'),
                                             text_of("c", 300, 'c'), text_of("d", 80, 'd')};
  PromptRequest request{.bucket = {64, 128}, .count = 3, .most = 1000};
  std::vector<PlayedPrompt> played = prompts_for(request, prompts, tokenizer);
  REQUIRE(played.size() == 3);
  CHECK(played[0].name == "b");
  CHECK(played[1].name == "d");
  CHECK(played[1].form == PromptForm::kWhole);
  CHECK(played[2].name == "c");
  CHECK(played[2].form == PromptForm::kCut);
  CHECK(played[2].tokens.size() == 96);
  request.count = 1;
  CHECK(prompts_for(request, prompts, tokenizer).size() == 1);
  // What the model has no room for is cut too; where it takes no context of the bucket, none plays.
  request = {.bucket = {64, 128}, .count = 4, .most = 85};
  played = prompts_for(request, prompts, tokenizer);
  REQUIRE(played.size() == 3);
  CHECK(played[0].name == "d");
  CHECK(played[1].tokens.size() == 85);
  request.most = 60;
  CHECK(prompts_for(request, prompts, tokenizer).empty());
  // No prompt is as long as 340 tokens.
  request = {.bucket = {340, 400}, .count = 2, .most = 1000};
  CHECK(prompts_for(request, prompts, tokenizer).empty());
  request.joins_texts = true;
  played = prompts_for(request, prompts, tokenizer);
  REQUIRE(played.size() == 2);
  CHECK(played[0].form == PromptForm::kJoined);
  CHECK(played[0].tokens.size() == 370);
  CHECK(played[0].tokens[0] == 256);
  CHECK(std::count(played[0].tokens.begin(), played[0].tokens.end(), 256) == 1);
  CHECK(played[0].tokens[1] == 'a');
  CHECK(played[1].tokens[1] == 'c');
  request.bucket = {500, 600};
  CHECK(prompts_for(request, prompts, tokenizer).empty());
}

TEST_CASE("rows are medians over prompts, ratios are taken prompt by prompt") {
  const PlanTable table = test::tiny_table();
  const PlayedBucket bucket = tiny_bucket();
  std::vector<PromptPlay> plays = {even_play(bucket, 20000.0), even_play(bucket, 10000.0),
                                   even_play(bucket, 40000.0)};
  const auto slow_plain = [&](PromptPlay& play, double tokens_per_s) {
    play.runs[bucket.cells[0].plain].tokens_per_s = {tokens_per_s, tokens_per_s, tokens_per_s};
  };
  slow_plain(plays[0], 10000.0);
  slow_plain(plays[1], 5000.0);
  slow_plain(plays[2], 10000.0);
  plays[1].runs[bucket.cells[0].first[2]].tokens_per_s = {11000.0, 12000.0, 13000.0};
  plays[2].runs[bucket.cells[0].best_p].moved = true;
  plays[0].runs[*bucket.cells[0].never_moving].step_us = {103.0, 104.0, 109.0};
  const std::vector<PlannerCell> cells = cells_of(table, bucket, plays);
  REQUIRE(cells.size() == 3);
  const PlannerCell& strict = cells[0];
  CHECK(strict.prompts == 3);
  CHECK(strict.row(Contender::kStatic).tokens_per_s.median == 20000.0);
  CHECK(strict.row(Contender::kStatic).tokens_per_s.median_low == 10000.0);
  CHECK(strict.row(Contender::kStatic).over_plain.median == 2.0);
  CHECK(strict.row(Contender::kStatic).over_plain.median_high == 4.0);
  CHECK(strict.row(Contender::kStatic).over_base.median == 1.0);
  CHECK(strict.row(Contender::kStatic).tokens_a_step == 2.0);
  // 60 tokens in 20 / 20,000 + 20 / 10,000 + 20 / 40,000 s.
  CHECK(strict.row(Contender::kStatic).pooled_tokens_per_s == Approx(60.0 / 0.0035));
  CHECK(strict.row(Contender::kStatic).predicted->tokens_per_s == 20000.0);
  CHECK(strict.row(Contender::kStatic).yielded_per_s == Approx(60.0 / 0.0035));
  CHECK(!*strict.row(Contender::kStatic).is_within);  // its median is, but all of it is not
  CHECK(!*strict.row(Contender::kPlain).is_within);   // 10,000 against 20,000
  CHECK(!strict.row(Contender::kBase).predicted);     // the table has it in groups of one alone
  CHECK(strict.row(Contender::kBaseSingle).predicted);
  CHECK(!strict.row(Contender::kBestR).predicted);
  CHECK(strict.row(Contender::kBestR).moved == 0);
  CHECK(strict.row(Contender::kBestP).moved == 1);
  CHECK(strict.row(Contender::kOracle).over_base.median_high == Approx(1.2));
  CHECK(strict.row(Contender::kOracle).strategy == "nsa/d3k2n6/dfs/c2e/F*");
  CHECK(strict.guard_us->median == 0.0);
  CHECK(strict.guard_us->median_high == 4.0);
  CHECK(PlannerBench{.cells = cells}.cell_coverage().within == 0);
  // Where one request is half or twice the mean of many, three are not far off.
  PlanTable wide = table;
  wide.requests = 12;
  for (PlanEntry& e : wide.entries) {
    e.evaluation.text_log_error = 0.5;
  }
  for (PlanBaseline& b : wide.baselines) {
    b.evaluation.text_log_error = b.role == "fixed" ? 0.5 : 0.0;
  }
  PlannerBench bench{.cells = cells_of(wide, bucket, plays)};
  const Predicted told = *bench.cells[0].row(Contender::kStatic).predicted;
  CHECK(told.low == Approx(20000.0 * std::exp(-1.6449 * 0.5 / std::sqrt(3.0))).epsilon(0.001));
  CHECK(told.high == Approx(20000.0 * std::exp(1.6449 * 0.5 / std::sqrt(3.0))).epsilon(0.001));
  CHECK(*bench.cells[0].row(Contender::kStatic).is_within);
  CHECK(bench.cells[0].row(Contender::kStatic).texts.size() == 3);
  CHECK(*bench.mean_gain(Contender::kStatic) == 0.0);
  CHECK(*bench.mean_gain_over_plain(Contender::kStatic) == 1.0);
  CHECK(bench.cell_coverage().all == 3);
  CHECK(bench.cell_coverage().within == 3);
  CHECK(bench.row_coverage().all == 5);  // and plain decoding, and the baseline, once
  CHECK(bench.row_coverage().within == 4);
  CHECK(bench.rows_of_measured_steps().all == 5);
  CHECK(bench.rows_of_measured_steps().within == 0);
  bench.cells[0].rows[0].predicted->source = Provenance::kMeasured;
  CHECK(bench.rows_of_measured_steps().within == 1);
  CHECK(!PlannerBench{}.mean_gain(Contender::kStatic));
  // Three prompts are too few for an interval of the median.
  const nlohmann::json json = nlohmann::json::parse(planner_bench_json(bench));
  CHECK(json.at("rows")[3].at("tokens_per_s").at("count") == 3);
  CHECK(json.at("rows")[3].at("tokens_per_s").at("low").is_null());
  CHECK_THAT(planner_bench_text(bench), Catch::Contains(" of 3 ") && !Catch::Contains("[ 10000"));
  for (int more = 0; more < 3; ++more) {
    plays.push_back(even_play(bucket, 30000.0));
  }
  bench.cells = cells_of(table, bucket, plays);
  CHECK(
      nlohmann::json::parse(planner_bench_json(bench)).at("rows")[3].at("tokens_per_s").at("low") ==
      10000.0);
  CHECK_THAT(planner_bench_text(bench), Catch::Contains("[ 10000"));
}

TEST_CASE("verdicts are said with the interval that they are judged by") {
  const PlayedBucket bucket = tiny_bucket();
  const auto with = [&](std::vector<double> of_best_r) {
    std::vector<PromptPlay> plays;
    for (const double tokens_per_s : of_best_r) {
      plays.push_back(even_play(bucket, 1000.0));
      for (const std::size_t cell : {0, 1, 2}) {
        plays.back().runs[bucket.cells[cell].best_r].tokens_per_s = {tokens_per_s, tokens_per_s,
                                                                     tokens_per_s};
      }
    }
    return PlannerBench{.cells = cells_of(test::tiny_table(), bucket, plays)}.verdicts();
  };
  const std::vector<Verdict> good = with({1100.0, 1200.0, 1300.0});
  REQUIRE(good.size() == 7);
  CHECK(good[1].claim == "best+R gains 14.4 % over base in the mean");
  CHECK(*good[1].holds);
  CHECK(good[1].gain.mean == Approx(0.2));
  // 4.3 standard errors of 0.1 / sqrt(3), by the expansion 4.17.
  CHECK(*good[1].gain.low == Approx(0.2 - 4.17 * 0.1 / std::sqrt(3.0)).epsilon(0.01));
  CHECK(good[1].detail == "3 prompts");  // not nine: classes of a prompt are together
  CHECK(!*good[0].holds);
  CHECK(good[2].claim == "best+R >= static in the mean");
  CHECK(*good[2].holds);
  CHECK(*good[3].holds);
  CHECK(!*good[6].holds);  // 1,000 against 20,000
  const std::vector<Verdict> noisy = with({900.0, 1000.0, 1070.0});
  CHECK(*noisy[2].holds);
  CHECK_THAT(noisy[2].detail, Catch::Contains("within noise"));
  CHECK(*noisy[3].holds);
  const std::vector<Verdict> bad = with({899.0, 900.0, 901.0});
  CHECK(!*bad[2].holds);
  CHECK(!*bad[3].holds);
  CHECK_THAT(bad[3].detail, Catch::Contains("0-64, Strict") && Catch::Contains("3 of 3 cells"));
  const std::vector<Verdict> few = with({900.0, 900.0});
  CHECK(!few[3].holds);
  CHECK(!*few[2].holds);
  CHECK(!PlannerBench{}.verdicts()[0].holds);
}

TEST_CASE("a text that is not its reference's is a failure where it is promised") {
  const PlayedBucket bucket = tiny_bucket();
  PromptPlay play = even_play(bucket, 100.0);
  play.runs[bucket.cells[2].first[0]].divergence = Divergence{4, 0.5F};  // approximate
  PlannerBench bench{.divergences = divergences_of(bucket, play)};
  REQUIRE(bench.divergences.size() == 1);
  CHECK(!bench.divergences[0].is_promised);
  CHECK(bench.failure() == "");
  play.runs[bucket.cells[1].first[0]].divergence = Divergence{7, 0.25F};  // by its own schedule
  bench.divergences = divergences_of(bucket, play);
  REQUIRE(bench.divergences.size() == 2);
  CHECK_THAT(bench.failure(), Catch::Contains("nsa/d3k2n6/dfs/c2e/(FR)*") &&
                                  Catch::Contains("nsa/ar/bfs/c1/(FR)*") &&
                                  Catch::Contains("generated token 7") &&
                                  Catch::Contains("a.txt") && Catch::Contains("0-64"));
  bench.cells = cells_of(test::tiny_table(), bucket, {play});
  CHECK(bench.cells[1].row(Contender::kStatic).same_text == 0);
  CHECK(bench.cells[1].row(Contender::kStatic).compared == 1);
  CHECK(nlohmann::json::parse(planner_bench_json(bench)).at("reason") == bench.failure());
  CHECK_THAT(planner_bench_text(bench),
             Catch::Contains("1 where it is promised, 1 where it is not"));
}

TEST_CASE("the steps that a table rests on are a sweep") {
  PlanTable table = test::tiny_table();
  const std::string text = sweep_of_steps(table, kNsaClasses, 2, "chat", "calibration");
  const SweepPlan plan = sweep_from_json(text, "steps", Backend::kCuda);
  // Plain decoding, two baselines, two Strict tuples, one that reuses, one with approximate groups.
  REQUIRE(plan.points.size() == 3 * 7);
  CHECK(plan.points[0].strategy == "nsa/ar");
  CHECK(plan.points[0].model == "nsa-1b");
  CHECK(plan.points[0].context_len == 32);
  CHECK(plan.points[1].strategy == "nsa/d3k3n12/bfs/c8e/F*");
  CHECK(plan.points[5].strategy == "nsa/d3k2n6/dfs/c2e/(FR)*");
  CHECK(plan.points[7].context_len == 160);
  CHECK(!wants_pair(plan));
  table.draft_vocab = 32000;
  CHECK(sweep_from_json(sweep_of_steps(table, kNsaClasses, 2, "", ""), "steps", Backend::kCuda)
            .points[0]
            .model == "nsa-1b:v32000");
  table.sources = PlanSources{.pair = byte_pair()};
  const std::string own = sweep_of_steps(table, kNsaClasses, 2, "chat", "calibration");
  CHECK(wants_pair(sweep_from_json(own, "steps", Backend::kCuda)));
  table.entries.clear();
  table.baselines.clear();
  CHECK(sweep_of_steps(table, kNsaClasses, 2, "chat", "calibration") == "");
}

}  // namespace versieve::engine
