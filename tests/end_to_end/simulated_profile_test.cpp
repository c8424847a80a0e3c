// `versieve profile` as a user without a GPU meets it: steps on the CPU, and by `--backend sim`
// counters of a machine that is not there, stored as what they are.
#include <catch2/catch.hpp>
#include <fstream>

#include "db/step_details.h"
#include "db/store.h"
#include "tests/end_to_end/command.h"

using namespace versieve;
using namespace versieve::test;

namespace {

class Scene {
 public:
  Scene() {
    std::ofstream(sweep()) << R"({"name": "small", "grids": [
        {"workload": "attention", "model": "nsa-1b", "context_len": 4096, "draft": "d5k4n16",
         "group": "c8e", "layer": ["refresh", "reuse"], "overlap": 0.8},
        {"workload": "acceptance", "regime": "code", "context_len": 600, "dtype": "f32",
         "draft": "ar"}]})";
  }

  CommandResult profile(const std::string& options) const {
    return run_versieve("profile --db " + database() + " --sweep " + sweep() + " " + options);
  }
  std::string database() const { return (folder_ / "sim.db").string(); }
  std::string sweep() const { return (folder_ / "sweep.json").string(); }
  std::vector<PointMeasurement> points() const {
    return db::Store::open(database(), db::OpenMode::kReadOnly).points({});
  }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("a step on the CPU is stored with its nodes' blocks, once, and merged with them") {
  const TempFolder folder;
  const std::string database = (folder / "steps.db").string();
  const std::string sweep = (folder / "steps.json").string();
  std::ofstream(sweep) << R"({"name": "steps", "timing": {"warm_up_s": 0, "fixed_samples": 1},
      "grids": [{"workload": "step", "model": "demo", "context_len": 2000, "launch": "stream",
                 "strategy": ["nsa/d2k2n4/dfs/c2e/F*", "nsa/ar"]}]})";
  for (int twice = 0; twice < 2; ++twice) {
    const CommandResult result = run_versieve(
        "profile --json --backend cpu --threads 1 --resume "
        "--db " +
        database + " --sweep " + sweep);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK(nlohmann::json::parse(result.out).at("traces") == 0);
  }
  const std::string merged = (folder / "merged.db").string();
  const CommandResult joined = run_versieve("merge --summaries --into " + merged + " " + database);
  REQUIRE(joined.code == 0);
  CHECK(joined.out.find(": 2 points added (2 step), ") != std::string::npos);
  for (const std::string& path : {database, merged}) {
    const db::Store store = db::Store::open(path, db::OpenMode::kReadOnly);
    const db::StepDetails details = db::StepDetails::open(path);
    REQUIRE(store.overview({}).points.size() == 2);
    for (const db::PointOverview& point : store.overview({}).points) {
      const StepDetail detail = details.of(point.id);
      CHECK(!detail.trace);
      CHECK(detail.choice.has_value() == (point.num_queries > 1));
      CHECK((!detail.choice || detail.choice->blocks.size() == 4));
    }
  }
  CHECK(!std::filesystem::exists(database + "-wal"));
}

// A point that was stored alone would be left out by --resume, and never get what its step did.
TEST_CASE("steps that were stored before their sweep was killed have their nodes' blocks") {
  const TempFolder folder;
  const std::string database = (folder / "steps.db").string();
  const std::string sweep = (folder / "steps.json").string();
  std::ofstream(sweep) << R"({"name": "steps", "timing": {"warm_up_s": 0, "fixed_samples": 1},
      "grids": [{"workload": "step", "model": "demo", "context_len": [600, 700, 800],
                 "launch": "stream",
                 "strategy": ["nsa/d2k2n4/dfs/c2e/F*", "nsa/d2k2n4/bfs/c2e/F*",
                              "nsa/d2k2n5/dfs/c2e/F*", "nsa/d3k2n6/dfs/c2e/F*"]}]})";
  int kills = 0;
  for (int tenths = 1; kills < 100; ++tenths) {
    const CommandResult result = run_versieve(
        "profile --backend cpu --threads 1 --resume --db " + database + " --sweep " + sweep,
        "timeout -s KILL " + std::to_string(0.1 * tenths) + " ");
    if (result.code == 0) {
      break;
    }
    kills += 1;
  }
  CHECK(kills >= 2);
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  const db::StepDetails details = db::StepDetails::open(database);
  REQUIRE(store.overview({}).points.size() == 12);
  for (const db::PointOverview& point : store.overview({}).points) {
    CHECK(details.of(point.id).choice.has_value());
  }
}

