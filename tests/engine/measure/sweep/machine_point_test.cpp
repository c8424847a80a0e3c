// A machine's micro-benchmarks through a campaign on the CPU backend, and what their points say of
// it.
#include "engine/measure/sweep/machine_point.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/analyse/plan/hardware_file.h"
#include "engine/measure/sweep/machine_figures.h"
#include "model/words/kernel_case.h"
#include "model/words/machine_rates.h"
#include "tests/engine/measure/sweep/campaign_case.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointMeasurement timed(const std::string& text, std::int64_t length, std::int64_t rows,
                       CacheState cache, LaunchMode launch, double ns) {
  PointMeasurement point{.key = {.workload = WorkloadKind::kMachine,
                                 .strategy = text,
                                 .dtype = Dtype::kBf16,
                                 .cache_state = cache,
                                 .launch = launch,
                                 .context_len = length,
                                 .num_queries = rows}};
  point.time_ns = {ns, ns, ns};
  return point;
}

double figure(const std::vector<MeasuredFigure>& figures, const std::string& name) {
  for (const MeasuredFigure& each : figures) {
    if (each.name == name) {
      return each.figure.value;
    }
  }
  return -1.0;
}

}  // namespace

TEST_CASE("the texts of a machine's work are canonical") {
  for (const char* text : {"machine:copy", "machine:launch/c64", "machine:gemm/k4096m8192"}) {
    CHECK(MachineCase::parse(text).text() == text);
  }
  for (const char* text : {"machine:", "machine:copy/1", "machine:launch", "machine:launch/c0",
                           "machine:gemm/k1", "machine:gemm/k01m2"}) {
    CAPTURE(text);
    CHECK_THROWS(MachineCase::parse(text));
  }
}

TEST_CASE("machine points run the kernels that they name") {
  const SweepPlan plan = cpu_plan(R"([
        {"workload": "machine", "case": "machine:copy", "length": [4, 64]},
        {"workload": "machine", "case": "machine:launch/c5", "length": 1},
        {"workload": "machine", "case": "machine:gemm/k64m32", "length": 1, "rows": [1, 3]}])");
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1});
  REQUIRE(points.size() == 5);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    REQUIRE(point.ranges.size() == 1);
  }
  CHECK(points[1].ranges[0].predicted.total_read() == 64 * 1024.0);
  CHECK(points[2].ranges[0].launches == 5);
  CHECK(points[4].ranges[0].predicted.flops == 2.0 * 3 * 64 * 32);
}

TEST_CASE("the sweep that calibrates a machine covers copies, L2, launches and products") {
  const SweepPlan plan =
      sweep_from_json(std::string(built_in_sweep("calibrate")), "calibrate", Backend::kCuda);
  // A point is timed for half a second at most; its tensors and counters take about as long.
  CHECK(plan.points.size() <= 30);
  CHECK(plan.timing.stop.time_limit_s <= 0.5);
  std::vector<PointMeasurement> points;
  for (const PointKey& key : plan.points) {
    points.push_back({.key = key, .time_ns = {1000.0}});
  }
  for (const char* name :
       {"read_rate", "copy_rate", "l2_copy_rate", "gemm_rate", "graph_launch", "stream_launch"}) {
    CAPTURE(name);
    CHECK(figure(machine_figures(points, "here"), name) > 0.0);
  }
}

TEST_CASE("figures are the best of points that can be believed") {
  std::vector<PointMeasurement> points = {
      timed("machine:copy", 1024, 1, CacheState::kColdRotate, LaunchMode::kGraph,
            1000.0),  // 2 MiB moved
      timed("machine:copy", 2048, 1, CacheState::kColdRotate, LaunchMode::kGraph, 1500.0),
      timed("machine:copy", 1024, 1, CacheState::kWarm, LaunchMode::kGraph, 100.0),
      timed("machine:launch/c4", 1, 1, CacheState::kWarm, LaunchMode::kGraph, 8000.0),
      timed("machine:gemm/k1000m1000", 1, 1, CacheState::kColdRotate, LaunchMode::kGraph, 1000.0),
      timed("machine:gemm/k1000m1000", 1, 100, CacheState::kColdRotate, LaunchMode::kGraph,
            2000.0)};
  points.push_back(
      timed("machine:copy", 4096, 1, CacheState::kColdRotate, LaunchMode::kGraph, 1.0));
  points.back().reliability = Reliability::kThrottled;
  points.push_back(
      timed("machine:copy", 4096, 1, CacheState::kColdRotate, LaunchMode::kGraph, 1.0));
  points.back().status = PointStatus::kFailed;
  const std::vector<MeasuredFigure> figures = machine_figures(points, "here");
  CHECK(figure(figures, "copy_rate") == Approx(2.0 * 2048 * 1024 / 1500.0));
  CHECK(figure(figures, "l2_copy_rate") == Approx(2.0 * 1024 * 1024 / 100.0));
  CHECK(figure(figures, "graph_launch") == Approx(2.0));
  CHECK(figure(figures, "stream_launch") == -1.0);
  CHECK(figure(figures, "read_rate") == Approx(2000.0));
  CHECK(figure(figures, "gemm_rate") == Approx(100.0));  // 2e8 flop in 2 us
}

