// The paper's figures from points made by hand: right cells, and a sentence where there are none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/analyse/figures/figure.h"
#include "model/words/error.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

BlockSharing row(SharingAlong along, std::int64_t layer, double overlap, double saved) {
  BlockSharing out{.along = along, .layer = layer, .steps = 4};
  out.overlap[1] = overlap;
  out.overlap[2] = overlap - 0.1;
  if (along == SharingAlong::kPosition) {
    out.overlap[0] = overlap + 0.1;
    out.next_layer = layer == 0 ? std::optional(0.4) : std::nullopt;
  } else {
    out.group_blocks = {20.0, 30.0, 16.0 * 8.0 * (1.0 - saved)};
    out.loads_saved = {0.25, 0.5, saved};
  }
  return out;
}

PointMeasurement acceptance(const char* strategy, const char* regime, double tokens,
                            std::int64_t context_len) {
  PointMeasurement m;
  m.key = {.workload = WorkloadKind::kAcceptance,
           .model = "mine",
           .pair = std::string(64, 'a'),
           .regime = regime,
           .split = "calibration",
           .strategy = strategy,
           .context_len = context_len,
           .num_queries = Strategy::parse(strategy).draft.nodes};
  m.acceptance = AcceptanceMeasurement{.steps = 10, .accepted_per_step = tokens};
  return m;
}

// A tree at 6144 whose first layer shares 0.6 and second 0.8 breadth first, 0.1 more depth first.
FiguresInput recorded() {
  FiguresInput input{.pair = {.name = "mine", .points = 1, .sha256 = std::string(64, 'a')}};
  for (const char* regime : {"chat", "code"}) {
    PointMeasurement m = acceptance("nsa/d6k8n64/bfs/c1/F*", regime, 3.0, 6144);
    for (const std::int64_t layer : {0, 1}) {
      const double bfs = layer == 0 ? 0.6 : 0.92;
      m.sharing.push_back(row(SharingAlong::kBfs, layer, bfs, 0.5));
      m.sharing.push_back(row(SharingAlong::kDfs, layer, bfs + 0.05, 0.75));
      m.sharing.push_back(row(SharingAlong::kPosition, layer, bfs - 0.2, 0.0));
    }
    input.acceptance.push_back(m);
  }
  return input;
}

TimedPoint step(const char* model, const char* strategy, double us) {
  const Strategy s = Strategy::parse(strategy);
  return {.workload = WorkloadKind::kStep,
          .model = model,
          .strategy = s,
          .context_len = 16384,
          .num_queries = s.draft.nodes,
          .overlap = {},
          .cache_state = "as_is",
          .launch = "graph",
          .dtype = "bf16",
          .median_us = us};
}

double number(const FigureTable& table, std::size_t row, std::size_t column) {
  REQUIRE(table.rows.at(row).at(column).is_number());
  return table.rows[row][column].get<double>();
}

}  // namespace

TEST_CASE(
    "figure 2 gives each layer's overlap in both orders and says how many lie as the paper's") {
  const Figure figure = figure_2(recorded());
  CHECK(figure.missing.empty());
  REQUIRE(figure.tables.size() == 1);
  const FigureTable& table = figure.tables[0];
  REQUIRE(table.rows.size() == 3);
  CHECK(number(table, 0, 1) == Approx(0.6));
  CHECK(number(table, 0, 2) == Approx(0.65));
  CHECK(number(table, 0, 3) == Approx(0.4));
  CHECK(table.rows[1][3].is_null());  // there is no layer behind the last
  CHECK(number(table, 0, 4) == Approx(64.0));
  CHECK(number(table, 0, 5) == Approx(32.0));
  CHECK(number(table, 1, 6) == Approx(0.5));
  CHECK(table.rows[2][0] == "mean");
  CHECK(number(table, 2, 1) == Approx(0.76));
  CHECK(table.caption.find("context 6144") != std::string::npos);
  CHECK(table.caption.find("1 of 2 layers within 0.5 and 0.9") != std::string::npos);
}

