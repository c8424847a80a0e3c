// `versieve plan` and `export` as a user meets them: answers, exit codes, one sentence for each bad
// input, and no file where nothing was written.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "db/store.h"
#include "tests/end_to_end/plan_world.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using test::db_option;
using test::world;
namespace fs = std::filesystem;

TEST_CASE("plan, then export, in every form") {
  const std::string table = world().file("table.json").string();
  const test::CommandResult planned =
      test::run_versieve("plan --hardware h200-sxm --out " + table + db_option());
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  CHECK(planned.out.find("0-4096 tokens, Strict") != std::string::npos);
  CHECK(planned.out.find("12288-16384 tokens, Approx+Reuse") != std::string::npos);
  CHECK(planned.out.find("acceptance measured without approximate groups") != std::string::npos);
  for (const char* format : {"json", "csv", "cpp"}) {
    const fs::path out = world().file(std::string("export.") + format);
    CHECK(test::run_versieve("export --table " + table + " --format " + format + " --out " +
                             out.string())
              .code == 0);
    CHECK(fs::file_size(out) > 1000);
  }
  CHECK(test::text_of_file(world().file("export.json")) == test::text_of_file(table));
}

TEST_CASE("a plan of several requests at a time goes to a server's schedule, and bounds tokens") {
  const std::string table = world().file("several.json").string();
  const std::string plan = "plan --hardware h200-sxm --class Strict --buckets 0-4096,12288-16384 ";
  const test::CommandResult planned =
      test::run_versieve(plan + "--concurrency 1,8,64 --out " + table + db_option());
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  for (const char* part : {"by requests at a time", "  64 at a time  ", "loses p ", "Memory: "}) {
    CAPTURE(part);
    CHECK(planned.out.find(part) != std::string::npos);
  }
  const std::string yaml = world().file("several.yaml").string();
  const std::string to_server = "export --table " + table + " --out " + yaml + " --format ";
  for (const char* format : {"vllm", "sglang", "trtllm"}) {
    CHECK(test::run_versieve(to_server + format + " --draft-model /d").code == 0);
    CHECK(test::text_of_file(yaml).find("the planner's, of this") != std::string::npos);
  }
  test::check_refused(to_server + "vllm --class Approx-only", 2, "class Strict alone");
  test::check_refused(to_server + "vllm --context 8000", 1, "no context bucket");
  const test::CommandResult csv =
      test::run_versieve("export --json --table " + table + " --out " + yaml + " --format csv");
  CHECK(nlohmann::json::parse(csv.out)["entries"] ==
        nlohmann::json::parse(test::text_of_file(table))["entries"].size());
  const std::string none = world().file("none.json").string();
  test::check_refused(
      plan + "--concurrency 1,8 --objective latency --itl-ms 0.000001 --out " + none + db_option(),
      1, "no tuple keeps 1e-06 ms");
  CHECK(!std::filesystem::exists(none));
  // Who knows one request at a time reads its rows.
  CHECK(test::run_versieve("compare " + table + " " + table).code == 0);
  const test::CommandResult alone =
      test::run_versieve(plan + "--json --concurrency 1" + db_option());
  const test::CommandResult usual = test::run_versieve(plan + "--json" + db_option());
  CHECK(alone.out == usual.out);

  const test::CommandResult bound = test::run_versieve(
      plan + "--json --concurrency 8,64 --objective latency --itl-ms 0.9" + db_option());
  REQUIRE(bound.code == 0);
  const nlohmann::json kept = nlohmann::json::parse(bound.out);
  CHECK(kept["itl_ms"] == 0.9);
  for (const nlohmann::json& entry : kept["entries"]) {
    CHECK(entry["inter_token_ms_interval"][1].get<double>() <= 0.9);
  }
  for (const char* wrong :
       {"--concurrency 4,1", "--concurrency 1000", "--concurrency ''", "--objective speed",
        "--itl-ms 5", "--objective latency", "--objective latency --itl-ms 0", "--ttft-ms 5",
        "--objective latency --ttft-ms 5"}) {
    test::check_refused(plan + wrong + db_option(), 2, "");
  }
}

