// `versieve fit` as a user meets it: kept beside its database, printed, begun at another machine's,
// held against another's points.
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

TEST_CASE("a fit is kept beside its database: the same answer, whatever has become of the file") {
  const fs::path database = world().file("kept.db");
  fs::copy_file(world().database(), database);
  const fs::path kept = world().file("kept.db.fit");
  const auto fit = [&](const std::string& options) {
    const test::CommandResult done =
        test::run_versieve("fit --quick --json --db " + database.string() + options);
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    return done.out;
  };
  const std::string first = fit("");
  REQUIRE(fs::exists(kept));
  const std::string bytes = test::text_of_file(kept);
  CHECK(fit("") == first);
  CHECK(test::text_of_file(kept) == bytes);
  CHECK(fit(" --afresh") == first);
  CHECK(test::text_of_file(kept) == bytes);
  std::ofstream(kept) << "no fit";
  CHECK(fit("") == first);
  CHECK(test::text_of_file(kept) == bytes);
  // Of other points nothing is found.
  world().store(database, "NVIDIA H200", {synthetic::acceptance_points(0.6, 0.9, 0.98)});
  CHECK(fit("") != first);
}

TEST_CASE("a fit prints its errors, as text and as JSON") {
  const test::CommandResult text = test::run_versieve("fit --quick --device h200" + db_option());
  CHECK(text.code == 0);
  CHECK(text.out.find("NVIDIA H200") != std::string::npos);
  const test::CommandResult json = test::run_versieve(
      "fit --quick --json --device h200 --out " + world().file("fit.json").string() + " --report " +
      world().file("fit.html").string() + db_option());
  CHECK(json.code == 0);
  const nlohmann::json fit = nlohmann::json::parse(json.out);
  CHECK(fit["device"] == "NVIDIA H200");
  CHECK(fit["latency"]["median_ape"].get<double>() < 0.1);
  CHECK(nlohmann::json::parse(test::text_of_file(world().file("fit.json"))) == fit);
  CHECK(test::text_of_file(world().file("fit.html")).find("</html>") != std::string::npos);
  // The fit prices a small space; nothing but tuples that exist come first.
  const test::CommandResult bench =
      test::run_versieve("bench plan --json --fit " + world().file("fit.json").string());
  CAPTURE(bench.err);
  REQUIRE(bench.code == 0);
  const nlohmann::json priced = nlohmann::json::parse(bench.out);
  CHECK(priced["tuples"].get<int>() >= 1000000);
  CHECK(priced["one_core_ns"].get<double>() < 1000.0 * test::kSanitized);  // 20 on an idle core
  CHECK(priced["best"].get<std::string>().substr(0, 4) == "nsa/");
}

