// Overlapping kernels: no instant is counted twice and none is lost.
#include "profiler/busy_time.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

using namespace versieve::profiler;

TEST_CASE("kernels one after another take their durations") {
  CHECK(busy_times({}).empty());
  CHECK(busy_times({{10, 14}, {14, 15}, {20, 50}}) == std::vector<double>{4, 1, 30});
}

TEST_CASE("a kernel that started early takes what its predecessors left") {
  // The second waits from 2 to 10 for the first, the third for both.
  CHECK(busy_times({{0, 10}, {2, 15}, {3, 21}}) == std::vector<double>{10, 5, 6});
  // One that ends within another takes its own time, the other the rest, before and after.
  CHECK(busy_times({{0, 10}, {2, 5}}) == std::vector<double>{7, 3});
  CHECK(busy_times({{0, 4}, {0, 4}}) == std::vector<double>{4, 0});
}

TEST_CASE("busy times add up to the time at which any kernel ran") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<KernelSpan> kernels(20);
    std::vector<int> busy(300, 0);
    for (KernelSpan& k : kernels) {
      k.start_ns = random() % 250;
      k.end_ns = k.start_ns + random() % 40;
      std::fill(busy.begin() + static_cast<std::ptrdiff_t>(k.start_ns),
                busy.begin() + static_cast<std::ptrdiff_t>(k.end_ns), 1);
    }
    const std::vector<double> times = busy_times(kernels);
    INFO("seed " << seed);
    CHECK(std::accumulate(times.begin(), times.end(), 0.0) ==
          std::accumulate(busy.begin(), busy.end(), 0));
    for (std::size_t i = 0; i < times.size(); ++i) {
      CHECK(times[i] >= 0.0);
      CHECK(times[i] <= static_cast<double>(kernels[i].end_ns - kernels[i].start_ns));
    }
  }
}
