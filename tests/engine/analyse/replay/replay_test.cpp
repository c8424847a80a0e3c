// Requests of a few steps, played by hand.
#include "engine/analyse/replay/replay.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/analyse/replay/report.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr const char* kBase = "nsa/d8k8n128/bfs/c1/F*";
constexpr const char* kFirst = "nsa/d6k8n64/bfs/c8e/F*";
constexpr const char* kSecond = "nsa/d5k4n16/dfs/c4e/F*";

Evaluation evaluation(const std::string& strategy, double accepted, double step_us) {
  Evaluation out;
  out.strategy = Strategy::parse(strategy);
  out.cost = StepCost{.time_us = step_us};
  out.expected_accepted = accepted;
  out.throughput = 1e6 * accepted / step_us;
  return out;
}

// One bucket, Strict: two tuples of 4 and 3 tokens in 40 and 30 us; base 5 in 60, plain 1 in 10.
PlanTable table_of_two() {
  PlanTable table;
  table.model = "nsa-1b";
  table.hardware = "h200-sxm";
  table.acceptance_pair = "pair";
  table.buckets = {{0, 4096}};
  table.classes = {PrecisionClass::kStrict};
  table.entries = {{.rank = 2, .evaluation = evaluation(kSecond, 3.0, 30.0)},
                   {.rank = 1, .evaluation = evaluation(kFirst, 4.0, 40.0)}};
  table.baselines = {{0, "autoregressive", evaluation("nsa/ar", 1.0, 10.0)},
                     {0, "fixed", evaluation(kBase, 5.0, 60.0)}};
  return table;
}

PointMeasurement point(const std::string& strategy, const std::vector<std::int64_t>& yields,
                       const std::string& text = "a@0") {
  PointMeasurement out;
  out.key.workload = WorkloadKind::kAcceptance;
  out.key.model = "pair";
  out.key.regime = "code";
  out.key.split = "test";
  out.key.strategy = strategy;
  out.key.context_len = 2048;
  out.acceptance = AcceptanceMeasurement{.walks = {{text, yields}}};
  return out;
}

std::vector<std::int64_t> steps(std::size_t count, std::int64_t yield) {
  return std::vector<std::int64_t>(count, yield);
}

Walks walks_of(const std::vector<PointMeasurement>& points) {
  return {points, {"pair", ""}, "test"};
}

}  // namespace

TEST_CASE("a tuple that is played alone takes its recorded steps, each in the table's time") {
  const Walks walks =
      walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}), point(kSecond, {3, 3, 3, 3})});
  const Replay replay = engine::replay(table_of_two(), walks, {});
  REQUIRE(replay.rows.size() == 1);
  CHECK(replay.gaps.empty());
  const ReplayRow& row = replay.rows[0];
  CHECK(row.requests == 1);
  CHECK(row.tokens == 12.0);
  CHECK(row.base == Approx(12e6 / 180.0));
  CHECK(row.static_best == Approx(12e6 / 120.0));
  CHECK(row.no_speculation == Approx(12e6 / 120.0));
  CHECK(row.best_r.throughput == Approx(row.static_best));  // shorter than the warm-up
  CHECK(row.best_r.moved == 0);
  CHECK(replay.static_best_gain == Approx(0.5));
}

TEST_CASE("of several requests at a time tokens a second are of all of them, in steps of so many") {
  const Walks walks =
      walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}), point(kSecond, {3, 3, 3, 3})});
  PlanTable table = table_of_two();
  PlanTable batch = table;
  batch.concurrency = 8;
  for (PlanEntry& e : batch.entries) {
    e.evaluation.cost->time_us *= 2.0;
  }
  table.batched.push_back(batch);
  const PlanTable& of_eight = versieve::table_of(table, 8);
  const Replay replay = engine::replay(of_eight, walks, {});
  CHECK(replay.rows[0].static_best == Approx(8 * 12e6 / 240.0));
  CHECK(replay.rows[0].base == Approx(8 * 12e6 / 180.0));
  CHECK(replay_json(of_eight, replay)["concurrency"] == 8);
  CHECK(replay_text(of_eight, replay).find("of 8 requests at a time") != std::string::npos);
  CHECK(replay_json(table, replay)["concurrency"] == 1);
  CHECK_THROWS_AS(versieve::table_of(table, 4), Error);
}

