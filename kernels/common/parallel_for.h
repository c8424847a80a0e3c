// Runs body(i) for every i in [0, count) on up to `threads` threads, each a contiguous share. The
// body may not throw; which thread runs an index never shows in a result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace versieve::kernels {

template <class Body>
void parallel_for(std::int64_t count, int threads, const Body& body) {
  const std::int64_t shares = std::min<std::int64_t>(threads, count);
  const auto run_share = [&](std::int64_t share) {
    for (std::int64_t i = count * share / shares; i < count * (share + 1) / shares; ++i) {
      body(i);
    }
  };
  std::vector<std::jthread> others;
  for (std::int64_t share = 1; share < shares; ++share) {
    others.emplace_back(run_share, share);
  }
  if (shares > 0) {
    run_share(0);
  }
}

}  // namespace versieve::kernels