TEST_CASE("a sweep is simulated for a machine of the catalogue, and what cannot be is refused") {
  const Scene scene;
  const CommandResult result = scene.profile("--backend sim --hardware h100-sxm --json");
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("device") == "simulator: h100-sxm");
  CHECK(json.at("ok") == 2);
  CHECK(json.at("refused") == 1);
  const std::vector<PointMeasurement> points = scene.points();
  REQUIRE(points.size() == 3);
  for (const PointMeasurement& point : points) {
    CHECK(is_simulated(point));
  }
  CHECK(points[0].ranges.size() == 2);  // nsa_route, nsa_attend
  CHECK(points[1].ranges.size() == 1);  // nsa_reuse
  CHECK(!points[0].ranges[0].counters.empty());
  CHECK(points[2].status == PointStatus::kRefused);
}

TEST_CASE("counted points are checked on the machine that they were counted on") {
  const Scene scene;
  REQUIRE(scene.profile("--backend sim --hardware h100-sxm").code == 0);
  // What a simulator counted is nothing to hold it against.
  CHECK(run_versieve("simulate --check --db " + scene.database()).code == 1);
  const std::string check = "simulate --check --json --sweep h200-contexts --db " +
                            std::string(VERSIEVE_SOURCE_DIR "/db/measured/h100.db") + " --every ";
  const nlohmann::json own = nlohmann::json::parse(run_versieve(check + "100").out);
  CHECK(own.at("hardware") == nlohmann::json::array({"h100-sxm"}));
  CHECK(own.at("errors").at(0).at("dram_bytes").at("median_ape").get<double>() < 0.05);
  const nlohmann::json named =
      nlohmann::json::parse(run_versieve(check + "1000 --hardware b200").out);  // one point
  CHECK(named.at("hardware") == nlohmann::json::array({"b200"}));
  CHECK(run_versieve(check + "1000 --hardware nothing").code == 2);
}

TEST_CASE("resuming leaves out what is there of the same machine alone") {
  const Scene scene;
  REQUIRE(scene.profile("--backend sim").code == 0);
  CHECK(scene.profile("--backend sim --resume").code == 0);
  CHECK(scene.points().size() == 3);
  CHECK(scene.profile("--backend sim --hardware b200 --resume").code == 0);
  CHECK(scene.points().size() == 6);
}

TEST_CASE(
    "a pair whose draft proposes fewer tokens is measured, simulated and resumed by its name") {
  const TempFolder folder;
  const std::string sweep = (folder / "pair.json").string();
  const std::string database = (folder / "pair.db").string();
  std::ofstream(sweep) << R"({"name": "pair", "timing": {"warm_up_s": 0, "fixed_samples": 2},
      "grids": [{"workload": "step", "model": ["demo", "demo:v68"], "context_len": 300,
                 "draft": "d2k2n4", "launch": "stream"}]})";
  const std::string profile = "profile --json --db " + database + " --sweep " + sweep;
  for (const char* backend : {"cpu", "sim"}) {
    CAPTURE(backend);
    const std::string command = profile + " --backend " + backend;
    CHECK(nlohmann::json::parse(run_versieve(command).out).at("ok") == 2);
    REQUIRE(run_versieve(command + " --resume").code == 0);  // all of it is there
  }
  const auto points = db::Store::open(database, db::OpenMode::kReadOnly).points({});
  REQUIRE(points.size() == 4);
  const auto linear_bytes = [](const PointMeasurement& point) {
    for (const RangeMeasurement& range : point.ranges) {
      if (range.path == "linear") {
        return range.predicted.total();
      }
    }
    return 0.0;
  };
  CHECK(points[0].key.model == "demo");
  CHECK(points[1].key.model == "demo:v68");
  CHECK(linear_bytes(points[1]) < linear_bytes(points[0]));
  CHECK(points[3].key.model == "demo:v68");
  CHECK(is_simulated(points[3]));
  const CommandResult wrong = run_versieve(
      "simulate --workload step --strategy nsa/ar --context "
      "300 --model demo:v272");
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("1 to 271") != std::string::npos);
}

TEST_CASE("nothing is fitted to simulated points, and the sentence says so") {
  const Scene scene;
  REQUIRE(scene.profile("--backend sim").code == 0);
  const CommandResult fit = run_versieve("fit --db " + scene.database() + " --device h200");
  CHECK(fit.code == 1);
  CHECK(fit.err.find("2 simulated ones are shown") != std::string::npos);
}

TEST_CASE("a machine is named for the simulator alone, and must be one") {
  const Scene scene;
  CHECK(scene.profile("--backend cpu --hardware h100-sxm").code == 2);
  CHECK(scene.profile("--backend sim --hardware nothing").code == 2);
  const std::string described = " --sweep calibrate --backend sim --hardware-out h.json";
  CHECK(run_versieve("profile --db " + scene.database() + described).code == 4);
  CHECK(!std::filesystem::exists(scene.database()));
}

