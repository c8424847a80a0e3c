// One evidence for one pair: `profile --model` and `plan --model` as a user meets them. Another
// pair's points, planted under the same name, move nothing.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>

#include "tests/end_to_end/pair_world.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::test;

TEST_CASE("a pair is planned with its own acceptance; a namesake's points move nothing") {
  const nlohmann::json clean = plan(kMeasured, kBytePair.string(), " --fit " + world().fit());
  const nlohmann::json planted = plan(world().database(), kBytePair.string());
  CHECK(planted["entries"] == clean["entries"]);
  CHECK(planted["baselines"] == clean["baselines"]);
  for (const nlohmann::json& table : {clean, planted}) {
    CHECK(sources(table)["pair_sha256"] == byte_pair().sha256);
    CHECK(sources(table)["acceptance"] == "own");
    CHECK(sources(table)["acceptance_sha256"] == byte_pair().sha256);
    CHECK(sources(table)["overlap"] == "own");
    CHECK(sources(table)["times"] == "borrowed");  // of synthetic weights
    CHECK(sources(table)["times_of"] == "nsa-1b");
  }
}

TEST_CASE("changed weights have no evidence, which the table says, and none is refused") {
  const nlohmann::json table = plan(world().database(), world().changed());
  CHECK(sources(table)["acceptance"] == "borrowed");
  CHECK(sources(table)["pair"] == "demo-nsa");
  CHECK(sources(table)["pair_sha256"] != byte_pair().sha256);
  CHECK(test::contains(sources(table)["remark"],
                       "are of other weights (sha256 b795a4c58339, "
                       "dddddddddddd) and say nothing of these"));
  const std::string line = plan_line(world().database(), world().changed());
  test::check_refused(line + " --borrow none", 1, "of other weights");
  test::check_refused(line + " --borrow times", 1, "--borrow does not name acceptance");
  test::check_refused(line + " --borrow all", 2, "takes times, acceptance, quality or none");
  test::check_refused(line + " --borrow none times", 2, "nothing to borrow beside it");
  test::check_refused(plan_line(kMeasured, kBytePair.string()) + " --borrow acceptance", 1,
                      "--borrow does not name times");
  test::check_refused(plan_line(kMeasured, "nsa-1b") + " --borrow times", 2, "for a trained pair");
  // What may be borrowed is not, where the pair has its own.
  const std::string fitted = " --fit " + world().fit();
  const nlohmann::json both =
      plan(kMeasured, kBytePair.string(), fitted + " --borrow times acceptance");
  CHECK(sources(both)["acceptance"] == "own");
  const nlohmann::json times = plan(kMeasured, kBytePair.string(), fitted + " --borrow times");
  CHECK(times["entries"] == both["entries"]);
}

namespace {

// What a schedule of eight layers costs a pair, as it was measured.
QualityPoint quality_of(const PairId& pair, const std::string& strategy, double kl) {
  return {.pair = pair,
          .set = "texts: all",
          .distance = "",
          .split = "test",
          .strategy = strategy,
          .dtype = Dtype::kBf16,
          .backend = Backend::kCuda,
          .set_sha256 = std::string(64, 'e'),
          .read_as = "blocks",
          .tokens = 4096,
          .loss_nats = 1.25,
          .kl_nats = {kl, 0.9 * kl, 1.1 * kl},
          .rise_nats = {0.5 * kl, 0.4 * kl, 0.6 * kl},
          .same_token = {0.97, 0.96, 0.98},
          .answers = {}};
}

// The lossy entries' prices by whose they are, and how many have none.
std::map<std::string, int> prices_of(const nlohmann::json& table) {
  std::map<std::string, int> out;
  for (const nlohmann::json& e : table["entries"]) {
    CHECK(e["price"].is_null() == !e["price_unmeasured"].is_null());
    if (e["lossy"] == true) {
      out[e["price"].is_null() ? "none" : e["price"]["from"].get<std::string>()] += 1;
    } else {
      CHECK(e["price"]["from"] == "construction");
    }
  }
  return out;
}

// Why tuples were left out.
std::set<std::string> reasons_of(const nlohmann::json& table) {
  std::set<std::string> reasons;
  for (const nlohmann::json& e : table["provenance"]["excluded"]) {
    reasons.insert(e["reason"]);
    CHECK(e["tuples"] > 0);
  }
  return reasons;
}

}  // namespace