TEST_CASE("figure 4 falls with the distance, in positions and in places of either order") {
  const Figure figure = figure_4(recorded());
  REQUIRE(figure.tables.size() == 2);
  const FigureTable& mean = figure.tables[0];
  REQUIRE(mean.rows.size() == 9);
  CHECK(number(mean, 0, 1) == Approx(0.66));
  CHECK(mean.rows[0][2].is_null());
  CHECK(number(mean, 1, 1) == Approx(0.56));
  CHECK(number(mean, 1, 2) == Approx(0.76));
  CHECK(number(mean, 2, 3) == Approx(0.71));
  CHECK(mean.rows[8][1].is_null());
  CHECK(number(figure.tables[1], 1, 2) == Approx(0.72));
}

TEST_CASE("the figure of orders has what groups save and what approximate ones yield") {
  FiguresInput input = recorded();
  input.acceptance.push_back(acceptance("nsa/d6k8n64/bfs/c8a/F*", "chat", 2.4, 6144));
  input.acceptance.push_back(acceptance("nsa/d6k8n64/dfs/c8a/F*", "chat", 2.7, 6144));
  input.acceptance.back().acceptance->teacher_forced = 2.0;
  input.device = "a GPU";
  input.pair_steps = {step("mine", "nsa/d6k8n64/bfs/c8e/F*", 100.0),
                      step("mine", "nsa/d6k8n64/dfs/c8e/F*", 90.0)};
  const Figure figure = traversal_figure(input);
  CHECK(figure.missing.empty());
  REQUIRE(figure.tables.size() == 3);
  CHECK(figure.tables[0].rows[0][0] == "bfs");
  CHECK(number(figure.tables[0], 0, 8) == Approx(0.5));
  CHECK(figure.tables[0].rows[1][0] == "dfs");
  CHECK(number(figure.tables[0], 1, 8) == Approx(0.75));
  CHECK(number(figure.tables[1], 0, 3) == Approx(0.8));
  CHECK(number(figure.tables[1], 1, 3) == Approx(0.9));
  CHECK(number(figure.tables[1], 1, 4) == Approx(2.0));
  CHECK(figure.tables[1].rows[1][5].is_null());  // nobody walked along a text with c1
  CHECK(figure.tables[2].rows[0][0] == "nsa/d6k8n64/c8e/F*");
  CHECK(number(figure.tables[2], 0, 2) == 100.0);
  CHECK(number(figure.tables[2], 0, 3) == 90.0);
}

TEST_CASE("a database without such points says which sweep measures them") {
  for (const auto& maker : {traversal_figure, figure_2, figure_4}) {
    const Figure figure = maker({});
    CHECK(figure.tables.empty());
    REQUIRE(!figure.missing.empty());
    CHECK(figure.missing[0].find("--sweep pair") != std::string::npos);
  }
  const Figure figure = figure_7({});
  CHECK(figure.tables.empty());
  CHECK(figure.missing.size() == 2);
  CHECK(figure.missing[0].find("--sweep paper-figures") != std::string::npos);
}

TEST_CASE("figure 7 sets steps of one draft side by side, and leaves out what stands alone") {
  FiguresInput input;
  input.device = "a GPU";
  input.timed = {step("dense-1b", "dense/ar", 1000.0),
                 step("dense-1b", "dense/d6k8n64/bfs/c1/F*", 2000.0),
                 step("nsa-1b", "nsa/ar", 900.0),
                 step("nsa-1b", "nsa/d6k8n64/bfs/c1/F*", 1500.0),
                 step("nsa-1b", "nsa/d6k8n64/bfs/c8e/(FR)*", 1200.0),
                 step("nsa-1b", "nsa/d6k8n64/bfs/c8a/F*", 1.0)};  // approximate: no part of it
  input.timed.push_back(step("nsa-1b", "nsa/d6k8n64/bfs/c1/F*", 1500.0));
  input.timed.back().context_len = 4096;  // no dense step there
  const Figure figure = figure_7(input);
  REQUIRE(figure.tables.size() == 1);
  const FigureTable& table = figure.tables[0];
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][0] == "plain");
  CHECK(number(table, 0, 1) == 1000.0);
  CHECK(number(table, 0, 2) == 900.0);
  CHECK(table.rows[1][0] == "d6k8n64");
  CHECK(number(table, 1, 1) == 2000.0);
  CHECK(number(table, 1, 2) == 1500.0);
  CHECK(table.rows[1][3].is_null());
  CHECK(number(table, 1, 5) == 1200.0);
  CHECK(figure.missing.size() == 1);  // no dense layer alone
}