TEST_CASE("all policies generate the tokens that every walk reaches") {
  const Walks walks =
      walks_of({point(kBase, {5, 5}), point(kFirst, {4, 4, 4}), point(kSecond, {3, 3, 3, 3})});
  CHECK(engine::replay(table_of_two(), walks, {}).rows[0].tokens == 10.0);
  const ReplayRow row = engine::replay(table_of_two(), walks, {.most_tokens = 7}).rows[0];
  CHECK(row.tokens == 7.0);
  CHECK(row.static_best == Approx(7e6 / 80.0));  // the second step ends beyond the limit
}

TEST_CASE("after a change of tuple the next one's steps follow from the place that was reached") {
  // The first tuple yields 1 where 4 are expected: after 8 + 5 steps, at 13, the second goes on,
  // with its steps at 15 (of 6), 21 (of 5), 26 (of 4).
  const Walks walks = walks_of(
      {point(kBase, steps(30, 1)), point(kFirst, steps(30, 1)), point(kSecond, {15, 6, 5, 4})});
  const Replay replay = engine::replay(table_of_two(), walks, {});
  const ReplayRow& row = replay.rows[0];
  CHECK(row.tokens == 30.0);
  CHECK(row.static_best == Approx(30e6 / (30 * 40.0)));
  // 13 steps to 13; then 6, 5, 4 to 28; the last again to 32.
  CHECK(row.best_r.throughput == Approx(30e6 / (13 * 40.0 + 4 * 30.0)));
  CHECK(row.best_r.transitions == 1);
  CHECK(row.best_r.moved == 1);
  // By promise plain decoding is next: a token in 10 us against 0 of 3 more in 40 and 0 of 2 in 30.
  // And within the warm-up: where steps yield 0.85 of 4 tokens, six in a row of one token are less
  // likely than 1 in 1,000, five are not ((1 / 3.4)^6 = 0.0006, (1 / 3.4)^5 = 0.0022).
  // After 17 tokens of plain decoding the first tuple is tried again, to the end.
  CHECK(row.best_p.throughput == Approx(30e6 / (6 * 40.0 + 17 * 10.0 + 7 * 40.0)));
}

TEST_CASE("exact groups and orders share a walk, approximate ones and schedules have their own") {
  const auto key = [](const char* text) { return walk_key(Strategy::parse(text)); };
  CHECK(key("nsa/d6k8n64/bfs/c8e/F*") == key("nsa/d6k8n64/dfs/c1/F*"));
  CHECK(key("nsa/d6k8n64/bfs/c8a/F*") != key("nsa/d6k8n64/dfs/c8a/F*"));
  CHECK(key("nsa/d6k8n64/bfs/c8a/F*") != key("nsa/d6k8n64/bfs/c8e/F*"));
  CHECK(key("nsa/d6k8n64/bfs/c8e/(FR)*") != key("nsa/d6k8n64/bfs/c8e/F*"));
  CHECK(key("nsa/d6k8n64/bfs/c8e/F*/form=vanilla") == key("nsa/d6k8n64/bfs/c8e/F*"));
  CHECK(key("nsa/d6k1n7/bfs/c1/F*/sampling=sigmoid") != key("nsa/d6k1n7/bfs/c1/F*"));
}

