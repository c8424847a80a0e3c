// Runs body(i) for every i in [0, count) on up to `threads` threads. Helpers are kept between calls
// and spin for a moment before they sleep: the CPU engine comes here for every op of every step.
// Which thread runs an index never shows in a result. The body may not throw and must not call
// parallel_for.
#pragma once

#include <algorithm>
#include <cstdint>

namespace versieve::kernels {

// One call's work as the helpers see it: run(body, begin, end) for pieces of [0, count).
struct ParallelWork {
  void (*run)(const void* body, std::int64_t begin, std::int64_t end) = nullptr;
  const void* body = nullptr;
  std::int64_t count = 0;
  std::int64_t piece = 1;  // indices claimed at a time
};
// The calling thread takes part; returns when all is done. REQUIRES: threads >= 2.
void run_parallel(const ParallelWork& work, int threads);

template <class Body>
void parallel_for(std::int64_t count, int threads, const Body& body) {
  const std::int64_t workers = std::min<std::int64_t>(threads, count);
  if (workers <= 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  ParallelWork work;
  work.body = &body;
  work.count = count;
  work.piece = std::max<std::int64_t>(1, count / (workers * 8));
  work.run = [](const void* erased, std::int64_t begin, std::int64_t end) {
    const Body& typed = *static_cast<const Body*>(erased);
    for (std::int64_t i = begin; i < end; ++i) {
      typed(i);
    }
  };
  run_parallel(work, static_cast<int>(workers));
}

}  // namespace versieve::kernels