TEST_CASE("table 2 divides a regime's tokens by measured steps and names each regime's first") {
  FiguresInput input{.pair = {.name = "mine"}};
  input.device = "a GPU";
  for (const auto& [strategy, chat, code] :
       {std::tuple{"nsa/d3k4n8/bfs/c1/F*", 2.0, 2.2}, {"nsa/d6k8n64/bfs/c1/F*", 2.5, 4.0}}) {
    input.acceptance.push_back(acceptance(strategy, "chat", chat, 16384));
    input.acceptance.push_back(acceptance(strategy, "code", code, 16384));
  }
  const Figure untimed = table_2(input);
  REQUIRE(untimed.tables.size() == 1);
  CHECK(number(untimed.tables[0], 1, 2) == 4.0);
  CHECK(untimed.missing.size() == 1);
  // Exact groups of the other order yield what single queries do.
  input.pair_steps = {step("mine", "nsa/d3k4n8/bfs/c1/F*", 1000.0),
                      step("mine", "nsa/d6k8n64/dfs/c8e/F*", 1600.0)};
  const Figure figure = table_2(input);
  CHECK(figure.missing.empty());
  REQUIRE(figure.papers.size() == 1);
  CHECK(number(figure.papers[0], 3, 2) == 266.7);
  REQUIRE(figure.tables.size() == 1);
  const FigureTable& table = figure.tables[0];
  REQUIRE(table.rows.size() == 3);
  CHECK(number(table, 0, 1) == Approx(2000.0));
  CHECK(number(table, 1, 2) == Approx(2500.0));
  CHECK(table.rows[2][1] == "nsa/d3k4n8/bfs/c1/F*");
  CHECK(table.rows[2][2] == "nsa/d6k8n64/dfs/c8e/F*");
}

TEST_CASE("table 1 has the exact run's accuracy beside the tuple's, tables 3 and 4 want a plan") {
  FiguresInput input{.pair = {.name = "mine"}};
  CHECK(table_1(input).missing.size() == 1);
  QualityPoint q{.set = "recall", .strategy = "nsa/d6k8n64/bfs/c8a/F*"};
  q.kl_nats.value = 0.02;
  q.answers =
      QualityAnswers{.questions = 100, .accuracy = {0.7, 0.6, 0.8}, .change = {-0.05, -0.1, 0.0}};
  input.quality.push_back(q);
  const Figure figure = table_1(input);
  REQUIRE(figure.tables.size() == 1);
  CHECK(number(figure.tables[0], 0, 3) == Approx(75.0));
  CHECK(number(figure.tables[0], 0, 4) == Approx(70.0));
  CHECK(number(figure.tables[0], 0, 7) == Approx(0.02));
  CHECK(table_3(input).papers.at(0).rows.size() == 16);
  CHECK(number(table_3(input).papers[0], 14, 4) == Approx(100.0 * (168.0 / 137.4 - 1.0)));
  CHECK(table_3(input).missing.size() == 1);
  CHECK(table_4(input).papers.at(0).rows.size() == 9);
}

TEST_CASE("a played plan fills tables 3 and 4") {
  FiguresInput input{.pair = {.name = "mine"}};
  PlayedPlan played;
  played.buckets = {{.low = 0, .high = 4096}};
  ReplayRow row{.bucket = 0, .requests = 5, .base = 1000.0, .static_best = 1100.0};
  row.best_r = {.throughput = 1200.0, .transitions = 3, .moved = 2};
  played.replay.rows = {row};
  played.replay.static_best_gain = 0.1;
  played.replay.best_r_gain = 0.2;
  played.settings = {{.name = "as given", .guard = {}, .replay = played.replay}};
  input.played = played;
  const Figure third = table_3(input);
  CHECK(third.missing.empty());
  REQUIRE(third.tables.size() == 1);
  CHECK(third.tables[0].rows[0][0] == "0-4096 Strict");
  CHECK(number(third.tables[0], 0, 4) == Approx(20.0));
  CHECK(third.tables[0].rows[0][5] == "2 of 5");
  CHECK(third.tables[0].caption.find("best+R +20.0 %") != std::string::npos);
  CHECK(number(table_4(input).tables.at(0), 0, 2) == Approx(20.0));
}

