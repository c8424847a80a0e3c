// One evidence for one pair: `profile --model` and `plan --model` as a user meets them. Another
// pair's points, planted under the same name, move nothing.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "db/store.h"
#include "engine/io/pair_identity.h"
#include "model/words/chain_share.h"
#include "model/words/strategy.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/errors.h"
#include "tests/support/pair_texts.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
namespace fs = std::filesystem;

namespace {

const std::string kMeasured = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";
const fs::path kBytePair = fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/nsa";

// The shipped points of the byte pair once more, as another pair's of its name: tokens a step are
// halved. And steps that took a microsecond. Returns how many acceptance points are planted.
std::int64_t plant_namesake(const std::string& database, const std::string& sha256,
                            const std::vector<std::string>& regimes) {
  db::Store store = db::Store::open(database, db::OpenMode::kCreateOrOpen);
  RunRecord run{.kind = "pair", .device = "NVIDIA H200"};
  run.configuration = R"({"counter_warm_up": true})";
  const std::int64_t id = store.begin_run(run);
  std::int64_t planted = 0;
  std::vector<PointMeasurement> points = store.points({.pair = byte_pair().sha256});
  for (PointMeasurement& m : points) {
    m.key.pair = sha256;
    m.acceptance->accepted_per_step = 0.5 + 0.5 * m.acceptance->accepted_per_step;
    for (const std::string& regime : regimes) {
      m.key.regime = regime;
      if (!store.has_point(id, m.key)) {
        store.add_point(id, m);
        ++planted;
      }
    }
  }
  for (const char* strategy : {"nsa/ar", "nsa/d6k8n64/bfs/c1/F*"}) {
    PointMeasurement m;
    m.key = {.workload = WorkloadKind::kStep,
             .model = byte_pair().name,
             .pair = sha256,
             .regime = "code",
             .split = "test",
             .strategy = strategy,
             .dtype = Dtype::kBf16,
             .backend = Backend::kCuda,
             .cache_state = CacheState::kAsIs,
             .launch = LaunchMode::kGraph,
             .context_len = 2048,
             .num_queries = strategy == std::string("nsa/ar") ? 1 : 64};
    m.time_ns = {1000.0, 1000.0, 1000.0};
    m.ranges.push_back({.path = "linear", .launches = 1});  // without one its time says nothing
    store.add_point(id, m);
  }
  store.finish_run(id, RunStatus::kComplete);
  return planted;
}

class World {
 public:
  World() {
    fs::copy_file(kMeasured, database());
    fs::permissions(database(), fs::perms::owner_all);
    const std::int64_t planted = plant_namesake(database(), std::string(64, 'd'),
                                                {"chat", "code", "plan", "prose", "verse"});
    REQUIRE(planted > 500);  // more than there are
    fs::copy(kBytePair, folder_ / "changed", fs::copy_options::recursive);
    const fs::path weights = folder_ / "changed/draft/model.safetensors";
    fs::permissions(weights, fs::perms::owner_all);
    std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('\x11');
    fs::rename(folder_ / "changed", folder_ / "demo-nsa");
  }

  std::string database() const { return (folder_ / "planted.db").string(); }
  // To the shipped points, once: of a database that changes each plan would make its own.
  std::string fit() const {
    const std::string path = (folder_ / "fit.json").string();
    if (!fs::exists(path)) {
      REQUIRE(test::run_versieve("fit --quick --db " + kMeasured + " --out " + path).code == 0);
    }
    return path;
  }
  std::string changed() const { return (folder_ / "demo-nsa").string(); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  test::TempFolder folder_;
};

const World& world() {
  static const World instance;
  return instance;
}

std::string plan_line(const std::string& database, const std::string& model) {
  return "plan --hardware h200-sxm --buckets 0-4096 --class Strict --db " + database + " --model " +
         model;
}

nlohmann::json plan(const std::string& database, const std::string& model,
                    const std::string& options = "") {
  const test::CommandResult result =
      test::run_versieve(plan_line(database, model) + " --json" + options);
  CAPTURE(database, model, result.err);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out);
}

nlohmann::json sources(const nlohmann::json& table) {
  return table["provenance"]["sources"];
}

}  // namespace

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

