// A database of synthetic points of an H200, for tests of the commands that fit to it and plan with
// it.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "db/store.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/synthetic_points.h"

namespace versieve::test {

class World {
 public:
  World() {
    const synthetic::Plan plan;
    const HardwareSpec& h200 = hardware_by_key("h200-sxm");
    store(database(), "NVIDIA H200",
          {synthetic::attention_points(plan, h200), synthetic::step_points(plan, h200),
           synthetic::acceptance_points(0.8, 0.9, 0.98)});
  }

  std::filesystem::path database() const { return folder_ / "points.db"; }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  // A pair's folder without its weights, its draft's MLP sixteen times as wide.
  std::filesystem::path wider_draft(const std::filesystem::path& pair) const {
    const std::filesystem::path to = file("wider");
    std::filesystem::create_directories(to / "draft");
    std::filesystem::copy_file(pair / "config.json", to / "config.json");
    std::ifstream from(pair / "draft" / "config.json");
    nlohmann::json config = nlohmann::json::parse(from);
    config["intermediate_size"] = 16 * config["intermediate_size"].get<int>();
    std::ofstream(to / "draft" / "config.json") << config;
    return to;
  }

  void store(const std::filesystem::path& path, const std::string& device,
             const std::vector<std::vector<PointMeasurement>>& parts) const {
    db::Store store = db::Store::open(path.string(), db::OpenMode::kCreateOrOpen);
    const std::int64_t run = store.begin_run({.kind = "test", .device = device});
    for (const std::vector<PointMeasurement>& part : parts) {
      for (const PointMeasurement& point : part) {
        store.add_point(run, point);
      }
    }
    store.finish_run(run, RunStatus::kComplete);
  }

 private:
  test::TempFolder folder_;
};

inline const World& world() {
  static const World instance;
  return instance;
}

inline std::string db_option() {
  return " --db " + world().database().string();
}

}  // namespace versieve::test
