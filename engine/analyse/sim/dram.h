// HBM as channels of finite bandwidth: a read waits for its channel, writes are collected and
// drained in batches, and turning a channel from reading to writing and back costs time.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/analyse/sim/memory_machine.h"

namespace versieve::engine {

class Dram {
 public:
  explicit Dram(const MemoryMachine& machine);

  // Both take the cycle at which the request arrives; read returns when its data have left DRAM.
  double read(std::uint64_t hash, unsigned sectors, double now);
  void write(std::uint64_t hash, unsigned sectors, double now);

  std::uint64_t read_sectors() const { return read_sectors_; }
  std::uint64_t written_sectors() const { return written_sectors_; }

 private:
  struct Channel {
    double free_at = 0.0;
    unsigned waiting_writes = 0;  // sectors
  };
  Channel& channel_of(std::uint64_t hash);

  double sector_cycles_;  // of one channel
  double latency_;
  double turnaround_;
  unsigned write_batch_;
  std::vector<Channel> channels_;
  std::uint64_t read_sectors_ = 0;
  std::uint64_t written_sectors_ = 0;
};

}  // namespace versieve::engine
