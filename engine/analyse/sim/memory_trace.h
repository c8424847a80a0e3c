// What a kernel's thread blocks ask of memory: the words of a block-access trace. A trace is a
// function, not a file: each CTA's accesses are given step by step as the simulator asks for them,
// so the memory that a trace takes is one step of each resident CTA, however long it is. The same
// shapes and indices give the same trace, whichever backend computed the indices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace versieve::engine {

enum class AccessKind : std::uint8_t {
  kRead,      // by a warp's loads, through L1
  kBulkRead,  // by the copy engine or asynchronous copies, past L1
  kStream,    // likewise, of lines that are marked to leave L2 first (evict_first)
  kKept,      // likewise, to leave it last (evict_last)
  kWrite,     // by stores; every byte of the range is written
};

// `count` runs of `bytes` bytes, `stride` bytes apart, in ascending order.
struct Access {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t count = 1;
  std::uint64_t stride = 0;
  AccessKind kind = AccessKind::kRead;

  bool operator==(const Access&) const = default;
};

// One launch: how many CTAs, and what an SM needs to hold one.
struct LaunchShape {
  std::string path;  // the kernel's root word, as in NVTX and CUPTI ranges
  std::int64_t ctas = 1;
  std::int64_t cluster = 1;       // CTAs that are resident together; divides ctas
  std::int64_t threads = 128;     // of a CTA
  std::int64_t registers = 64;    // of a thread
  std::int64_t shared_bytes = 0;  // of a CTA
  std::int64_t local_bytes = 0;   // of a thread, that it spills: stored at first, read at the end
  double step_cycles = 100.0;     // a step takes at least that long
  double issue_cycles = 0.0;      // of them, that keep the SM from other CTAs' steps
  double steps_in_flight = 2.0;   // steps of a CTA whose loads overlap
  double pace_spread = 0.0;       // of clusters' paces, from the slowest to the fastest, around 1
  bool goes_on = false;           // a part of the launch before: nothing is launched
};

// A counter that CTAs raise as they end, and how far it must be for somebody to go on.
struct Waiting {
  std::int64_t counter = -1;  // none
  std::int64_t arrivals = 0;
  // Requests of L2 each time that it asks, and once `nearly_all` arrivals are there (0: from the
  // start).
  double requests = 1.0;
  std::int64_t nearly_all = 0;
  double late_requests = 1.0;
};

class LaunchTrace {
 public:
  explicit LaunchTrace(LaunchShape shape) : shape_(std::move(shape)) {}
  virtual ~LaunchTrace() = default;
  const LaunchShape& shape() const { return shape_; }

  // Appends what step `step` = 0, 1, ... of CTA `cta` (x fastest, then y, then z) accesses, in
  // order. False, and nothing appended, past the CTA's last step.
  virtual bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const = 0;
  // Whether the step begins when all CTAs of the cluster have come to theirs. A cluster's CTAs meet
  // as often as each other.
  virtual bool meets_cluster(std::int64_t /*cta*/, std::int64_t /*step*/) const { return false; }
  // The share of step_cycles and issue_cycles that the step takes.
  virtual double step_share(std::int64_t /*cta*/, std::int64_t /*step*/) const { return 1.0; }
  // The counter that the CTA raises at its end; -1: none.
  virtual std::int64_t arrives_at(std::int64_t /*cta*/) const { return -1; }
  // What the CTA asks for in a loop before that step (> 0).
  virtual Waiting waits_for(std::int64_t /*cta*/, std::int64_t /*step*/) const { return {}; }

 private:
  LaunchShape shape_;
};

}  // namespace versieve::engine