TEST_CASE("a machine's copies and launches are simulated, though no machine is described by them") {
  const TempFolder folder;
  const std::string sweep = (folder / "machine.json").string();
  std::ofstream(sweep) << R"({"name": "machine", "grids": [{"workload": "machine", "length": 1024,
      "rows": 1, "case": ["machine:copy", "machine:launch/c4"], "dtype": "bf16"}]})";
  const CommandResult simulated = run_versieve("profile --json --backend sim --sweep " + sweep +
                                               " --db " + (folder / "sim.db").string());
  REQUIRE(simulated.code == 0);
  CHECK(nlohmann::json::parse(simulated.out).at("ok") == 2);
}

TEST_CASE("a trained pair's points are simulated by the shapes in its folder") {
  const TempFolder folder;
  const std::string sweep = (folder / "pair.json").string();
  std::ofstream(sweep) << R"({"name": "own", "grids": [
      {"workload": "step", "model": "pair", "regime": "code", "split": "test", "context_len": 600,
       "draft": ["ar", "d3k2n4"], "dtype": "bf16"},
      {"workload": "attention", "model": "pair", "context_len": 600, "draft": "d3k2n4",
       "layer": "refresh", "overlap": 0.8, "dtype": "bf16"},
      {"workload": "acceptance", "regime": "code", "context_len": 600, "draft": "ar"}]})";
  const CommandResult result = run_versieve("profile --json --backend sim --sweep " + sweep +
                                            " --db " + (folder / "sim.db").string() + " --model " +
                                            std::string(VERSIEVE_SOURCE_DIR "/engine/demo/nsa"));
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("ok") == 3);
  CHECK(json.at("refused") == 1);
  const std::vector<PointMeasurement> points =
      db::Store::open((folder / "sim.db").string(), db::OpenMode::kReadOnly).points({});
  REQUIRE(points.size() == 4);
  CHECK(!points[0].key.pair.empty());
  CHECK(points[0].key.model == "demo-nsa");
  CHECK(points[3].reason.find("acceptance") != std::string::npos);
}

TEST_CASE("SpecAttn reads what the shipped selections say, and whoever has none is told") {
  const std::string asked =
      "simulate --json --workload decode --model dense-1b --context 2048 --strategy "
      "'specattn:p0.9/d7k1n8/bfs/c1/F*'";
  const std::string shipped = std::string(VERSIEVE_SOURCE_DIR "/db/measured/") + "selections.db";
  const auto read_by = [](const CommandResult& result) {
    REQUIRE(result.code == 0);
    const nlohmann::json ranges = nlohmann::json::parse(result.out).at("ranges");
    for (const nlohmann::json& range : ranges) {
      if (range.at("path") == "flash_decode") {
        return range.at("counters").at("dram__bytes_read.sum").get<double>();
      }
    }
    return 0.0;
  };
  const double measured = read_by(run_versieve(asked + " --selections " + shipped));
  CHECK(measured > 1.5 * read_by(run_versieve(asked)));
  CHECK(measured == Approx(2048 * 2048 * 0.94).epsilon(0.06));  // bytes of a token, of 2,048
  const CommandResult none = run_versieve(
      asked + " --selections " + std::string(VERSIEVE_SOURCE_DIR "/db/measured/h100-terms.db"));
  CHECK(none.code == 1);
  CHECK(none.err.find("selections") != std::string::npos);

  const auto simulated = [&](const std::string& what) {
    return run_versieve("simulate --context 2048 --model dense-1b --selections " + shipped +
                        " --workload decode --strategy '" + what + "'");
  };
  const CommandResult other_p = simulated("specattn:p0.5/d7k1n8/bfs/c1/F*");
  CHECK(other_p.code == 1);
  CHECK(other_p.err.find("no points of the p and the chain of 'specattn:p0.5/") !=
        std::string::npos);
  CHECK(simulated("specattn:p0.9/d3k1n4/bfs/c1/F*").code == 1);
  const CommandResult dense = simulated("dense/ar");
  CHECK(dense.code == 2);
  CHECK(dense.err.find("'dense/ar' is not of it") != std::string::npos);
}

TEST_CASE("a kernel's case without its workload is told which one it needs") {
  const CommandResult asked = run_versieve("simulate --strategy topk:gvr/k2048/hint0.75");
  CHECK(asked.code == 2);
  CHECK(asked.err.find("--workload topk") != std::string::npos);
}
