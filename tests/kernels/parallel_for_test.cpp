// The helper pool runs every index once and can be called from several threads.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "kernels/common/parallel_for.h"

using versieve::kernels::parallel_for;

namespace {

// How often each index of [0, count) was run.
bool runs_each_once(std::int64_t count, int threads) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
  parallel_for(count, threads, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
  for (const std::atomic<int>& times : seen) {
    if (times != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("every index runs exactly once, whatever the number of threads") {
  for (const int threads : {1, 2, 3, 7}) {
    for (const std::int64_t count : {0, 1, 2, 5, 64, 1000}) {
      CAPTURE(threads, count);
      CHECK(runs_each_once(count, threads));
    }
  }
}

TEST_CASE("thousands of short calls with changing widths lose no index") {
  for (int i = 0; i < 5000; ++i) {
    REQUIRE(runs_each_once(1 + i % 9, 1 + i % 4));
  }
}

TEST_CASE("two callers at once each get their own helpers") {
  std::atomic<bool> good = true;
  const auto call = [&] {
    for (int i = 0; i < 500; ++i) {
      good = good && runs_each_once(37, 3);
    }
  };
  {
    const std::jthread first(call);
    const std::jthread second(call);
  }
  CHECK(good);
}