TEST_CASE("a pair is profiled by its folder on texts that are given, and planned from that alone") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "tiny", {});
  std::ofstream(folder / "a.txt") << std::string(700, 'a') + std::string(700, 'b');
  std::ofstream(folder / "sweep.json") << R"({"name": "small", "prompts": 1, "new_tokens": 4,
      "grids": [{"workload": "acceptance", "regime": "given", "context_len": 64,
                 "draft": ["d2k1n3", "d2k2n4"]}]})";
  const std::string database = (folder / "p.db").string();
  const std::string line = "profile --backend cpu --threads 1 --db " + database + " --sweep " +
                           (folder / "sweep.json").string() + " --model " +
                           (folder / "tiny").string() + " --prompts " + (folder / "a.txt").string();
  const test::CommandResult result = test::run_versieve(line + " --json");
  CAPTURE(result.err, result.out);
  REQUIRE(result.code == 0);
  const PairId tiny = engine::pair_identity(folder / "tiny");
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  CHECK(answer["ok"] == 2);
  CHECK(answer["pair"]["name"] == "tiny");
  CHECK(answer["pair"]["sha256"] == tiny.sha256);
  {
    const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
    CHECK(store.pairs() == std::vector<PairId>{tiny});
    CHECK(store.points({.pair = tiny.sha256}).size() == 2);
  }
  const test::CommandResult again = test::run_versieve(line + " --resume --json");
  CHECK(nlohmann::json::parse(again.out)["skipped"] == 2);

  // Of the shipped times and that acceptance.
  const std::string fit = world().fit();
  const test::CommandResult planned =
      test::run_versieve("plan --json --hardware h200-sxm --class Strict --fit " + fit + " --db " +
                         database + " --model " + (folder / "tiny").string());
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const nlohmann::json table = nlohmann::json::parse(planned.out);
  CHECK(table["buckets"] == nlohmann::json::parse("[[0,4096]]"));  // its positions
  CHECK(sources(table)["acceptance"] == "own");
  CHECK(table["provenance"]["acceptance_pair"] == "tiny");
  for (const nlohmann::json& baseline : table["baselines"]) {
    CHECK(baseline["expected_accepted"] < 2.5);  // an untrained pair's, not the byte pair's
  }
  // The database keeps what the pair is, so that nobody needs its folder.
  for (const std::string& name : {std::string("tiny"), tiny.sha256.substr(0, 8), tiny.sha256}) {
    const test::CommandResult by_name =
        test::run_versieve("plan --json --class Strict --fit " + fit + " --acceptance-db " +
                           database + " --model " + name);
    CAPTURE(name, by_name.err);
    REQUIRE(by_name.code == 0);
    const nlohmann::json same = nlohmann::json::parse(by_name.out);
    CHECK(same["entries"] == table["entries"]);
    CHECK(same["hardware"] == "h200-sxm");  // the fit's
    CHECK(same["model"] == "tiny");
    CHECK(sources(same)["pair_sha256"] == tiny.sha256);
  }
  const std::string by_db = "plan --fit " + fit + " --acceptance-db " + database + " --model ";
  test::check_refused(by_db + tiny.sha256.substr(0, 7), 2, "no pair of that name");
  test::check_refused(by_db + "tiny2", 2, "no pair of that name");
}

