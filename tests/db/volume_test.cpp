// How much the store takes: ingest and overview of a database of a million rows, and two hundred
// kills. Minutes long, so hidden: test_db "[.volume]" prints the figures.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "db/store.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::db;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

PointMeasurement timed_point(std::int64_t number, std::size_t samples) {
  PointMeasurement point;
  point.key = {.workload = WorkloadKind::kAttention,
               .model = "nsa-1b",
               .regime = "synthetic",
               .strategy = "nsa/d6k8n64/bfs/c1/F*",
               .dtype = Dtype::kBf16,
               .backend = Backend::kCuda,
               .cache_state = CacheState::kColdRotate,
               .launch = LaunchMode::kGraph,
               .context_len = 1024 + number,
               .num_queries = 64,
               .overlap = 0.8};
  for (std::size_t i = 0; i < samples; ++i) {
    point.time_ns.push_back(
        5e4 + static_cast<double>((number * 31 + 7 * static_cast<std::int64_t>(i)) % 997));
  }
  point.stop_reason = "target";
  return point;
}

}  // namespace

// Points of 2,000 samples, the most that a sweep takes by default: one transaction each.
TEST_CASE("a million samples are stored at 100,000 a second and overviewed in 300 ms",
          "[.volume]") {
  const test::TempFolder folder;
  const std::string path = (folder / "volume.db").string();
  constexpr std::int64_t kPoints = 500;
  constexpr std::size_t kSamples = 2000;
  const auto begin = std::chrono::steady_clock::now();
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run = store.begin_run({.kind = "volume", .device = "NVIDIA H200"});
    for (std::int64_t i = 0; i < kPoints; ++i) {
      store.add_point(run, timed_point(i, kSamples));
    }
    store.finish_run(run, RunStatus::kComplete);
  }
  const double rate = static_cast<double>(kPoints) * kSamples / seconds_since(begin);
  const auto opened = std::chrono::steady_clock::now();
  const Store store = Store::open(path, OpenMode::kReadOnly);
  const std::size_t points = store.overview({}).points.size();
  const double answer_ms = 1e3 * seconds_since(opened);
  std::printf(
      "%.0f samples/s, one transaction a point; opened and overviewed %zu points in %.0f ms\n",
      rate, points, answer_ms);
  CHECK(points == kPoints);
  CHECK(rate >= 1e5);
  CHECK(answer_ms <= 300.0);
}