TEST_CASE(
    "one step is predicted where data reach, and refused with its neighbours named elsewhere") {
  const std::string ask =
      "fit --quick --device h200" + db_option() + " --predict nsa/d6k8n64/bfs/c1/F* --context ";
  const test::CommandResult inside = test::run_versieve(ask + "8192 --json");
  CAPTURE(inside.err);
  REQUIRE(inside.code == 0);
  const nlohmann::json step = nlohmann::json::parse(inside.out);
  const double us = step["time_us"].get<double>();
  CHECK(us > 100.0);
  CHECK(step["interval_us"][0].get<double>() < us);
  CHECK(step["interval_us"][1].get<double>() > us);
  CHECK(step["model"] == "nsa-1b");
  double sum = 0.0;
  for (const nlohmann::json& part : step["parts"]) {
    sum += part["time_us"].get<double>();
  }
  CHECK(sum == Approx(us));
  CHECK(step["parts"][0]["launch"] == "linear");
  CHECK(test::run_versieve(ask + "8192").out.find("of floor") != std::string::npos);
  const test::CommandResult other = test::run_versieve(ask + "8192 --model demo --json");
  CAPTURE(other.err);
  REQUIRE(other.code == 0);
  CHECK(nlohmann::json::parse(other.out)["model"] == "demo");
  CHECK(nlohmann::json::parse(other.out)["time_us"].get<double>() < us);
  const auto us_of = [&](const fs::path& folder) {
    const test::CommandResult pair =
        test::run_versieve(ask + "8192 --json --model " + folder.string());
    CAPTURE(pair.err);
    REQUIRE(pair.code == 0);
    const nlohmann::json answer = nlohmann::json::parse(pair.out);
    CHECK(answer["model"] == folder.string());
    return answer["time_us"].get<double>();
  };
  const fs::path shipped = VERSIEVE_SOURCE_DIR "/engine/demo/nsa";
  const double shipped_us = us_of(shipped);
  CHECK(shipped_us ==
        Approx(nlohmann::json::parse(other.out)["time_us"].get<double>()).epsilon(0.05));
  CHECK(us_of(world().wider_draft(shipped)) > 1.05 * shipped_us);
  const test::CommandResult unknown = test::run_versieve(ask + "8192 --model nsa-2b");
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("unknown geometry 'nsa-2b'") != std::string::npos);
  const test::CommandResult empty = test::run_versieve(ask + "8192 --model " VERSIEVE_SOURCE_DIR);
  CHECK(empty.code == 3);
  CHECK(empty.err.find("config.json") != std::string::npos);
  const test::CommandResult dense = test::run_versieve(ask + "8192 --model dense-1b");
  CHECK(dense.code == 2);
  CHECK(dense.err.find("dense-1b is none") != std::string::npos);
  CHECK(test::run_versieve("fit --quick" + db_option() + " --model demo").code == 2);
  const test::CommandResult outside = test::run_versieve(ask + "1000000");
  CHECK(outside.code == 1);
  CHECK(outside.err.find("lies outside the measured regimes; the nearest are") !=
        std::string::npos);
}

TEST_CASE("a fit is held against another machine's points, and against no others") {
  const HardwareSpec& h100 = hardware_by_key("h100-sxm");
  const fs::path other = world().file("h100.db");
  world().store(other, "NVIDIA H100 80GB HBM3",
                {synthetic::attention_points({}, h100), synthetic::step_points({}, h100)});
  const std::string ask = "fit --quick --device h200" + db_option() + " --carry-to ";
  const test::CommandResult text = test::run_versieve(ask + other.string());
  CAPTURE(text.err);
  REQUIRE(text.code == 0);
  CHECK(text.out.find("of NVIDIA H100 80GB HBM3 that it has not seen") != std::string::npos);
  CHECK(text.out.find("by its data sheet alone") != std::string::npos);
  const test::CommandResult json = test::run_versieve(ask + other.string() + " --json --out " +
                                                      world().file("carried.json").string());
  REQUIRE(json.code == 0);
  const nlohmann::json carried = nlohmann::json::parse(json.out)["carried"];
  REQUIRE(carried.size() == 1);
  CHECK(carried[0]["by"] == "data sheet");
  CHECK(carried[0]["added_log_half_width"] == 0.05);
  CHECK(carried[0]["errors"].back()["latency"]["median_ape"].get<double>() < 0.1);
  CHECK(fs::exists(world().file("carried.json")));  // the fit, as without --carry-to
  test::check_refused(ask + world().database().string(), 1, "another machine");
  test::check_refused(ask + world().file("absent.db").string(), 3, "absent.db");
  test::check_refused(ask + "''", 2, "is empty");
  test::check_refused(ask + other.string() + " --predict nsa/ar --context 4096", 2, "--predict");
}

