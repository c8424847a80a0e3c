// A pair of the shipped database, a namesake's points planted beside its own, and the plans made of
// both.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>

#include "db/store.h"
#include "engine/io/pair_identity.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"

namespace versieve::test {

namespace fs = std::filesystem;

inline const std::string kMeasured = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";
inline const fs::path kBytePair = fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/nsa";

// The shipped points of the byte pair once more, as another pair's of its name: tokens a step are
// halved. And steps that took a microsecond. Returns how many acceptance points are planted.
inline std::int64_t plant_namesake(const std::string& database, const std::string& sha256,
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

class PairWorld {
 public:
  PairWorld() {
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
      REQUIRE(run_versieve("fit --quick --db " + kMeasured + " --out " + path).code == 0);
    }
    return path;
  }
  std::string changed() const { return (folder_ / "demo-nsa").string(); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  TempFolder folder_;
};

inline const PairWorld& world() {
  static const PairWorld instance;
  return instance;
}

inline std::string plan_line(const std::string& database, const std::string& model) {
  return "plan --hardware h200-sxm --buckets 0-4096 --class Strict --db " + database + " --model " +
         model;
}

inline nlohmann::json plan(const std::string& database, const std::string& model,
                           const std::string& options = "") {
  const CommandResult result = run_versieve(plan_line(database, model) + " --json" + options);
  CAPTURE(database, model, result.err);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out);
}

inline nlohmann::json sources(const nlohmann::json& table) {
  return table["provenance"]["sources"];
}

}  // namespace versieve::test