TEST_CASE("seconds that no quality run can take are refused with their range") {
  const std::string line = "profile --db none.db --sweep pair --quality-seconds ";
  for (const char* seconds : {"-1", "0", "1e9", "soon"}) {
    test::check_refused(line + seconds, 2, "not in range 0.001000 to 86400.000000");
  }
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

TEST_CASE("the sweep pair calibrates schedules, judges them and plans with them") {
  const test::TempFolder folder;
  const std::string tiny = (folder / "tiny").string();
  test::TinyModel model;
  model.target.layers = 2;
  std::iota(std::begin(model.draft.capture_layers), std::end(model.draft.capture_layers), 0);
  test::write_tiny_pair(tiny, model);
  test::write_text(folder / "a/calibration/one.txt", test::numbers(420));
  test::write_text(folder / "a/test/two.txt", test::numbers(840).substr(420));
  test::write_text(folder / "a/index.json", R"([
      {"file": "calibration/one.txt", "regime": "code", "split": "calibration"},
      {"file": "test/two.txt", "regime": "code", "split": "test"},
      {"file": "short.txt", "regime": "plan", "split": "test"}])");
  test::write_text(folder / "a/short.txt", test::numbers(260));  // 256 go on behind a context
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "dense", dense, 2);
  test::write_text(folder / "set.json", R"({"format": "versieve task set", "schema": 1,
      "name": "made", "contexts": [{"text": "one two three four five", "questions": [
      {"choices": [" six", " cats"], "answer": 0}]}]})");
  const std::string database = (folder / "p.db").string();
  const std::string line = "profile --backend cpu --threads 1 --sweep pair --db " + database +
                           " --model " + tiny + " --prompts " + (folder / "a").string() +
                           " --tasks " + (folder / "set.json").string() + " --questions 1 --json";
  // Quality first and alone, a piece and then the rest, then the points beside it.
  const test::CommandResult begun =
      test::run_versieve(line + " --quality only --quality-seconds 1e-3");
  CAPTURE(begun.err, begun.out);
  REQUIRE(begun.code == 0);
  const nlohmann::json first = nlohmann::json::parse(begun.out);
  CHECK(first["quality"]["rows"] > 0);
  CHECK(first["quality"]["not_begun"] > 0);
  const test::CommandResult judged = test::run_versieve(line + " --quality only --resume");
  CAPTURE(judged.err, judged.out);
  REQUIRE(judged.code == 0);
  nlohmann::json quality = nlohmann::json::parse(judged.out);
  CHECK(quality["quality"]["not_begun"] == 0);
  CHECK(quality["quality"]["skipped"] > 0);
  quality["quality"]["rows"] =
      quality["quality"]["rows"].get<std::int64_t>() + first["quality"]["rows"].get<std::int64_t>();
  CHECK(quality["points"] == 0);
  CHECK(quality["quality"]["left_out"].empty());
  const std::int64_t rows = quality["quality"]["rows"];
  CHECK(rows > 0);
  const test::CommandResult result = test::run_versieve(line + " --resume");
  CAPTURE(result.err, result.out);
  REQUIRE(result.code == 0);
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  CHECK(answer["calibrated"] == quality["calibrated"]);
  CHECK(answer["quality"]["rows"] == 0);
  CHECK(answer["quality"]["skipped"] > 0);
  const PairId pair = engine::pair_identity(tiny);
  std::set<std::string> measured;
  {
    const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
    std::map<std::string, int> kinds;
    for (const db::StoredRun& run : store.runs()) {
      ++kinds[run.record.kind];
    }
    // Of quality questions and texts of the pair, in two pieces each, and of the dense model beside
    // it.
    CHECK(kinds == std::map<std::string, int>{{"calibration", 1}, {"pair", 1}, {"quality", 6}});
    std::set<std::string> shared;
    for (const db::StoredRun& run : store.runs()) {
      for (const db::Diagnostic& found : store.diagnostics(run.id)) {
        if (found.source == kChainShares) {
          for (const nlohmann::json& row : nlohmann::json::parse(found.text)) {
            shared.insert(row.at("strategy"));
          }
        }
      }
    }
    CHECK(shared.count("specattn:p0.9/d7k1n8/bfs/c1/F*") == 1);
    CHECK(shared.count("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid") == 1);
    const PairId twin = engine::pair_identity(folder / "dense");
    CHECK(static_cast<std::int64_t>(store.quality().size()) == rows);
    for (const QualityPoint& row : store.quality()) {
      CHECK(row.pair == (row.strategy.rfind("nsa/", 0) == 0 ? pair : twin));
      measured.insert(row.strategy);
    }
    for (const char* strategy : {"resa:b16p0.1f32/ar", "specattn:p0.97/d7k1n8/bfs/c1/F*",
                                 "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid"}) {
      CHECK(measured.count(strategy) == 1);
    }
    for (const WorkloadKind kind :
         {WorkloadKind::kAttention, WorkloadKind::kDecode, WorkloadKind::kStep}) {
      CHECK(!store.points({.workload = kind, .pair = pair.sha256, .only_ok = true}).empty());
    }
    for (const PointMeasurement& point : store.points({.workload = WorkloadKind::kAcceptance})) {
      measured.insert(Strategy::parse(point.key.strategy).schedule);
    }
  }
  // What was not measured is said, a line a kind: here one regime's text is in one split alone.
  CHECK(answer["failed"] == 0);
  std::int64_t refused = 0;
  for (const nlohmann::json& kind : answer["refusals"]) {
    CHECK(kind["workload"] == "acceptance");
    CHECK(test::contains(kind["reason"], "prompt of regime"));
    refused += kind["points"].get<std::int64_t>();
  }
  CHECK(answer["refusals"].size() == 1);
  CHECK(refused == answer["refused"]);
  REQUIRE(answer["short_texts"].size() == 1);
  CHECK(test::contains(answer["short_texts"][0], "has 260 tokens of text: not measured at 128"));
  for (const nlohmann::json& own : answer["calibrated"]) {
    const std::string schedule = own["schedule"];
    CHECK(measured.count("nsa/ar/bfs/c1/" + schedule) == 1);  // judged
    CHECK(measured.count(schedule) == 1);
    CHECK(own["rise"] <= own["budget"]);
  }
  const test::CommandResult again = test::run_versieve(line + " --resume");
  CAPTURE(again.err, again.out);
  const nlohmann::json rest = nlohmann::json::parse(again.out);
  CHECK(rest["points"] == 0);
  CHECK(rest["calibrated"] == answer["calibrated"]);
  CHECK(rest["quality"]["rows"] == 0);
  CHECK(rest["quality"]["skipped"] > 0);

  // Sampled texts are other evidence, which greedy texts do not stand for.
  const std::string plan_line = "plan --hardware h200-sxm --class Strict --fit " + world().fit() +
                                " --acceptance-db " + database + " --model " + tiny +
                                " --temperature 0.75";
  test::check_refused(plan_line, 1, "no acceptance at temperature 0.75 of ");
  std::string sampled_line = line;
  const std::size_t asked = sampled_line.find(" --tasks");
  sampled_line.erase(asked, sampled_line.find(" --json") - asked);
  const test::CommandResult sampled = test::run_versieve(sampled_line + " --temperature 0.75");
  CAPTURE(sampled.err, sampled.out);
  REQUIRE(sampled.code == 0);
  CHECK(!nlohmann::json::parse(sampled.out).contains("quality"));
  const db::Store kept = db::Store::open(database, db::OpenMode::kReadOnly);
  std::set<double> temperatures;
  for (const PointMeasurement& point :
       kept.points({.workload = WorkloadKind::kAcceptance, .only_ok = true})) {
    temperatures.insert(point.key.temperature);
    CHECK((point.key.temperature == 0.0 || point.acceptance->walks.empty()));
  }
  CHECK(temperatures == std::set<double>{0.0, 0.75});
  const test::CommandResult at_temperature = test::run_versieve(plan_line + " --json");
  CAPTURE(at_temperature.err);
  REQUIRE(at_temperature.code == 0);
  const nlohmann::json sampled_table = nlohmann::json::parse(at_temperature.out);
  CHECK(sampled_table["temperature"] == 0.75);
  CHECK(sources(sampled_table)["acceptance"] == "own");
  test::check_refused(line.substr(0, line.find(" --json")) + " --temperature 0.75", 2,
                      "--temperature");

  const test::CommandResult planned =
      test::run_versieve("plan --json --hardware h200-sxm --class Reuse-only --fit " +
                         world().fit() + " --acceptance-db " + database + " --model " + tiny);
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const nlohmann::json table = nlohmann::json::parse(planned.out);
  for (const nlohmann::json& entry : table["entries"]) {
    CHECK(measured.count(Strategy::parse(entry["strategy"].get<std::string>()).schedule) == 1);
  }
  const std::string remark = sources(table)["remark"];
  CHECK((remark.find("schedules calibrated on the pair") == 0) == !answer["calibrated"].empty());
  test::check_refused("profile --backend cpu --sweep quick --db " + database + " --questions 2", 2,
                      "of the sweep pair");
}

TEST_CASE("folders that are no pair's, prompts that are none and sweeps of no pair are refused") {
  const test::TempFolder folder;
  const std::string profile = "profile --backend cpu --db " + (folder / "x.db").string();
  const std::string pair = profile + " --sweep pair --model ";
  fs::create_directories(folder / "empty");
  test::check_refused(pair + (folder / "none").string(), 3, "is not a model directory");
  test::check_refused(pair + (folder / "empty").string(), 3, "config.json");
  test::write_tiny_pair(folder / "tiny", {});
  const std::string tiny = (folder / "tiny").string();
  test::check_refused(pair + tiny + " --prompts " + (folder / "none.txt").string(), 3,
                      "no such file or folder");
  test::check_refused(pair + tiny + " --prompts " + (folder / "empty").string(), 3,
                      "holds no prompts");
  test::check_refused(profile + " --sweep calibrate --model " + tiny, 2,
                      "measures no trained pair");
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "dense", dense, 1);
  test::check_refused(pair + (folder / "dense").string(), 2, "this one is dense");
  CHECK(!fs::exists(folder / "x.db"));
}