TEST_CASE("a fit begins at another machine's, by its file or its database") {
  const HardwareSpec& h100 = hardware_by_key("h100-sxm");
  const fs::path own = world().file("own.db");
  world().store(own, "NVIDIA H100 80GB HBM3",
                {synthetic::attention_points({}, h100), synthetic::step_points({}, h100)});
  const std::string prior = world().file("prior.json").string();
  REQUIRE(test::run_versieve("fit --quick --holdout 0 --out " + prior + db_option()).code == 0);
  const std::string ask = "fit --quick --db " + own.string() + " --prior ";
  const test::CommandResult text = test::run_versieve(ask + prior);
  CAPTURE(text.err);
  REQUIRE(text.code == 0);
  CHECK(text.out.find("NVIDIA H100 80GB HBM3: fitted to") == 0);
  CHECK(text.out.find("points of NVIDIA H200, whose parameters stay; data sheets alone carry it") !=
        std::string::npos);
  const std::string out = world().file("own.json").string();
  const test::CommandResult by_file = test::run_versieve(ask + prior + " --json --out " + out);
  const test::CommandResult by_database =
      test::run_versieve(ask + world().database().string() + " --json");
  REQUIRE(by_file.code == 0);
  CHECK(by_file.out == by_database.out);
  const nlohmann::json fit = nlohmann::json::parse(by_file.out);
  CHECK(fit["hardware"] == "h100-sxm");
  CHECK(fit["prior"]["device"] == "NVIDIA H200");
  CHECK(fit["prior"]["scale"]["read"] == 1.0);
  // Whose tokens a step are known from no point of its own, but the prior's.
  const std::string plan = "plan --hardware h100-sxm --class Strict --buckets 0-4096 ";
  const test::CommandResult by_fit = test::run_versieve(plan + "--json --fit " + out);
  CAPTURE(by_fit.err);
  REQUIRE(by_fit.code == 0);
  const nlohmann::json table = nlohmann::json::parse(by_fit.out);
  CHECK(table["provenance"]["scaled"] == false);
  CHECK(table["provenance"]["note"].get<std::string>().find("which corrects a fit to") !=
        std::string::npos);
  const test::CommandResult by_points =
      test::run_versieve(plan + "--json --db " + own.string() + " --prior " + prior);
  REQUIRE(by_points.code == 0);
  CHECK(nlohmann::json::parse(by_points.out)["entries"] == table["entries"]);
  test::check_refused(ask + own.string(), 1, "runs that are among these");
  test::check_refused("fit --quick --prior " + out + " --db " + own.string(), 1, "are among these");
  // Nor at a fit that began at one to them.
  test::check_refused("fit --quick --prior " + out + db_option(), 1, "are among these");
  test::check_refused(ask + world().file("absent.json").string(), 3, "absent.json");
  test::check_refused(ask + own.string() + "x", 3, "own.dbx");
  test::check_refused(ask + "''", 2, "is empty");
  std::ofstream(world().file("words.json")) << "{}";
  test::check_refused(ask + world().file("words.json").string(), 3, "not a fit");
  test::check_refused(plan + "--fit " + out + " --prior " + prior, 2, "--fit excludes --prior");
  test::check_refused(plan + "--prior " + prior, 2, "--db");
}

TEST_CASE(
    "a word that several devices' names hold is refused with the names, a whole name is not") {
  const fs::path path = world().file("slices.db");
  for (const char* device : {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}) {
    world().store(path, device, {synthetic::attention_points({}, hardware_by_key("h100-sxm"))});
  }
  test::check_refused("fit --quick --device h100 --db " + path.string(), 2,
                      "NVIDIA H100 80GB HBM3, NVIDIA H100 80GB HBM3 MIG 1g.10gb; give the whole");
  const test::CommandResult whole = test::run_versieve(
      "fit --quick --json --device 'nvidia h100 80gb hbm3' --db " + path.string());
  REQUIRE(whole.code == 0);
  CHECK(nlohmann::json::parse(whole.out)["device"] == "NVIDIA H100 80GB HBM3");
  test::check_refused("fit --quick --device MIG --db " + path.string(), 1, "MIG 1g.10gb");
}

TEST_CASE("a device without a catalogue entry needs a description") {
  const fs::path path = world().file("odd.db");
  world().store(path, "Homemade GPU", {synthetic::attention_points({}, hardware_by_key("l40s"))});
  test::check_refused("fit --device Homemade --db " + path.string(), 1, "Homemade GPU");
  CHECK(test::run_versieve("fit --device Homemade --hardware l40s --db " + path.string()).code ==
        0);
  test::check_refused("plan --hardware l40s --db " + path.string(), 1, "Homemade GPU");
}
