// `versieve import` as a user meets it: what is stored and said, twice, from bad files, and what
// the other commands make of the result.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "db/store.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/errors.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
namespace fs = std::filesystem;

namespace {

const std::string kLog =
    "request,context,strategy,emitted,step_us\n"
    "a,1500,nsa/d3k1n4/bfs/c1/F*,2,900.5\n"
    "a,1502,nsa/d3k1n4/bfs/c1/F*,4,905\n";
const std::string kRow =
    R"({"batch_size": 1, "steps": 3, "topk": 1, "num_draft_tokens": 4, "acc_length": 2.5, )"
    R"("step_time": 0.01, "completion_tokens": 512})";

class World {
 public:
  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  fs::path database(const std::string& name = "points.db") const { return folder_ / name; }
  std::string arguments(const std::string& format, const fs::path& file) const {
    return "import --format " + format + " --db " + database().string() + " --model pair-7b" +
           " --device 'RTX 4090' " + file.string();
  }
  nlohmann::json imported(const std::string& arguments) const {
    const test::CommandResult result = test::run_versieve(arguments + " --json");
    CAPTURE(arguments, result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  }

 private:
  test::TempFolder folder_;
};

// A campaign that a fit takes, on the device that the imports name too.
void store_campaign(const fs::path& path) {
  const synthetic::Plan plan;
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  db::Store store = db::Store::open(path.string(), db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run({.kind = "test", .device = "NVIDIA H200"});
  for (const std::vector<PointMeasurement>& points :
       {synthetic::attention_points(plan, h200), synthetic::step_points(plan, h200),
        synthetic::acceptance_points(0.8, 0.9, 0.98)}) {
    for (const PointMeasurement& point : points) {
      store.add_point(run, point);
    }
  }
  store.finish_run(run, RunStatus::kComplete);
}

}  // namespace

TEST_CASE("a log is stored as a run of its own that says it was imported") {
  const World world;
  const nlohmann::json answer = world.imported(world.arguments("csv", world.file("s.csv", kLog)));
  CHECK(answer["points"] == 2);
  CHECK(answer["rows_taken"] == 2);
  CHECK(answer["already_there"] == false);
  CHECK(answer["kind"] == "imported: csv");
  const db::Store store = db::Store::open(world.database().string(), db::OpenMode::kReadOnly);
  REQUIRE(store.runs().size() == 1);
  const RunRecord record = store.runs()[0].record;
  CHECK(record.uuid == answer["run"]);
  CHECK(record.status == RunStatus::kComplete);
  CHECK(record.device == "RTX 4090");
  CHECK(record.counter_access == CounterState::kOff);
  CHECK(nlohmann::json::parse(record.configuration)["file"] == "s.csv");
  const std::vector<PointMeasurement> points = store.points({});
  REQUIRE(points.size() == 2);
  CHECK(points[0].key.model == "pair-7b");
  CHECK(points[0].key.backend == Backend::kImported);
  CHECK(points[0].acceptance->accepted_per_step == Approx(3.0));
  CHECK(points[0].acceptance->accepted_histogram == std::vector<std::int64_t>{0, 0, 1, 0, 1});
  CHECK(points[1].time_ns == std::vector<double>{900500.0, 905000.0});
}

TEST_CASE("a file that was imported before adds nothing, and says so") {
  const World world;
  const std::string arguments = world.arguments("sglang", world.file("out.jsonl", kRow));
  const nlohmann::json first = world.imported(arguments);
  const nlohmann::json second = world.imported(arguments);
  CHECK(second["already_there"] == true);
  CHECK(second["run"] == first["run"]);
  const test::CommandResult text = test::run_versieve(arguments);
  CHECK(text.code == 0);
  CHECK(test::contains(text.out, "already there"));
  const db::Store store = db::Store::open(world.database().string(), db::OpenMode::kReadOnly);
  CHECK(store.runs().size() == 1);
  CHECK(store.points({}).size() == 2);
  CHECK(store.diagnostics(store.runs()[0].id).size() == 3);
}

TEST_CASE("an import that was cut off is completed by the next") {
  const World world;
  const std::string arguments = world.arguments("csv", world.file("s.csv", kLog));
  world.imported(arguments);
  PointMeasurement kept;
  RunRecord record;
  {
    const db::Store store = db::Store::open(world.database().string(), db::OpenMode::kReadOnly);
    kept = store.points({})[0];
    record = store.runs()[0].record;
  }
  fs::remove(world.database());
  {
    db::Store store = db::Store::open(world.database().string(), db::OpenMode::kCreateOrOpen);
    const std::int64_t run = store.begin_run(record);
    store.add_point(run, kept);
    store.finish_run(run, RunStatus::kAborted);
  }
  CHECK(world.imported(arguments)["already_there"] == false);
  const db::Store store = db::Store::open(world.database().string(), db::OpenMode::kReadOnly);
  REQUIRE(store.runs().size() == 1);
  CHECK(store.runs()[0].record.status == RunStatus::kComplete);
  CHECK(store.points({}).size() == 2);
}

TEST_CASE("a bad file leaves the database as it was, or not there") {
  const World world;
  const fs::path bad = world.file("bad.csv", kLog + "a,1503,nsa/d3k1n4/bfs/c1/F*,nine,905\n");
  test::check_refused(world.arguments("csv", bad), 3, "bad.csv, line 4: emitted is 'nine'");
  CHECK(!fs::exists(world.database()));
  world.imported(world.arguments("csv", world.file("s.csv", kLog)));
  const std::string before = test::text_of_file(world.database());
  test::check_refused(world.arguments("csv", bad), 3, "line 4");
  test::check_refused(world.arguments("sglang", bad), 3,
                      "bad.csv: is a log of steps in this project's own columns: --format csv");
  const fs::path page = world.file("page.txt", "vllm:num_requests_running 3\n");
  test::check_refused(world.arguments("vllm", page) + " --context 2048", 3, "holds no counter");
  test::check_refused(world.arguments("csv", world.file("empty.csv", "")), 3,
                      "is empty: it has no row to import");
  test::check_refused(world.arguments("csv", world.database("no.csv")), 3, "cannot be read");
  test::check_refused(world.arguments("vllm", page), 2, "--context does");
  test::check_refused(world.arguments("tsv", bad), 2, "unknown format 'tsv'");
  test::check_refused("import --format csv --db x.db --device d " + bad.string(), 2, "--model");
  CHECK(test::text_of_file(world.database()) == before);
}

TEST_CASE("a server's own counts are diagnosed") {
  const World world;
  const std::string db = " --db " + world.database().string();
  // Three steps of one that drafts in vain, and two that do not draft.
  world.imported(world.arguments("csv", world.file("s.csv",
                                                   "request,context,strategy,emitted,step_us\n"
                                                   "a,1500,nsa/d3k1n4/bfs/c1/F*,1,300\n"
                                                   "a,1501,nsa/d3k1n4/bfs/c1/F*,1,300\n"
                                                   "a,1502,nsa/d3k1n4/bfs/c1/F*,2,300\n"
                                                   "b,1500,nsa/ar,1,100\n"
                                                   "b,1501,nsa/ar,1,100\n")));
  const test::CommandResult result = test::run_versieve("diagnose --json" + db);
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  CHECK(answer["pair"] == "pair-7b");
  CHECK(answer["origin"] == "imported");
  CHECK(answer["steps_of"] == "pair-7b");
  CHECK(answer["device"] == "RTX 4090");
  REQUIRE(answer["findings"].size() == 9);
  CHECK(answer["findings"][0]["rule"] == "step cost");
  CHECK(answer["findings"][0]["verdict"] == "loss");
  CHECK(
      test::contains(answer["findings"][0]["sentence"], "takes 3.00 plain steps and yields 1.33"));
  CHECK(test::contains(test::run_versieve("diagnose" + db).out, "loss, step cost: no timed draft"));
  test::check_refused("diagnose --pair nobody" + db, 1, "pair-7b (imported, 2 points)");
  test::check_refused("diagnose --steps nobody" + db, 1, "no timed step of a model 'nobody'");
  test::check_refused("diagnose --db " + world.database("none.db").string(), 3, "none.db");
}

TEST_CASE("what an import leaves open is repeated by what goes on with it") {
  const World world;
  std::string page =
      "vllm:spec_decode_num_drafts_total 1000\nvllm:spec_decode_num_draft_tokens_total 2900\n";
  const int accepted[] = {600, 400, 200, 100, 60, 40, 0};
  for (int p = 0; p < 7; ++p) {
    page += "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"" + std::to_string(p) +
            "\"} " + std::to_string(accepted[p]) + "\n";
  }
  world.imported(world.arguments("vllm", world.file("m.txt", page)) + " --context 4096");
  const std::string said = "drafts were 2.90 tokens long in the mean, not 7";
  const std::string db = " --db " + world.database().string();
  const test::CommandResult diagnosis = test::run_versieve("diagnose" + db);
  CHECK(test::contains(diagnosis.out, "tokens a step count the bonus token"));
  CHECK(test::contains(diagnosis.out, "note, draft length: " + said));
  const fs::path campaign = world.database("campaign.db");
  store_campaign(campaign);
  const test::CommandResult plan = test::run_versieve(
      "plan --json --hardware h200-sxm --class Strict --buckets 0-4096 --db " + campaign.string() +
      " --acceptance pair-7b --acceptance-db " + world.database().string());
  REQUIRE(plan.code == 0);
  const nlohmann::json table = nlohmann::json::parse(plan.out);
  CHECK(test::contains(table["provenance"]["acceptance_note"], said));
  CHECK(test::contains(table["provenance"]["acceptance_note"], "are a lower bound"));
}

TEST_CASE("commands know imported points for what they are") {
  const World world;
  const std::string log = world.arguments("csv", world.file("s.csv", kLog));
  const std::string db = " --db " + world.database().string();
  world.imported(log);
  const test::CommandResult doctor = test::run_versieve("doctor --json" + db);
  REQUIRE(doctor.code == 0);
  const nlohmann::json runs = nlohmann::json::parse(doctor.out)["imported"];
  REQUIRE(runs.size() == 1);
  CHECK(runs[0]["kind"] == "imported: csv");
  CHECK(runs[0]["points"] == 2);
  CHECK(nlohmann::json::parse(doctor.out)["acceptance"] ==
        nlohmann::json::parse(R"([{"pair": "pair-7b", "origin": "imported", "points": 1}])"));
  CHECK(test::contains(test::run_versieve("doctor" + db).out,
                       "imported: csv, RTX 4090: 2 points, to which no time is fitted\n"
                       "tokens a step, for plan --acceptance: pair-7b (imported, 1 point)\n"));
  test::check_refused("fit --quick" + db, 1, "1 imported ones are shown, never fitted to");
  test::check_refused("fit --quick --device 'rtx 4090'" + db, 1, "no attention or step points");
  store_campaign(world.database());
  const test::CommandResult without = test::run_versieve("fit --quick --json" + db);
  world.imported("import --format sglang" + db + " --model demo-nsa --device 'NVIDIA H200' " +
                 world.file("out.jsonl", kRow).string());
  const test::CommandResult with = test::run_versieve("fit --quick --json" + db);
  CAPTURE(with.err);
  REQUIRE(with.code == 0);
  nlohmann::json before = nlohmann::json::parse(without.out);
  nlohmann::json after = nlohmann::json::parse(with.out);
  const auto imported_in = [](const nlohmann::json& fit) {
    for (const nlohmann::json& left_out : fit["skipped"]) {
      if (test::contains(left_out["reason"], "imported")) {
        return left_out["points"].get<int>();
      }
    }
    return 0;
  };
  CHECK(imported_in(before) == 1);  // acceptance counts from any machine
  CHECK(imported_in(after) == 3);
  before.erase("skipped");
  after.erase("skipped");
  CHECK(before == after);
  const test::CommandResult merged = test::run_versieve(
      "merge --json --into " + world.database("all.db").string() + " " + world.database().string());
  REQUIRE(merged.code == 0);
  CHECK(nlohmann::json::parse(merged.out)["sources"][0]["runs_added"] == 3);
  CHECK(test::run_versieve("plan --hardware h200-sxm --class Strict" + db).code == 0);
}
