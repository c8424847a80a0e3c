#include "engine/analyse/sim/dram.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {

Dram::Dram(const MemoryMachine& machine)
    : sector_cycles_(static_cast<double>(kSectorBytes * machine.dram_channels) /
                     (machine.dram_bytes_per_s / machine.clock_hz)),
      latency_(machine.dram_latency_cycles),
      turnaround_(machine.turnaround_cycles),
      write_batch_(static_cast<unsigned>(machine.write_batch)),
      channels_(static_cast<std::size_t>(machine.dram_channels)) {
  VERSIEVE_ASSERT(machine.dram_bytes_per_s > 0.0, "a machine reads its memory at some rate");
}

Dram::Channel& Dram::channel_of(std::uint64_t hash) {
  return channels_[(hash >> 20 & 0xFFFFFF) * channels_.size() >> 24];
}

double Dram::read(std::uint64_t hash, unsigned sectors, double now) {
  Channel& channel = channel_of(hash);
  read_sectors_ += sectors;
  channel.free_at = std::max(channel.free_at, now) + sectors * sector_cycles_;
  return channel.free_at + latency_;
}

void Dram::write(std::uint64_t hash, unsigned sectors, double now) {
  Channel& channel = channel_of(hash);
  written_sectors_ += sectors;
  channel.waiting_writes += sectors;
  if (channel.waiting_writes >= write_batch_) {
    channel.free_at = std::max(channel.free_at, now) + 2.0 * turnaround_ +
                      channel.waiting_writes * sector_cycles_;
    channel.waiting_writes = 0;
  }
}

}  // namespace versieve::engine