TEST_CASE("losses are priced by the pair's own rows, limited by them, and borrowed by leave") {
  const std::string database = (world() / "priced.db").string();
  fs::copy_file(kMeasured, database);
  fs::permissions(database, fs::perms::owner_all);
  const PairId namesake{byte_pair().name, std::string(64, 'd')};
  const auto store = [&](const std::vector<QualityPoint>& rows) {
    db::Store open = db::Store::open(database, db::OpenMode::kCreateOrOpen);
    const std::int64_t run = open.begin_run({.kind = "quality", .device = "NVIDIA H200"});
    open.add_quality(run, rows);
    open.finish_run(run, RunStatus::kComplete);
  };
  const auto planned = [&](const std::string& options) {
    const test::CommandResult result = test::run_versieve(
        "plan --json --hardware h200-sxm --buckets 0-4096 --class Reuse-only --fit " +
        world().fit() + " --db " + database + " " + options);
    CAPTURE(options, result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const std::string own = "--model " + kBytePair.string();
  CHECK(prices_of(planned(own)).contains("none"));
  CHECK(prices_of(planned(own)).size() == 1);

  // Another pair's rows are its, whatever its name; borrowed until there are own ones.
  store({quality_of(namesake, "nsa/ar/bfs/c1/(FR)*", 7.0),
         quality_of(namesake, "nsa/ar/bfs/c1/(FRRR)*", 7.0)});
  const nlohmann::json borrowed = planned(own);
  CHECK(prices_of(borrowed)["borrowed"] > 0);
  CHECK(test::contains(sources(borrowed)["text"],
                       "losses borrowed from demo-nsa (sha256 dddddddddddd)"));
  CHECK(prices_of(planned(own + " --borrow times")).contains("none"));
  CHECK(prices_of(planned(own + " --borrow times")).size() == 1);
  const nlohmann::json unknown = planned(own + " --borrow times --max-loss 9");
  CHECK(prices_of(unknown).empty());
  CHECK(reasons_of(unknown).contains("its loss was not measured, and there is a limit of losses"));
  store({quality_of(byte_pair(), "nsa/ar/bfs/c1/FRFRFRFR", 0.01),
         quality_of(byte_pair(), "nsa/ar/bfs/c1/(FRRR)*", 0.1)});
  const nlohmann::json table = planned(own);
  CHECK(!prices_of(table).contains("borrowed"));
  CHECK(test::contains(sources(table)["text"], "losses own"));
  for (const nlohmann::json& e : table["entries"]) {
    if (e["lossy"] == true && !e["price"].is_null()) {
      CHECK(e["price"]["pair_sha256"] == byte_pair().sha256);
      CHECK(e["price"]["kl_nats"] < 0.2);
    }
  }
  CHECK(prices_of(planned("--model nsa-1b"))["borrowed"] > 0);  // of the pair of its acceptance

  // A limit is held by the interval's end.
  const nlohmann::json limited = planned(own + " --max-loss 0.0105");
  CHECK(prices_of(limited).empty());
  CHECK(limited["provenance"]["max_loss_nats"] == 0.0105);
  CHECK(limited["entries"].size() == 2);  // both baselines
  const nlohmann::json wider = planned(own + " --max-loss 0.012");
  CHECK(prices_of(wider)["own"] > 0);
  for (const nlohmann::json& e : wider["entries"]) {
    CHECK((e["lossy"] == false ||
           e["strategy"].get<std::string>().find("/(FR)*") != std::string::npos));
  }
  CHECK(reasons_of(wider).contains("may lose more than the limit of losses allows"));
  const test::CommandResult shown =
      test::run_versieve("plan --hardware h200-sxm --buckets 0-4096 --class Reuse-only --fit " +
                         world().fit() + " --db " + database + " " + own + " --max-loss 0.012");
  CHECK(test::contains(shown.out, "KL 0.01 nats, 97 % same"));
  CHECK(test::contains(shown.out, "At most 0.012 nats a token of KL are lost"));
  const std::string line = plan_line(database, kBytePair.string());
  test::check_refused(line + " --max-loss -0.1", 2, "no loss is below 0");
  for (const char* bad : {"nan", "inf", "much", "''"}) {
    test::check_refused(line + " --max-loss " + bad, 2, "max-loss");
  }
}

TEST_CASE("what is written of a plan says whose its numbers are") {
  const std::string table = (world() / "t.json").string();
  plan(world().database(), world().changed(), " --out " + table);
  for (const auto& [format, name] : {std::array{"csv", "t.csv"}, std::array{"cpp", "t.h"},
                                     std::array{"vllm", "t.yaml"}, std::array{"json", "u.json"}}) {
    const std::string out = (world() / name).string();
    CAPTURE(format);
    REQUIRE(test::run_versieve("export --table " + table + " --format " + format + " --out " + out)
                .code == 0);
    std::string text = test::text_of_file(out);
    const std::string wrap = "\n#   ";  // of a comment's further lines
    for (std::size_t at = text.find(wrap); at != std::string::npos; at = text.find(wrap, at)) {
      text.replace(at, wrap.size(), " ");
    }
    CHECK(test::contains(text, "times borrowed from nsa-1b with synthetic weights"));
  }
  const test::CommandResult shown = test::run_versieve(plan_line(kMeasured, "nsa-1b"));
  CHECK(test::contains(shown.out,
                       "Evidence of nsa-1b: acceptance borrowed from demo-nsa (sha256 "
                       "b795a4c58339)"));
}

TEST_CASE("a database whose pair was timed is planned for that pair, where nobody says") {
  const std::string database = (world() / "kept.db").string();
  fs::copy_file(kMeasured, database);
  fs::permissions(database, fs::perms::owner_all);
  const auto keep = [&](const std::string& name, char digit) {
    plant_namesake(database, std::string(64, digit), {"code"});
    db::Store store = db::Store::open(database, db::OpenMode::kCreateOrOpen);
    RunRecord run{.kind = "pair", .device = "NVIDIA H200"};
    run.configuration =
        nlohmann::json{
            {"pair",
             {{"name", name},
              {"sha256", std::string(64, digit)},
              {"config", nlohmann::json::parse(test::text_of_file(kBytePair / "config.json"))},
              {"draft_config",
               nlohmann::json::parse(test::text_of_file(kBytePair / "draft/config.json"))}}}}
            .dump();
    store.finish_run(store.begin_run(run), RunStatus::kComplete);
  };
  keep("kept", 'e');
  const std::string line =
      "plan --buckets 0-4096 --class Strict --fit " + world().fit() + " --db " + database;
  const test::CommandResult result = test::run_versieve(line + " --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json table = nlohmann::json::parse(result.out);
  CHECK(table["hardware"] == "h200-sxm");
  CHECK(table["model"] == "kept");
  CHECK(sources(table)["acceptance"] == "own");
  CHECK(sources(table)["times"] == "own");
  CHECK(sources(table)["pair_sha256"] == std::string(64, 'e'));
  keep("kept", 'f');
  test::check_refused(line + " --model kept", 2, "say which by its hash");
  CHECK(test::run_versieve(line + " --model ffffffff").code == 0);
  const nlohmann::json geometry = plan(database, "nsa-1b", " --fit " + world().fit());
  CHECK(geometry["model"] == "nsa-1b");
}