TEST_CASE("a plan by energy wants sampled power, and one by first tokens prompts of its machine") {
  const std::string plan = "plan --hardware h200-sxm --class Strict --buckets 0-4096 ";
  test::check_refused(plan + "--objective energy" + db_option(), 1, "no power was sampled");
  const std::string prompts = world().file("prefill.json").string();
  std::ofstream(prompts)
      << R"({"bench": "prefill", "device": "NVIDIA H200", "geometry": "nsa-1b", "attention": "nsa",
         "rows": [{"prompt": 4096, "rows": 512,
                   "time_ms": {"median": 50, "low": 49, "high": 51}}]})";
  const test::CommandResult kept = test::run_versieve(
      plan + "--json --concurrency 8 --objective latency --ttft-ms 70 --prefill " + prompts +
      db_option());
  CAPTURE(kept.err);
  REQUIRE(kept.code == 0);
  const nlohmann::json json = nlohmann::json::parse(kept.out);
  CHECK(json["ttft_ms"] == 70.0);
  for (const nlohmann::json& entry : json["entries"]) {
    CHECK(entry["ttft_ms_interval"][1].get<double>() <= 70.0);
  }
  CHECK(json["prompts"]["warning"].get<std::string>().find(
            "neither when nor with which revision") != std::string::npos);
  // Measured before the database's points, of another revision: the answer warns, and says when.
  const std::string old = world().file("old-prefill.json").string();
  std::string dated = test::text_of_file(prompts);
  dated.insert(1, R"("revision": "0ld0ld0", "measured_utc": "2020-01-02T03:04:05Z", )");
  std::ofstream(old) << dated;
  const test::CommandResult warned =
      test::run_versieve(plan + "--objective latency --ttft-ms 70 --prefill " + old + db_option());
  CHECK(warned.out.find("as NVIDIA H200 (revision 0ld0ld0, 2020-01-02) took") != std::string::npos);
  CHECK(warned.out.find("before the database's newest points") != std::string::npos);
  const std::string latency = plan + "--objective latency --ttft-ms ";
  test::check_refused(latency + "1 --prefill " + prompts + db_option(), 1,
                      "no tuple keeps 1 ms to the first token");
  test::check_refused(plan + "--model nsa-8b --prefill " + prompts + db_option(), 2,
                      "prompts of nsa-1b");
  test::check_refused("plan --hardware h100-sxm --prefill " + prompts + db_option(), 2,
                      "read on NVIDIA H200");
}

TEST_CASE("what neighbours share can be assumed, which the plan says and prices") {
  const std::string plan = "plan --hardware h200-sxm --class Strict --buckets 12288-16384 ";
  const auto step_of = [&](const std::string& overlap) {
    const test::CommandResult out =
        test::run_versieve(plan + "--json --assume-overlap " + overlap + db_option());
    CAPTURE(out.err);
    REQUIRE(out.code == 0);
    const nlohmann::json table = nlohmann::json::parse(out.out);
    CHECK(table["provenance"]["sources"]["overlap"] == "assumed");
    CHECK(table["provenance"]["acceptance_note"].get<std::string>().find("in common") !=
          std::string::npos);
    for (const nlohmann::json& base : table["baselines"]) {
      if (base["role"] == "fixed") {
        return base["step_latency_us"].get<double>();
      }
    }
    return 0.0;
  };
  CHECK(step_of("0.2") > step_of("0.9"));
  test::check_refused(plan + "--assume-overlap 1.5" + db_option(), 2, "a share between 0 and 1");
}

TEST_CASE("plans differ by class, buckets and machine as asked") {
  const test::CommandResult one = test::run_versieve(
      "plan --json --hardware h100-pcie --class Strict --buckets 0-2048,16384-65536" + db_option());
  CAPTURE(one.err);
  REQUIRE(one.code == 0);
  const nlohmann::json table = nlohmann::json::parse(one.out);
  CHECK(table["classes"] == nlohmann::json::array({"Strict"}));
  CHECK(table["buckets"].size() == 2);
  CHECK(table["entries"].size() == 24);
  CHECK(table["provenance"]["scaled"] == true);
  CHECK(table["entries"][23]["note"].get<std::string>().find("nearest context range") !=
        std::string::npos);
}