TEST_CASE("a cell without its walks is a gap that names the tuple, other pairs' are not taken") {
  std::vector<PointMeasurement> points = {point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}),
                                          point(kSecond, {3, 3, 3, 3})};
  points[1].key.model = points[2].key.model = "another";
  const Replay replay = engine::replay(table_of_two(), walks_of(points), {});
  CHECK(replay.rows.empty());
  REQUIRE(replay.gaps.size() == 1);
  const std::string reason = replay.gaps[0].reason;
  CHECK(reason.find(std::string("no walk of ") + kFirst) == 0);
  CHECK(reason.find("the 1 ranked behind it") != std::string::npos);
  const Replay baseless = engine::replay(table_of_two(), walks_of({point(kFirst, {4})}), {});
  CHECK(baseless.gaps.at(0).reason == std::string("no walk of the baseline ") + kBase +
                                          " is recorded at contexts of this bucket");
  PlanTable of_others = table_of_two();
  of_others.entries[0].evaluation = evaluation("resa:b16p0.1f32/ar", 1.0, 10.0);
  const Replay other = engine::replay(of_others, walks_of(points), {});
  CHECK(other.gaps.at(0).reason.find("another target") != std::string::npos);
}

TEST_CASE("a cell is played by its best recorded tuple, which says what it passed over and why") {
  const PlanTable table = table_of_two();
  const Walks walks = walks_of({point(kBase, {5, 5, 2}), point(kSecond, {3, 3, 3, 3})});
  const Replay replay = engine::replay(table, walks, {});
  REQUIRE(replay.rows.size() == 1);
  const ReplayRow& row = replay.rows[0];
  CHECK(row.rank == 2);
  CHECK(row.choices == std::vector{Strategy::parse(kSecond)});
  CHECK(row.passed_over == std::vector{Strategy::parse(kFirst)});
  CHECK(row.static_best == Approx(12e6 / 120.0));  // four steps of 30 us
  CHECK(row.planned_throughput == Approx(3e6 / 30.0));
  CHECK(row.planned_first_throughput == Approx(4e6 / 40.0));
  CHECK(played_by_first(replay) == 0);
  const std::string text = replay_text(table, replay);
  CHECK(text.find("played 1 of 1 cells, 0 by their first tuple\n") != std::string::npos);
  CHECK(text.find(std::string("Strict at 0-4096 by rank 2, ") + kSecond) != std::string::npos);
  CHECK(text.find(std::string("nobody recorded a walk of them there, ") + kFirst + "\n") !=
        std::string::npos);
  const nlohmann::json json = replay_json(table, replay);
  CHECK(json.at("played_by_first") == 0);
  CHECK(json.at("rows").at(0).at("rank") == 2);
  CHECK(json.at("rows").at(0).at("passed_over") == nlohmann::json({kFirst}));
  // What is recorded next is what the table would play.
  CHECK(sweep_of_missing_walks(table, walks, "test", {"code"}).find("d6k8n64") !=
        std::string::npos);
}

TEST_CASE("a baseline that ranks before what is played is not passed over, and stays in reach") {
  PlanTable table = table_of_two();
  table.entries[0].rank = 3;
  table.entries.push_back({.rank = 2, .evaluation = evaluation("nsa/ar", 1.0, 10.0)});
  const Replay replay =
      engine::replay(table, walks_of({point(kBase, {5, 5, 2}), point(kSecond, {3, 3, 3, 3})}), {});
  REQUIRE(replay.rows.size() == 1);
  CHECK(replay.rows[0].rank == 3);
  CHECK(replay.rows[0].passed_over == std::vector{Strategy::parse(kFirst)});
  CHECK(replay.rows[0].choices == std::vector{Strategy::parse(kSecond), Strategy::parse("nsa/ar")});
}

TEST_CASE("plain decoding, which needs no walk, stands in for no tuple of the class") {
  PlanTable table = table_of_two();
  table.entries.push_back({.rank = 3, .evaluation = evaluation("nsa/ar", 1.0, 10.0)});
  table.entries.push_back({.rank = 4, .evaluation = evaluation(kBase, 5.0, 60.0)});
  const Replay replay = engine::replay(table, walks_of({point(kBase, {5, 5, 2})}), {});
  CHECK(replay.rows.empty());
  CHECK(replay.gaps.size() == 1);
}

