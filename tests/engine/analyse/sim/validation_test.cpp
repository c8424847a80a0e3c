// Errors between counted and simulated points, on numbers made by hand.
#include "engine/analyse/sim/validation.h"

#include <catch2/catch.hpp>

#include "engine/analyse/sim/memory_counters.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

RangeMeasurement range_of(const std::string& path, double read, double written, double hits) {
  MemoryCounters c;
  c.dram_read_bytes = 1e4 * read;
  c.dram_write_bytes = 1e4 * written;
  c.l2_requests = 1000.0;
  c.l2_hit_requests = hits;
  return {.path = path, .launches = 1, .counters = counter_values(c)};
}

PointMeasurement point_of(std::vector<RangeMeasurement> ranges) {
  PointMeasurement point;
  point.key.context_len = 4096;
  point.key.num_queries = 16;
  point.key.cache_state = CacheState::kWarm;
  point.ranges = std::move(ranges);
  return point;
}

}  // namespace

TEST_CASE("ranges are compared by path, then the point as a whole") {
  const PointMeasurement counted =
      point_of({range_of("a", 100.0, 100.0, 500.0), range_of("b", 800.0, 0.0, 100.0),
                range_of("unknown to the simulator", 1e9, 0.0, 0.0)});
  const PointMeasurement simulated =
      point_of({range_of("b", 760.0, 0.0, 150.0), range_of("a", 110.0, 50.0, 500.0)});
  const std::vector<Comparison> comparisons = compare(counted, simulated);
  REQUIRE(comparisons.size() == 3);
  CHECK(comparisons[0].path == "a");
  CHECK(comparisons[0].bytes_error() == Approx(0.2));
  CHECK(comparisons[0].read_error() == Approx(0.1));
  CHECK(comparisons[1].hit_rate_error() == Approx(0.05));
  CHECK(comparisons[2].path == "all");
  CHECK(comparisons[2].bytes_error() == Approx(80.0 / 1000.0));
  CHECK(comparisons[2].hit_rate_error() == Approx(0.025));
}

TEST_CASE("where next to nothing moved errors are relative to a floor") {
  const PointMeasurement counted = point_of({range_of("a", 1.0, 0.0, 0.0)});  // 10 kB
  const PointMeasurement simulated = point_of({range_of("a", 0.0, 0.0, 0.0)});
  CHECK(compare(counted, simulated)[0].bytes_error() == Approx(0.1));
}

TEST_CASE("a range without counters is left out") {
  PointMeasurement counted = point_of({range_of("a", 100.0, 0.0, 0.0)});
  counted.ranges[0].counters[7].value.reset();  // dram__bytes_read.sum
  REQUIRE(counted.ranges[0].counters[7].metric == "dram__bytes_read.sum");
  CHECK(compare(counted, point_of({range_of("a", 100.0, 0.0, 0.0)})).empty());
}

TEST_CASE("summaries give rank quantiles by launch, context, queries and cache state") {
  std::vector<Comparison> comparisons;
  for (int i = 1; i <= 10; ++i) {
    const PointMeasurement counted = point_of({range_of("a", 100.0, 0.0, 0.0)});
    const PointMeasurement simulated = point_of({range_of("a", 100.0 + i, 0.0, 0.0)});
    for (const Comparison& c : compare(counted, simulated)) {
      comparisons.push_back(c);
    }
  }
  const std::vector<SimulationErrors> summaries = summarize(comparisons);
  REQUIRE(summaries.size() == 5);
  CHECK(summaries[0].what == "all");
  CHECK(summaries[0].count == 10);
  CHECK(summaries[0].bytes_median == Approx(0.05));
  CHECK(summaries[0].bytes_p90 == Approx(0.09));
  CHECK(summaries[1].what == "a");
  CHECK(summaries[2].what == "L 4096");
  CHECK(summaries[3].what == "N 16");
  CHECK(summaries[4].what == "warm");
}

TEST_CASE("points that move next to nothing are a row of their own") {
  std::vector<Comparison> comparisons;
  for (const double read : {500.0, 99.0, 1.0}) {  // 5 MB, 990 and 10 kB
    const PointMeasurement counted = point_of({range_of("a", read, 0.0, 0.0)});
    const PointMeasurement simulated = point_of({range_of("a", 2.0 * read, 0.0, 0.0)});
    for (const Comparison& c : compare(counted, simulated)) {
      comparisons.push_back(c);
    }
  }
  const std::vector<SimulationErrors> summaries = summarize(comparisons);
  CHECK(summaries.front().what == "all");
  CHECK(summaries.front().count == 1);
  CHECK(summaries[1].what == "a");
  CHECK(summaries[1].count == 3);
  CHECK(summaries.back().what == "below 1 MB");
  CHECK(summaries.back().count == 2);
  CHECK(summaries.back().bytes_p90 == Approx(1.0));
  CHECK(summaries.back().bytes_median == Approx(0.1));  // of the floor
}
