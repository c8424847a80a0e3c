// From an SM's access to the counters: joining of requests in flight (within a GPC), the partitions
// of L2 with the fabric between them, DRAM.
//
// Hopper's L2 has two partitions. A line has one home; an SM asks its own partition first, and what
// that lacks comes from the home over the fabric, leaving a clean copy behind. So a line read from
// both sides occupies L2 twice, and a read stream alone makes 60 MiB hold some 40. Stores go to
// the home, and a copy on the other side is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/analyse/sim/dram.h"
#include "engine/analyse/sim/l2_cache.h"
#include "engine/analyse/sim/memory_counters.h"
#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

class MemorySystem {
 public:
  explicit MemorySystem(const MemoryMachine& machine);

  // What an SM of that GPC asks at cycle `now`; returns the cycle at which it has all of it
  // (stores: at which it may go on).
  double access(const Access& access, std::int64_t gpc, double now);

  // What a launch fetches beside its data.
  void count_launch();
  // Requests for one sector that is there, of CTAs that wait for others.
  void count_polls(double polls);
  // Lines that others left in L2: `bytes` of fresh lines, a share of them dirty. Not counted.
  void fill_foreign(double bytes, double dirty_share);

  // A launch begins: how many began before it.
  std::int64_t begin_launch() { return launches_++; }
  std::int64_t gpc_count() const { return static_cast<std::int64_t>(in_flight_.size()); }
  // Cycles and durations are the scheduler's to fill in.
  MemoryCounters counters() const;
  std::int64_t dirty_bytes() const;

 private:
  // The newest request for a line, direct-mapped.
  struct InFlight {
    std::uint64_t line = 0;
    unsigned mask = 0;
    double until = 0.0;
  };
  void prefetch(std::uint64_t line, std::size_t partition);
  // Lines that are marked to leave first leave no copy, and a half of one that comes from the other
  // side's DRAM is looked up once more.
  double read_line(std::uint64_t line, unsigned mask, LineStay stay, std::size_t gpc, double now);
  // `whole`: all bytes of the sectors.
  void write_line(std::uint64_t line, unsigned mask, bool whole, std::size_t partition, double now);
  // The home's sectors, from DRAM where they are not there.
  double read_home(std::uint64_t line, std::uint64_t hash, unsigned mask, LineStay stay,
                   std::size_t home, double now);
  double read_over_fabric(std::uint64_t line, std::uint64_t hash, unsigned mask, LineStay stay,
                          std::size_t home, double now);
  void count_lookup(unsigned mask, unsigned hit);
  void write_back(const L2Partition::Outcome& outcome, double now);
  // The first half of the GPCs lies on one side, the second on the other.
  std::size_t side_of(std::size_t gpc) const {
    return gpc * partitions_.size() / in_flight_.size();
  }
  std::size_t home_of(std::uint64_t hash) const {
    return partitions_.size() == 1 ? 0 : static_cast<std::size_t>(hash & 1);
  }

  MemoryMachine machine_;
  std::vector<L2Partition> partitions_;
  std::vector<std::vector<InFlight>> in_flight_;  // by GPC
  Dram dram_;
  std::int64_t launches_ = 0;
  std::uint64_t foreign_line_ = 1ULL << 40;  // where no trace has its buffers
  std::uint64_t l1_sectors_ = 0, sm_sectors_ = 0, read_sectors_ = 0, write_sectors_ = 0,
                hit_sectors_ = 0, requests_ = 0, hit_requests_ = 0;
  double overhead_requests_ = 0.0, overhead_sectors_ = 0.0, overhead_hits_ = 0.0;
};

}  // namespace versieve::engine