TEST_CASE("a baseline that ranks behind a class's own tuples is not played in their place") {
  PlanTable table = table_of_two();
  const std::string own = "nsa/d5k4n16/bfs/c1/(FR)*";
  table.classes = {PrecisionClass::kReuseOnly};
  table.entries = {{.rank = 1, .evaluation = evaluation(own, 4.0, 40.0)},
                   {.rank = 2, .evaluation = evaluation(kBase, 5.0, 60.0)}};
  for (PlanEntry& entry : table.entries) {
    entry.precision = PrecisionClass::kReuseOnly;
  }
  CHECK(engine::replay(table, walks_of({point(kBase, {5, 5, 2})}), {}).gaps.size() == 1);
  const std::vector<PointMeasurement> both = {point(kBase, {5, 5, 2}), point(own, {4, 4, 4})};
  CHECK(engine::replay(table, walks_of(both), {}).rows.at(0).choices.size() == 2);
  // As the first it is the class's own choice.
  std::swap(table.entries[0].rank, table.entries[1].rank);
  CHECK(engine::replay(table, walks_of({point(kBase, {5, 5, 2})}), {}).rows.at(0).rank == 1);
}

TEST_CASE("a chain that adapts its length has no walk, the fixed chain's least of all") {
  const std::string chain = "nsa/d5k1n6/bfs/c1/F*";
  const Strategy adapted = Strategy::parse(chain + "/gamma=adapt");
  CHECK_FALSE(can_be_recorded(adapted));
  const Walks walks = walks_of({point(chain, {3, 3})});
  CHECK(walks.of(walks.requests(0, 4096).at(0), adapted).empty());
}

TEST_CASE("a guard goes to none of the tuples that nobody recorded, and the row says so") {
  const std::vector<PointMeasurement> points = {point(kBase, steps(30, 1)),
                                                point(kFirst, steps(30, 1))};
  const Replay replay = engine::replay(table_of_two(), walks_of(points), {});
  REQUIRE(replay.rows.size() == 1);
  const ReplayRow& row = replay.rows[0];
  CHECK(row.not_recorded == 1);
  CHECK(row.best_r.throughput == Approx(row.static_best));
  CHECK(row.best_r.moved == 0);
  CHECK(row.best_p.throughput > row.static_best);  // plain decoding needs no walk
  CHECK(replay_text(table_of_two(), replay).find("1 not recorded") != std::string::npos);
  CHECK(!sweep_of_missing_walks(table_of_two(), walks_of(points), "test", {"code"}).empty());
}

TEST_CASE("walks of a pair whose hash is known are its own, whatever they are called") {
  std::vector<PointMeasurement> points = {point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}),
                                          point(kSecond, {3, 3, 3, 3}), point(kSecond, {1, 1})};
  for (PointMeasurement& m : points) {
    m.key.pair = std::string(64, 'a');
  }
  points[1].key.model = "moved";
  points[3].key.pair = std::string(64, 'b');
  const Walks own(points, {"pair", std::string(64, 'a')}, "test");
  CHECK(engine::replay(table_of_two(), own, {}).rows.size() == 1);
  CHECK(own.of(own.requests(0, 1 << 20).at(0), Strategy::parse(kSecond)).size() == 4);
  const Walks none(points, {"pair", std::string(64, 'c')}, "test");
  CHECK(none.requests(0, 1 << 20).empty());
}

TEST_CASE("a walk with a step that goes nowhere counts as not recorded") {
  const Walks walks =
      walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 0, 5}), point(kSecond, {3, 3, 3, 3})});
  CHECK(engine::replay(table_of_two(), walks, {}).rows.at(0).rank == 2);
}

TEST_CASE("only texts of which all walks are there are played") {
  const Walks walks = walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}),
                                point(kSecond, {3, 3, 3, 3}), point(kFirst, {4, 4, 4}, "b@0")});
  CHECK(engine::replay(table_of_two(), walks, {}).rows[0].requests == 1);
}