TEST_CASE("a plan is of several classes, and of a machine whose memory nobody has built") {
  const test::CommandResult both = test::run_versieve(
      "plan --json --class Approx-only,Strict,Strict --bandwidth 8" + db_option());
  CAPTURE(both.err);
  REQUIRE(both.code == 0);
  const nlohmann::json table = nlohmann::json::parse(both.out);
  CHECK(table["classes"] == nlohmann::json::array({"Strict", "Approx-only"}));
  CHECK(table["hardware"] == "h200-sxm at 8.0 TB/s");
  CHECK(table["provenance"]["scaled"] == true);
  const test::CommandResult own = test::run_versieve("plan --json --class Strict" + db_option());
  CHECK(table["entries"][0]["throughput"].get<double>() >
        nlohmann::json::parse(own.out)["entries"][0]["throughput"].get<double>());
}

TEST_CASE("a plan takes the schedule that calibrate found, by its file or its text") {
  const fs::path shipped = VERSIEVE_SOURCE_DIR "/engine/demo/nsa_schedule.json";
  const fs::path fit = world().file("shipped_fit.json");
  REQUIRE(test::run_versieve("fit --quick --db " VERSIEVE_SOURCE_DIR "/db/measured/h200.db --out " +
                             fit.string())
              .code == 0);
  const std::string ask = "plan --hardware h200-sxm --model demo --class Reuse-only --fit " +
                          fit.string() + " --schedule ";
  const test::CommandResult by_file = test::run_versieve(ask + shipped.string() + " --json");
  CAPTURE(by_file.err);
  REQUIRE(by_file.code == 0);
  std::int64_t reusing = 0;
  const nlohmann::json table = nlohmann::json::parse(by_file.out);
  for (const nlohmann::json& entry : table["entries"]) {
    const std::string strategy = entry["strategy"].get<std::string>();
    CAPTURE(strategy);
    const bool reuses = strategy.ends_with("/FRRRRRRF");
    CHECK((reuses || strategy.ends_with("/F*") || strategy == "nsa/ar"));
    reusing += reuses ? 1 : 0;
  }
  CHECK(reusing > 10);
  CHECK(test::run_versieve(ask + "FRRRRRRF --json").out == by_file.out);
  CHECK(test::run_versieve(ask + "'(FRR)*' --schedule FRRRRRRF --json").out.find("/(FRR)*") !=
        std::string::npos);
  test::check_refused(ask + "FRR", 2, "the schedule has 3 letters, the model 8 layers");
  test::check_refused(ask + "RFFFFFFF", 2, "must begin with F");
  test::check_refused(ask + "nowhere.json", 3, "nowhere.json");
  test::check_refused(ask + VERSIEVE_SOURCE_DIR "/engine/demo/record.json", 3, "no schedule");
}

