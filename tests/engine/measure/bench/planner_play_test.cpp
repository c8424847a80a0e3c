// A planner table played live on a tiny pair.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/measure/bench/planner_bench.h"
#include "model/words/error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_table.h"

namespace versieve::engine {
namespace {

struct Fixture {
  Fixture() {
    test::write_tiny_pair(folder.path() / "model", {});
    std::filesystem::create_directory(folder.path() / "prompts");
    std::ofstream(folder.path() / "prompts/short.txt") << "The quick brown fox jumps.";
    std::ofstream(folder.path() / "prompts/long.txt") << std::string(120, 'x');
    options.model = folder.path() / "model";
    options.prompts = {folder.path() / "prompts"};
    options.max_new_tokens = 16;
    options.rounds = 2;
    options.backend = "cpu";
    options.threads = 1;
  }

  PlannerBench bench(const PlanTable& table = test::tiny_table()) const {
    return bench_planner(table, options, [](const PlannerProgress&) {});
  }
  ExitCode code(const PlanTable& table = test::tiny_table()) const {
    try {
      bench(table);
    } catch (const Error& error) {
      CHECK(!std::string(error.what()).empty());
      return error.code();
    }
    return ExitCode::kDone;
  }

  test::TempFolder folder;
  PlannerBenchOptions options;
};

}  // namespace

TEST_CASE("a table is played by a tiny pair, and all promised texts are kept") {
  Fixture fixture;
  std::vector<std::string> seen;
  const PlannerBench bench =
      bench_planner(test::tiny_table(), fixture.options,
                    [&](const PlannerProgress& at) { seen.push_back(at.name); });
  CHECK(bench.failure() == "");
  // 0-64: the short text, and the long one cut; 64-256: the long one; 256-1024: none.
  REQUIRE(bench.cells.size() == 6);
  CHECK(seen == std::vector<std::string>{"short.txt", "long.txt", "long.txt"});
  CHECK(bench.prompts.at(0).prompts.at(1).form == PromptForm::kCut);
  CHECK(bench.prompts.at(0).prompts.at(1).tokens == 32);
  for (const PlannerCell& cell : bench.cells) {
    REQUIRE(cell.rows.size() == std::size(kContenders));
    CHECK(cell.row(Contender::kPlain).over_plain.median == 1.0);
    CHECK(cell.row(Contender::kBase).over_base.median == 1.0);
    CHECK(cell.row(Contender::kPlain).tokens_a_step == 1.0);
    CHECK(cell.row(Contender::kOracle).over_base.median >=
          cell.row(Contender::kStatic).over_base.median);
    CHECK(cell.guard_us);
    for (const PlannerRow& row : cell.rows) {
      CHECK(row.tokens_per_s.median > 0.0);
      CHECK(row.tokens_a_step >= 1.0);
      // A guard may move to another schedule, whose text is another.
      const bool one_text =
          cell.precision == PrecisionClass::kStrict ||
          (row.contender != Contender::kBestR && row.contender != Contender::kBestP);
      if (row.promises_text && one_text) {
        CHECK(row.compared == cell.prompts);
        CHECK(row.same_text == cell.prompts);
      }
    }
  }
  const nlohmann::json json = nlohmann::json::parse(planner_bench_json(bench));
  CHECK(json.at("rows").size() == 6 * 7);
  const nlohmann::json& row = json.at("rows")[3];
  CHECK(row.at("contender") == "static");
  CHECK(row.at("class") == "Strict");
  CHECK(row.at("context") == nlohmann::json({0, 64}));
  CHECK(row.at("strategy") == "nsa/d3k2n6/dfs/c2e/F*");
  CHECK(row.at("predicted").at("tokens_per_s") == 20000.0);
  CHECK(row.at("within_90").is_boolean());
  CHECK(json.at("mean_gain").at("static_best").is_number());
  CHECK(json.at("within_90").at("cells").at("all") == 6);
  CHECK(json.at("not_played").size() == 4);  // Sparse in each bucket, and the last bucket
  CHECK(json.at("not_played")[3].at("reason") == "no prompt reaches it");
  CHECK(json.at("launch") == "stream");
  CHECK_THAT(planner_bench_text(bench), Catch::Contains("0-64 tokens, Strict, 2 prompts") &&
                                            Catch::Contains("not played: 256-1024: no prompt"));
}

TEST_CASE("above temperature 0 the texts are those of plain sampling by the same seed") {
  Fixture fixture;
  fixture.options.temperature = 0.9;
  fixture.options.seed = 5;
  fixture.options.rounds = 1;
  fixture.options.buckets = {{0, 64}};
  fixture.options.classes = {PrecisionClass::kStrict};
  const PlannerBench bench = fixture.bench();
  CHECK(bench.failure() == "");
  REQUIRE(bench.cells.size() == 1);
  CHECK(bench.cells[0].row(Contender::kStatic).compared == 2);
}

TEST_CASE("chains that sigmoids accept are played, and held against no plain text") {
  Fixture fixture;
  PlanTable table = test::tiny_table();
  table.classes = {PrecisionClass::kApproxSampling};
  table.entries.push_back({.bucket = 0,
                           .precision = PrecisionClass::kApproxSampling,
                           .rank = 1,
                           .evaluation = test::told("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid")});
  fixture.options.temperature = 0.7;
  fixture.options.rounds = 1;
  fixture.options.buckets = {{0, 64}};
  const PlannerBench bench = fixture.bench(table);
  CHECK(bench.failure() == "");
  REQUIRE(bench.cells.size() == 1);
  CHECK(bench.cells[0].row(Contender::kStatic).compared == 0);
  CHECK(bench.cells[0].row(Contender::kStatic).pooled_tokens_per_s > 0.0);
  CHECK(bench.cells[0].row(Contender::kBase).compared == 2);

  fixture.options.temperature = 0.0;
  CHECK(fixture.code(table) == ExitCode::kAnswerNo);
}

TEST_CASE("a guard that moves is seen, and the text stays") {
  Fixture fixture;
  PlanTable table = test::tiny_table();
  table.guard = {.drop_ratio = 100.0, .warmup = 0, .hysteresis = 1};
  fixture.options.classes = {PrecisionClass::kStrict};
  fixture.options.max_new_tokens = 40;
  const PlannerBench bench = fixture.bench(table);
  CHECK(bench.failure() == "");
  CHECK(bench.cells.at(0).row(Contender::kBestR).moved == 2);
  CHECK(bench.cells.at(0).row(Contender::kBestR).same_text == 2);
  CHECK(bench.cells.at(0).row(Contender::kStatic).moved == 0);
}

TEST_CASE("the guard's constants are changed one at a time where that is asked for") {
  Fixture fixture;
  fixture.options.classes = {PrecisionClass::kStrict};
  fixture.options.buckets = {{0, 64}};
  fixture.options.rounds = 1;
  CHECK(fixture.bench().settings().empty());
  fixture.options.sweeps_guard = true;
  PlanTable table = test::tiny_table();
  table.guard.warmup = 0;
  table.guard.drop_ratio = 100.0;
  table.guard.hysteresis = 3;
  const PlannerBench bench = fixture.bench(table);
  CHECK(bench.failure() == "");
  const std::vector<SettingRow> settings = bench.settings();
  REQUIRE(settings.size() == 9);
  CHECK(settings[0].name == "as given");
  CHECK(settings[0].best_r ==
        Approx(bench.cells.at(0).row(Contender::kBestR).over_base.median - 1.0));
  CHECK(settings[0].moved_r == 2);
  CHECK(settings[6].name == "warmup 16");
  CHECK(settings[6].moved_r == 0);  // no more than 16 tokens are generated
  CHECK(nlohmann::json::parse(planner_bench_json(bench)).at("settings")[6].at("moved") == 0);
  CHECK_THAT(planner_bench_text(bench), Catch::Contains("hysteresis 10"));
}

TEST_CASE(
    "a context that crosses a border goes on by the next bucket's tuples, and keeps its text") {
  Fixture fixture;
  fixture.options.classes = {PrecisionClass::kStrict};
  fixture.options.buckets = {{0, 64}};
  fixture.options.max_new_tokens = 48;  // the cut prompt's 32 grow to 80
  fixture.options.rounds = 1;
  const PlannerBench bench = fixture.bench(test::bordered_table());
  CHECK(bench.failure() == "");
  const PlannerCell& cell = bench.cells.at(0);
  CHECK(cell.prompts == 2);
  CHECK(cell.growing >= 1);
  CHECK(cell.row(Contender::kStatic).same_text == 2);
  CHECK(cell.row(Contender::kBestR).same_text == 2);
  CHECK(cell.row(Contender::kStatic).moved == 0);  // a border is no move of a guard
  CHECK_THAT(planner_bench_text(bench), Catch::Contains("grow into the next bucket"));
  // One that stays in its bucket.
  fixture.options.max_new_tokens = 8;
  CHECK(fixture.bench(test::bordered_table()).cells.at(0).growing == 0);
}

TEST_CASE("a law gives each tuple what the table expects of it, or of one that accepts the same") {
  PlanTable table = test::tiny_table();
  table.entries[0].evaluation.expected_accepted = 2.5;
  const auto expected = [&](const char* text, std::int64_t bucket = 0) {
    return expected_tokens(table, bucket, Strategy::parse(text));
  };
  CHECK(expected("nsa/d3k2n6/dfs/c2e/F*") == 2.5);
  CHECK(expected("nsa/d3k2n6/bfs/c1/F*") == 2.5);  // exact groups change nothing
  CHECK(!expected("nsa/d3k2n6/bfs/c2a/F*"));
  CHECK(!expected("nsa/d3k2n7/bfs/c1/F*"));
  CHECK(expected("nsa/d3k3n12/bfs/c8e/F*") == 2.0);
  const SyntheticPlay law = law_play(table, 7);
  const std::vector<SyntheticText> texts = law.texts({64, 256}, 5);
  REQUIRE(texts.size() == 5);
  CHECK(texts[0].context_len == sampled_context({64, 256}, 0));
  CHECK(texts[3].context_len == texts[0].context_len);
  const Strategy tuple = Strategy::parse("nsa/d3k2n6/dfs/c2e/F*");
  CHECK(texts[0].acceptance->yields(tuple, 60) != texts[3].acceptance->yields(tuple, 60));
  const std::vector<PlayedPrompt> prompts = random_prompts(texts, 4, 100, 1);
  REQUIRE(prompts.size() == 4);
  CHECK(prompts[0].tokens == prompts[1].tokens);  // of one length, read once
  CHECK(prompts[3].tokens.size() > prompts[0].tokens.size());
  CHECK(std::all_of(prompts[3].tokens.begin(), prompts[3].tokens.end(),
                    [](std::int32_t token) { return token >= 0 && token < 100; }));
}

TEST_CASE("a geometry plays all forms under synthetic acceptance, which is said everywhere") {
  const PlanTable table = test::bordered_table();
  PlannerBenchOptions options;
  options.model = "demo";
  options.synthetic = law_play(table, 3);
  options.prompts_per_bucket = 3;
  options.classes = {PrecisionClass::kStrict};
  options.buckets = {{0, 64}};
  options.max_new_tokens = 24;
  options.rounds = 1;
  options.backend = "cpu";
  options.threads = 1;
  const PlannerBench bench = bench_planner(table, options, [](const PlannerProgress&) {});
  REQUIRE(bench.cells.size() == 1);
  const PlannerCell& cell = bench.cells[0];
  CHECK(cell.prompts == 3);
  CHECK(cell.growing == 1);  // from 53 tokens
  CHECK(cell.row(Contender::kPlain).tokens_a_step == 1.0);
  CHECK(cell.row(Contender::kStatic).tokens_a_step > 1.3);
  CHECK(cell.row(Contender::kStatic).tokens_a_step < 2.7);
  CHECK(cell.row(Contender::kBase).tokens_a_step == cell.row(Contender::kBaseSingle).tokens_a_step);
  CHECK(cell.row(Contender::kStatic).compared == 0);  // texts mean nothing
  CHECK(bench.divergences.empty());
  const nlohmann::json json = nlohmann::json::parse(planner_bench_json(bench));
  CHECK(json.at("acceptance").at("kind") == "synthetic");
  CHECK(json.at("acceptance").at("from") == "law");
  CHECK(json.at("rows")[0].at("acceptance") == "synthetic");
  CHECK(json.at("prompts")[0].at("form") == "random");
  const std::string text = planner_bench_text(bench);
  CHECK_THAT(text, Catch::Contains("synthetic acceptance (law)") &&
                       Catch::Contains("demo with random weights") &&
                       Catch::Contains("; synthetic acceptance\n"));
  // Along texts that know only some tuples the cell is not played, or those texts are left out.
  const Strategy best = Strategy::parse("nsa/d3k2n6/dfs/c2e/F*");
  const auto knowing = [&](bool all) {
    return std::shared_ptr<const SyntheticAcceptance>(law_acceptance(
        [all, best](const Strategy& s) {
          return all || !(s.draft == best.draft) ? std::optional(2.0) : std::nullopt;
        },
        1));
  };
  options.synthetic->texts = [&](const ContextBucket&, std::int64_t) {
    return std::vector<SyntheticText>{{"whole", 30, knowing(true)}, {"part", 30, knowing(false)}};
  };
  const PlannerBench part = bench_planner(table, options, [](const PlannerProgress&) {});
  CHECK(part.cells.at(0).prompts == 1);
  CHECK(part.remarks.size() == 2);  // and that the table is another geometry's
  options.synthetic->texts = [&](const ContextBucket&, std::int64_t) {
    return std::vector<SyntheticText>{{"part", 30, knowing(false)}};
  };
  CHECK_THROWS_AS(bench_planner(table, options, [](const PlannerProgress&) {}), Error);
}

TEST_CASE("what cannot be played is refused by its kind") {
  Fixture fixture;
  const PlannerBenchOptions good = fixture.options;
  fixture.options.max_new_tokens = 1;
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.options = good;
  fixture.options.temperature = -1.0;
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.options = good;
  fixture.options.buckets = {{0, 65}};
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.options = good;
  fixture.options.classes = {PrecisionClass::kSparse};
  CHECK(fixture.code() == ExitCode::kAnswerNo);
  fixture.options = good;
  fixture.options.buckets = {{256, 1024}};
  CHECK(fixture.code() == ExitCode::kAnswerNo);
  fixture.options = good;
  PlanTable bare = test::tiny_table();
  bare.classes.clear();
  CHECK(fixture.code(bare) == ExitCode::kAnswerNo);
  fixture.options.model = "demo";  // random weights, whose own acceptance means nothing
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.options = good;
  fixture.options.synthetic = law_play(bare, 0);  // and prompts
  CHECK(fixture.code() == ExitCode::kUsage);
  fixture.options = good;
  fixture.options.prompts = {fixture.folder.path() / "model/draft/nothing"};
  CHECK(fixture.code() == ExitCode::kBadInput);
  fixture.options = good;
  fixture.options.model = fixture.folder.path() / "prompts";
  CHECK(fixture.code() == ExitCode::kBadInput);
}

}  // namespace versieve::engine