TEST_CASE("the sweep of what is missing is one, text by text, and nothing when all is there") {
  const std::vector<PointMeasurement> some = {point(kFirst, {4, 3, 5})};
  const std::string text =
      sweep_of_missing_walks(table_of_two(), walks_of(some), "test", {"code", "chat"});
  const SweepPlan plan = sweep_from_json(text, "test", Backend::kCpu);
  REQUIRE(plan.points.size() == 4);
  CHECK(plan.points[0].strategy == "nsa/d5k4n16/bfs/c1/F*");
  CHECK(plan.points[1].strategy == kBase);
  CHECK(plan.points[1].regime == "code");
  CHECK(plan.points[2].regime == "chat");
  for (const PointKey& key : plan.points) {
    CHECK(key.context_len == 2048);
    CHECK(key.split == "test");
    CHECK(key.workload == WorkloadKind::kAcceptance);
  }
  const Walks all =
      walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}), point(kSecond, {3, 3, 3, 3})});
  CHECK(sweep_of_missing_walks(table_of_two(), all, "test", {"code"}).empty());
}

TEST_CASE("changing the guard's constants one at a time begins with the given ones") {
  const Walks walks = walks_of(
      {point(kBase, steps(30, 1)), point(kFirst, steps(30, 1)), point(kSecond, {15, 6, 5, 4})});
  const std::vector<GuardSetting> settings = sweep_guard(table_of_two(), walks, {});
  REQUIRE(settings.size() == 9);
  CHECK(settings[0].replay.best_r.transitions == 1);
  CHECK(settings[0].replay.best_r.throughput ==
        Approx(engine::replay(table_of_two(), walks, {}).best_r.throughput));
  const auto by_name = [&](const std::string& name) {
    for (const GuardSetting& s : settings) {
      if (s.name == name) {
        return s.replay.best_r.throughput;
      }
    }
    FAIL(name);
    return 0.0;
  };
  CHECK(by_name("warmup 4") > settings[0].replay.best_r.throughput);  // moves four steps earlier
  CHECK(by_name("hysteresis 10") < settings[0].replay.best_r.throughput);
  const ReplayRow& row = settings[0].replay.rows.at(0);
  CHECK(settings[0].best_r.over_static == Approx(row.best_r.throughput / row.static_best - 1.0));
  CHECK(settings[0].best_r.below_plain == 1);  // a text that drafts are no use for
  const nlohmann::json json = settings_json(settings);
  CHECK(json.at(7).at("setting") == "hysteresis 2");
  CHECK(json.at(7).at("paper_moves") == 6);
  CHECK(settings_text(settings).find("hysteresis 10") != std::string::npos);
}

TEST_CASE("a report has the promised keys and a line a row") {
  const PlanTable table = table_of_two();
  const Walks walks =
      walks_of({point(kBase, {5, 5, 2}), point(kFirst, {4, 3, 5}), point(kSecond, {3, 3, 3, 3})});
  const Replay replay = engine::replay(table, walks, {});
  const nlohmann::json json = replay_json(table, replay);
  for (const char* key :
       {"bucket", "class", "base", "static_best", "best_r", "no_speculation", "transitions"}) {
    CHECK(json.at("rows").at(0).contains(key));
  }
  CHECK(json.at("mean_gain").at("static_best").get<double>() == Approx(0.5));
  CHECK(json.at("mean_gain").contains("best_r"));
  CHECK(replay_text(table, replay).find("0-4096       Strict") != std::string::npos);
  // Of a table of several requests at a time those for one are played, and that is said.
  const char* const alone = "played one request at a time";
  CHECK(replay_text(table, replay).find(alone) == std::string::npos);
  PlanTable many = table;
  many.batched = {table};
  CHECK(replay_text(many, replay).find(alone) != std::string::npos);
  CHECK(json.at("concurrency") == 1);
}
