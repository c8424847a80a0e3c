// The shipped Slurm submit file: its tasks as Slurm would start them, killed and requeued ones
// among them. Under a real Slurm: slurm_campaign.sh.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "db/store.h"
#include "tests/end_to_end/command.h"
#include "tests/support/paths.h"

using namespace versieve;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSweep = R"({"name": "tiny", "trace_repetitions": 0, "counter_repetitions": 0,
  "timing": {"warm_up_s": WARM_UP, "min_samples": 3, "max_samples": 3, "time_limit_s": 1},
  "grids": [{"context_len": [256, 512, 1024], "draft": ["ar", "d2k2n4"], "form": "vanilla"}]})";
constexpr std::size_t kPoints = 6;

const std::string kScript = VERSIEVE_SOURCE_DIR "/engine/measure/sweep/slurm/campaign.sbatch";

// warm_up: of each point, in seconds.
std::string variables(const fs::path& folder, const std::string& warm_up = "0") {
  std::string sweep = kSweep;
  const std::string place = "WARM_UP";
  std::ofstream(folder / "tiny.json") << sweep.replace(sweep.find(place), place.size(), warm_up);
  return "VERSIEVE=" VERSIEVE_BINARY_DIR "/bin/versieve VERSIEVE_BACKEND=cpu VERSIEVE_SWEEP=" +
         (folder / "tiny.json").string() + " VERSIEVE_OUT=" + (folder / "out").string() + " ";
}

int run_task(const fs::path& folder, int task, int count, const std::string& limit = "",
             const std::string& warm_up = "0") {
  const std::string line =
      variables(folder, warm_up) + "SLURM_ARRAY_TASK_ID=" + std::to_string(task) +
      " SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=" + std::to_string(count) + " " + limit +
      " " + kScript + " >" + (folder / "log").string() + " 2>&1";
  return std::system(line.c_str());
}

std::size_t points_of(const fs::path& database) {
  const db::Store store = db::Store::open(database.string(), db::OpenMode::kReadOnly);
  return store.overview({.only_ok = true}).points.size();
}

}  // namespace

TEST_CASE("the tasks of an array measure a shard each, and the last one joins them") {
  const test::TempFolder folder;
  const fs::path path = folder / "out";
  REQUIRE(run_task(folder.path(), 2, 2) == 0);
  CHECK(!fs::exists(path / "campaign.db"));
  REQUIRE(run_task(folder.path(), 1, 2) == 0);
  REQUIRE(fs::exists(path / "campaign.db"));
  CHECK(points_of(path / "campaign.db") == kPoints);
  CHECK(points_of(path / "shard-1.db") + points_of(path / "shard-2.db") == kPoints);
  // Requeued although it was done: nothing is measured twice, the join changes nothing.
  REQUIRE(run_task(folder.path(), 1, 2) == 0);
  CHECK(points_of(path / "campaign.db") == kPoints);
}

TEST_CASE("a task that was killed resumes where it was") {
  const test::TempFolder folder;
  // Its six warm-ups alone take over a second.
  CHECK(run_task(folder.path(), 1, 1, "timeout -s KILL 0.5", "0.2") != 0);
  CHECK(!fs::exists(folder / "out" / "shard-1.done"));
  REQUIRE(run_task(folder.path(), 1, 1, "", "0.2") == 0);
  CHECK(points_of(folder / "out" / "campaign.db") == kPoints);
}

TEST_CASE("outside an array the script says so") {
  const test::TempFolder folder;
  const std::string line = variables(folder.path()) + kScript + " 2>" + (folder / "err").string();
  CHECK(std::system(line.c_str()) != 0);
  CHECK(test::text_of_file(folder / "err").find("task of a job array") != std::string::npos);
}
