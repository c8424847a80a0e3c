// Recordings of steps by their shape: a step whose launches are those of one before takes its
// recording, while requests join and leave and contexts grow. Memory that is released takes along
// the recordings that were made while it was there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/ops_together.h"

namespace versieve::engine {

template <class T>
class StepRecordings {
 public:
  // Runs `work`, which only enqueues, or what it enqueued when a step had that shape. An empty
  // shape, and one that was not seen before, runs as it is; the second time it is recorded.
  void run(kernels::Ops<T>& ops, const kernels::StepShape& shape,
           const std::function<void()>& work);
  std::int64_t recordings() const { return recordings_; }
  std::int64_t replays() const { return replays_; }

 private:
  static constexpr std::size_t kMost = 48;  // shapes that are known

  struct Known {
    kernels::StepShape shape;
    std::unique_ptr<kernels::Recording> recording;  // null: seen once
    std::int64_t made = 0;  // by the memory's log: it names nothing that came later
  };
  void forget_gone(const kernels::Ops<T>& ops);

  std::vector<Known> known_;   // the newest last
  std::int64_t released_ = 0;  // Ops::released() when all of them were known to hold
  std::int64_t recordings_ = 0, replays_ = 0;
};

}  // namespace versieve::engine