TEST_CASE("a calibrated machine is a hardware file that loads as it was written") {
  const test::TempFolder folder;
  for (const char* name : {"NVIDIA H200", "NVIDIA Imaginary 7"}) {
    const bool listed = std::string(name) == "NVIDIA H200";
    const MeasuredFigure read{"read_rate", {listed ? 700.0 : 400.0, "measured, here", true}};
    const HardwareSpec made = calibrated_hardware({.name = name,
                                                   .compute_capability = "8.9",
                                                   .sm_count = 46,
                                                   .l2_mib = 36,
                                                   .memory_mib = 12282,
                                                   .memory_bus_bits = 192,
                                                   .max_clock_mhz = 2475,
                                                   .memory_clock_mhz = 10501},
                                                  {read});
    CHECK(hardware_contradictions(made).empty());
    const std::string path = (folder / "made.json").string();
    std::ofstream(path) << hardware_json(made);
    const HardwareSpec loaded = load_hardware(path);
    CHECK(loaded.key == made.key);
    REQUIRE(loaded.measured.size() == 1);
    CHECK(loaded.measured[0].figure.source == "measured, here");
    CHECK(*cold_read_rate(loaded) == read.figure.value * 1e9);
    if (!listed) {
      CHECK(loaded[HardwareField::kSmCount] == 46);
      CHECK(loaded[HardwareField::kRawBandwidthGbps] == Approx(504.0).epsilon(0.01));
    }
  }
}

TEST_CASE("a machine that the catalogue lacks says whose unknown figures it has") {
  const auto source = [](const char* name, const char* capability) {
    return calibrated_hardware({.name = name, .compute_capability = capability}, {})
        .fields[static_cast<std::size_t>(HardwareField::kTensorFlopPerClockSm)]
        .source;
  };
  CHECK(source("NVIDIA H100 NVL", "9.0") == "as NVIDIA H100 80GB HBM3, of the same architecture");
  CHECK(source("NVIDIA RTX A6000", "8.6") == "as NVIDIA GeForce RTX 4090, of another architecture");
  CHECK(source("NVIDIA GB300", "10.3") == "as NVIDIA B200, of another architecture");
  CHECK(source("NVIDIA T4", "7.5") == "as NVIDIA H100 80GB HBM3, of another architecture");
  CHECK(source("NVIDIA H100 80GB HBM3", "9.0") ==
        "rate of the architecture that reproduces the quoted peak");
}

TEST_CASE("a figure that a machine cannot have is refused with a sentence") {
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const auto sentence = [&](const char* name, double value) {
    return impossible_because(h200, {name, {value, "here", true}});
  };
  // What one thread block copies of 512 MiB is no copy rate of a machine of 4.9 TB/s.
  CHECK(sentence("copy_rate", 10.5).find("copy_rate was measured as 10.5 GB/s, which cannot be") !=
        std::string::npos);
  CHECK(!sentence("l2_copy_rate", 23.5).empty());
  CHECK(!sentence("read_rate", 5100.0).empty());
  CHECK(!sentence("gemm_rate", 1200.0).empty());
  CHECK(!sentence("graph_launch", 0.0).empty());
  CHECK(sentence("copy_rate", 4120.0).empty());
  CHECK(sentence("l2_copy_rate", 6800.0).empty());
  CHECK(sentence("graph_launch", 0.7).empty());
  const test::TempFolder folder;
  const std::string path = (folder / "x.json").string();
  HardwareSpec made = h200;
  made.measured = {{"copy_rate", {10.5, "here", true}}};
  std::ofstream(path) << hardware_json(made);
  CHECK_THROWS_WITH(load_hardware(path), Catch::Contains("which cannot be"));
}

TEST_CASE("a hardware file's measured figures are checked") {
  const test::TempFolder folder;
  const std::string path = (folder / "x.json").string();
  std::ofstream(path) << R"({"key": "x", "name": "X", "like": "h200-sxm", "fields": {},
    "measured": {"wishes": {"value": 1, "source": "here"}}})";
  CHECK_THROWS_WITH(load_hardware(path), Catch::Contains("'wishes' is unknown"));
}