TEST_CASE("a draft that proposes fewer tokens is cheaper, and said to be") {
  const auto planned = [](const std::string& vocabulary) {
    const test::CommandResult result =
        test::run_versieve("plan --json --hardware h200-sxm --class Strict --buckets 0-4096" +
                           vocabulary + db_option());
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto note_of = [](const nlohmann::json& table) {
    return table["provenance"]["note"].get<std::string>();
  };
  const nlohmann::json all = planned(" --draft-vocab 128256");
  const nlohmann::json some = planned("");
  CHECK(note_of(some).find("the draft proposes 32000 of 128256 tokens") != std::string::npos);
  CHECK(note_of(all).find("the draft proposes") == std::string::npos);
  const nlohmann::json& best = some["entries"][0];
  CHECK(best["throughput"].get<double>() > 1.05 * all["entries"][0]["throughput"].get<double>());
  for (const nlohmann::json& entry : some["entries"]) {
    CHECK(entry["source"] == "predicted");
  }
  // A name says the same.
  CHECK(planned(" --draft-vocab 32000") == some);
  CHECK(planned(" --model nsa-1b:v32000") == some);
  CHECK(planned(" --model nsa-1b:v32000 --draft-vocab 32000") == some);
  // Plain decoding has no draft; what corrects it is learned beside the steps of its target.
  CHECK(some["baselines"][0]["step_latency_us"].get<double>() ==
        Approx(all["baselines"][0]["step_latency_us"].get<double>()).epsilon(0.001));
  const std::string ask = " --predict nsa/d6k8n64/dfs/c1/F* --context 8192 --json";
  const auto linear_bytes = [&](const std::string& vocabulary) {
    const test::CommandResult result =
        test::run_versieve("fit --quick" + db_option() + ask + vocabulary);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json answer = nlohmann::json::parse(result.out);
    double bytes = 0.0;
    for (const nlohmann::json& part : answer["parts"]) {
      bytes += part["launch"] == "linear" ? part["dram_bytes"].get<double>() : 0.0;
    }
    return bytes;
  };
  // Six levels read the head's rows each.
  CHECK(linear_bytes(" --draft-vocab 128256") - linear_bytes(" --draft-vocab 32000") ==
        Approx(6.0 * (128256 - 32000) * 2048 * 2).epsilon(0.03));
  CHECK(linear_bytes(" --model nsa-1b:v32000") == linear_bytes(" --draft-vocab 32000"));
  CHECK(linear_bytes("") == linear_bytes(" --draft-vocab 32000"));
}

TEST_CASE("a calibrated machine is planned by what was measured on it") {
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const fs::path path = world().file("mine.db");
  std::vector<PointMeasurement> machine;
  const auto add = [&](const char* text, std::int64_t length, std::int64_t rows, CacheState cache,
                       LaunchMode launch, double ns) {
    machine.push_back({.key = {.workload = WorkloadKind::kMachine,
                               .model = "kernel",
                               .strategy = text,
                               .dtype = Dtype::kBf16,
                               .backend = Backend::kCuda,
                               .cache_state = cache,
                               .launch = launch,
                               .context_len = length,
                               .num_queries = rows}});
    machine.back().time_ns = {ns};
  };
  add("machine:gemm/k1000m2000", 1, 1, CacheState::kColdRotate, LaunchMode::kGraph,
      1000.0);  // 4 TB/s
  add("machine:gemm/k1000m2000", 1, 1000, CacheState::kColdRotate, LaunchMode::kGraph, 8000.0);
  add("machine:copy", 8192, 1, CacheState::kWarm, LaunchMode::kGraph, 4000.0);
  add("machine:launch/c64", 1, 1, CacheState::kWarm, LaunchMode::kGraph, 64000.0);
  world().store(path, "NVIDIA H200", {machine});
  const test::CommandResult doctor = test::run_versieve("doctor --json --db " + path.string());
  const nlohmann::json rows = nlohmann::json::parse(doctor.out)["calibrated"];
  REQUIRE(rows.size() == 4);
  for (const nlohmann::json& row : rows) {
    CHECK(row["impossible_because"] == "");
    if (row["figure"] == "read_rate") {
      CHECK(row["value"].get<double>() == Approx(4000.0));
      CHECK(row["catalogue"].get<double>() == h200[HardwareField::kRawBandwidthGbps]);
    }
  }
  // A file as `profile --hardware-out` writes it, read rate and all.
  nlohmann::json file = {{"key", "mine"}, {"name", "Mine"}, {"like", "h200-sxm"}};
  file["fields"] = nlohmann::json::object();
  for (const nlohmann::json& row : rows) {
    file["measured"][row["figure"].get<std::string>()] = {{"value", row["value"]},
                                                          {"source", "here"}};
  }
  std::ofstream(world().file("mine.json")) << file.dump();
  // Scaled by rates only where the fit's machine was calibrated too.
  const std::string both = world().file("calibrated.db").string();
  REQUIRE(test::run_versieve("merge --into " + both + " " + world().database().string() + " " +
                             path.string())
              .code == 0);
  for (const bool calibrated : {true, false}) {
    const test::CommandResult planned = test::run_versieve(
        "plan --json --class Strict --buckets 0-4096 --hardware " +
        world().file("mine.json").string() + (calibrated ? " --db " + both : db_option()));
    CAPTURE(planned.err);
    REQUIRE(planned.code == 0);
    const nlohmann::json provenance = nlohmann::json::parse(planned.out)["provenance"];
    CHECK(provenance["calibrated"] == calibrated);
    const bool says =
        provenance["note"].get<std::string>().find("rates measured there") != std::string::npos;
    CHECK(says == calibrated);
  }
}

TEST_CASE("bad inputs of fit, plan and export are one sentence and the right code") {
  const std::string db = db_option();
  test::check_refused("fit --db " + world().file("absent.db").string() + " --device H200", 3,
                      "absent.db");
  test::check_refused("fit --device B200" + db, 1, "NVIDIA H200");
  test::check_refused("fit --device H200 --holdout 1.5" + db, 2, "--holdout");
  test::check_refused("fit --device H200 --out /nonexistent/fit.json" + db, 4,
                      "/nonexistent/fit.json");
  test::check_refused("plan --hardware h300" + db, 2, "h200-sxm");
  test::check_refused("plan --hardware " + world().file("absent.json").string() + db, 3,
                      "absent.json");
  test::check_refused("plan --hardware h200-sxm --class Loose" + db, 2, "Approx+Reuse");
  test::check_refused("plan --hardware h200-sxm --buckets 8-4" + db, 2, "ascending");
  test::check_refused("plan --hardware h200-sxm --class ''" + db, 2, "--class: is empty");
  test::check_refused("plan --class Strict,,Sparse" + db, 2, "the classes are Strict");
  test::check_refused("plan --bandwidth 8000" + db, 2, "8000 TB/s cannot be");
  test::check_refused("plan --bandwidth fast" + db, 2, "--bandwidth");
  test::check_refused("plan --resa-ratio 2" + db, 2, "--resa-ratio (ReSA p) takes a share");
  test::check_refused("plan --resa-block-size ''" + db, 2, "--resa-block-size: is empty");
  test::check_refused("plan --resa-rectify 0" + db, 2, "--resa-rectify (ReSA f) takes steps");
  test::check_refused("plan --specattn-mass 0.9,x" + db, 2, "not 'x'");
  test::check_refused("plan --class Sparse --specattn-mass 0.96" + db, 1,
                      "specattn:p0.96/d1k1n2/bfs/c1/F* cannot be planned: what share");
  test::check_refused("plan --hardware h200-sxm --buckets ''" + db, 2, "--buckets: is empty");
  test::check_refused("plan --hardware h200-sxm --baseline ''" + db, 2, "--baseline: is empty");
  test::check_refused("plan --hardware h200-sxm --model nsa-9b" + db, 2, "nsa-1b");
  test::check_refused("plan --hardware h200-sxm --model dense-1b" + db, 2, "dense-1b is none");
  test::check_refused("plan --hardware h200-sxm --draft-vocab 0" + db, 2, "from 1 to");
  test::check_refused("plan --hardware h200-sxm --draft-vocab 128257" + db, 2, "128256");
  test::check_refused("plan --hardware h200-sxm --draft-vocab many" + db, 2, "--draft-vocab");
  test::check_refused("fit --quick --draft-vocab 32000" + db, 2, "--predict");
  test::check_refused("plan --hardware h200-sxm --model nsa-1b:v0" + db, 2, "1 to 128255");
  test::check_refused("plan --hardware h200-sxm --model nsa-1b:v128256" + db, 2, "it is nsa-1b");
  test::check_refused("plan --hardware h200-sxm --model nsa-1b:x3" + db, 2, "nsa-1b:v32000");
  test::check_refused("plan --hardware h200-sxm --model dense-1b:v32000" + db, 2, "is none");
  for (const char* other : {"16000", "128256"}) {
    test::check_refused(
        "plan --hardware h200-sxm --model nsa-1b:v32000 --draft-vocab " + std::string(other) + db,
        2, "different drafts");
  }
  test::check_refused("plan --hardware h200-sxm --baseline nsa/d6k8n64/dfs/c4a/F*" + db, 2,
                      "baseline");
  test::check_refused("plan --hardware h200-sxm", 2, "--db");
  for (const char* requests : {"0", "-3", "1000001"}) {
    test::check_refused("plan --hardware h200-sxm --requests " + std::string(requests) + db, 2,
                        "--requests takes 1 to 1000000");
  }
  test::check_refused("plan --hardware h200-sxm --out /nonexistent/table.json" + db, 4,
                      "/nonexistent/table.json");
  // What is measured is not overwritten by what is made of it.
  std::ofstream(world().file("own.json")) << "{}";
  const std::string over = " --out " + db.substr(db.find('/'));
  for (const char* command : {"plan --hardware h200-sxm", "fit --device H200"}) {
    test::check_refused(command + over + db, 2, "is a database: name another file");
  }
  const std::string own = world().file("own.json").string();
  for (const char* option : {"plan --hardware h200-sxm --prior ", "fit --device H200 --prior "}) {
    test::check_refused(option + own + " --out " + own + db, 2, "is the input");
    CHECK(test::text_of_file(own) == "{}");
  }
  const std::string out = " --out " + world().file("never").string();
  test::check_refused("export --format csv --table " + world().file("none.json").string() + out, 3,
                      "none.json");
  std::ofstream(world().file("other.json"))
      << R"({"format": "versieve planner table", "schema": 7})";
  test::check_refused("export --format csv --table " + world().file("other.json").string() + out, 3,
                      "schema 7");
  CHECK(!fs::exists(world().file("never")));
}

TEST_CASE("a serving engine gets a file of its own settings") {
  const std::string table = world().file("to_serve.json").string();
  REQUIRE(test::run_versieve("plan --hardware h200-sxm --out " + table + db_option()).code == 0);
  for (const char* format : {"sglang", "vllm", "trtllm"}) {
    const fs::path out = world().file(std::string(format) + ".yaml");
    const test::CommandResult done = test::run_versieve(
        std::string("export --json --context 5000 --draft-model /models/draft --format ") + format +
        " --table " + table + " --out " + out.string());
    CAPTURE(format, done.err);
    REQUIRE(done.code == 0);
    const nlohmann::json answer = nlohmann::json::parse(done.out);
    CHECK(answer["lossy"] == false);
    CHECK(answer["class"] == "Strict");
    CHECK(answer["bucket"] == nlohmann::json::parse("[4096, 8192]"));
    CHECK((answer["cut"] == true || answer["throughput"] <= answer["best_throughput"]));
    CHECK(answer["complete"] == true);
    const std::string text = test::text_of_file(out);
    CHECK(text.find(": \"/models/draft\"\n") != std::string::npos);
    CHECK(text.find("4096-8192 tokens") != std::string::npos);
    CHECK(text.find(answer["strategy"].get<std::string>()) != std::string::npos);
  }
}

TEST_CASE("what no serving engine can be given is refused and leaves no file") {
  const std::string table = world().file("to_refuse.json").string();
  REQUIRE(test::run_versieve("plan --hardware h200-sxm --class Strict --out " + table + db_option())
              .code == 0);
  const std::string to = " --table " + table + " --out " + world().file("refused").string();
  const std::string yaml = to + ".yaml";
  test::check_refused("export --format xml" + yaml, 2, "formats are");
  test::check_refused("export --format vllm" + to + ".json", 2, ".yaml or .yml");
  test::check_refused("export --format vllm --class Loose" + yaml, 2, "the classes are Strict");
  test::check_refused("export --format vllm --class ''" + yaml, 2, "--class: is empty");
  test::check_refused("export --format vllm --draft-model ''" + yaml, 2, "--draft-model: is empty");
  test::check_refused("export --format vllm --context many" + yaml, 2, "--context");
  test::check_refused("export --format vllm --context 16385" + yaml, 1, "0-4096, 4096-8192");
  test::check_refused("export --format vllm --class Sparse+Rectify" + yaml, 1,
                      "vLLM has nothing like");
  test::check_refused("export --format vllm --class Sparse" + yaml, 1, "planned without it");
  test::check_refused("export --format vllm --class Reuse-only" + yaml, 1, "planned without it");
  for (const char* option : {" --class Strict", " --context 5000", " --draft-model /m"}) {
    test::check_refused(std::string("export --format csv") + option + yaml, 2, "the whole table");
  }
  test::check_refused("export --format vllm --draft-model '/m\xff'" + yaml, 2, "no UTF-8");
  test::check_refused("export --format cpp --name class" + yaml, 2, "cannot name a table");
  for (const char* format : {"csv", "json", "vllm"}) {
    test::check_refused(std::string("export --name mine --format ") + format + yaml, 2,
                        "--name is");
  }
  CHECK(!fs::exists(world().file("refused.yaml")));
  CHECK(!fs::exists(world().file("refused.json")));
}