TEST_CASE("what bench planner measured fills tables 3 and 4, other files are refused") {
  const test::TempFolder folder;
  const std::string path = (folder / "live.json").string();
  std::ofstream(path) << R"({"bench": "planner", "device": "a GPU", "pair": "mine",
    "max_new_tokens": 128, "rows": [
     {"context": [0, 4096], "class": "Strict", "contender": "base", "prompts": 4, "moved": 0,
      "tokens_per_s": {"median": 1000.0, "low": 900.0, "high": 1100.0}},
     {"context": [0, 4096], "class": "Strict", "contender": "best+R", "prompts": 4, "moved": 3,
      "tokens_per_s": {"median": 1250.0, "low": 900.0, "high": 1300.0}},
     {"context": [4096, 8192], "class": "Strict", "contender": "plain", "prompts": 2, "moved": 0,
      "tokens_per_s": {"median": 700.0, "low": 690.0, "high": 710.0}}],
    "settings": [{"setting": "hysteresis 2", "gain": 0.125, "moved": 7}]})";
  FiguresInput input;
  input.live = read_live_plan(path);
  const Figure third = table_3(input);
  CHECK(third.missing.empty());
  REQUIRE(third.tables.size() == 1);
  const FigureTable& table = third.tables[0];
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][0] == "0-4096 Strict");
  CHECK(table.rows[0][1].is_null());
  CHECK(number(table, 0, 2) == 1000.0);
  CHECK(number(table, 0, 5) == Approx(25.0));
  CHECK(table.rows[0][6] == 3);
  CHECK(number(table, 1, 1) == 700.0);
  CHECK(table.rows[1][5].is_null());
  CHECK(table_4(input).tables.at(0).rows.at(0)[0] == "hysteresis 2");
  CHECK(number(table_4(input).tables.at(0), 0, 1) == Approx(12.5));
  std::ofstream(path) << R"({"bench": "planner", "device": "a GPU", "pair": "nsa-1b",
    "acceptance": {"kind": "synthetic", "from": "law"}, "max_new_tokens": 128, "rows": [],
    "settings": []})";
  CHECK(read_live_plan(path).pair == "nsa-1b, synthetic acceptance (law)");
  for (const char* other : {R"({"bench": "verify"})", R"({"rows": []})", R"([1])", "no JSON"}) {
    std::ofstream(path) << other;
    CHECK_THROWS_AS(read_live_plan(path), Error);
  }
  CHECK_THROWS_AS(read_live_plan((folder / "none.json").string()), Error);
}

TEST_CASE("figures are written as text, as JSON with nulls, and as a line a cell") {
  Figure figure{.name = "figure 9",
                .asks = "what",
                .paper = "a plot",
                .papers = {},
                .tables = {{.caption = "ours, \"here\"",
                            .columns = {{"layer", 0}, {"bfs", 3}, {"who", 0}},
                            .rows = {{0, 0.5, "me"}, {1, nullptr, "you"}}}},
                .missing = {"nobody measured it"}};
  CHECK(figures_text({figure}) ==
        "figure 9: what\n  the paper: a plot\n  ours, \"here\"\n    layer    bfs  who\n"
        "    0      0.500   me\n    1          -  you\n  not told: nobody measured it\n");
  const nlohmann::ordered_json json = figures_json({figure});
  CHECK(json[0]["tables"][0]["rows"][1][1].is_null());
  CHECK(json[0]["tables"][0]["columns"][1] == "bfs");
  CHECK(figures_csv({figure}) ==
        "figure,table,row,column,value\n"
        "\"figure 9\",\"ours, \"\"here\"\"\",\"0\",\"bfs\",0.5\n"
        "\"figure 9\",\"ours, \"\"here\"\"\",\"0\",\"who\",\"me\"\n"
        "\"figure 9\",\"ours, \"\"here\"\"\",\"1\",\"bfs\",\n"
        "\"figure 9\",\"ours, \"\"here\"\"\",\"1\",\"who\",\"you\"\n");
}
