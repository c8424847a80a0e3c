// The memory hierarchy of a machine as the simulator takes it: sizes from the hardware catalogue,
// what the catalogue does not know from measurements on GH100 (README.md of this folder).
#pragma once

#include <cstdint>

#include "engine/analyse/sim/l2_cache.h"
#include "model/words/hardware.h"

namespace versieve::engine {

inline constexpr std::uint64_t kLineBytes = 128;
inline constexpr std::uint64_t kSectorBytes = 32;

struct MemoryMachine {
  // SMs.
  std::int64_t sm_count = 132;
  std::int64_t gpc_count = 8;
  std::int64_t threads_per_sm = 2048;
  std::int64_t blocks_per_sm = 32;
  std::int64_t registers_per_sm = 65536;
  std::int64_t shared_bytes_per_sm = 228 * 1024;
  double clock_hz = 1.98e9;  // cycles below are of this clock
  double sm_bytes_per_cycle = 64.0;
  std::int64_t placed_together = 2;  // consecutive CTAs on neighbouring SMs of one side

  // L2: partitions that each serve half of the SMs and are the home of half of the lines.
  std::int64_t l2_bytes = 60LL << 20;
  std::int64_t l2_partitions = 2;
  L2Policy l2_policy;
  double l2_hit_cycles = 288.0;
  double fabric_cycles = 200.0;  // more, where the other partition is asked

  // DRAM.
  std::int64_t dram_channels = 96;
  double dram_bytes_per_s = 4.64e12;   // of a long read
  double dram_latency_cycles = 560.0;  // beyond L2's
  double turnaround_cycles = 30.0;     // of a channel, each way
  std::int64_t write_batch = 16;       // sectors that a channel collects before it turns to writing

  // Requests of a GPC's SMs for a line that is on its way from DRAM are joined before L2 and
  // answered together; for one that L2 has, those that come within a short time.
  std::int64_t joined_lines = 4096;  // that a GPC can follow
  double joined_hit_cycles = 120.0;

  // What a launch asks of L2 beside its data.
  double launch_requests = 8500.0;
  double launch_sectors = 4000.0;
  double overhead_hit_share = 0.12;

  // CTAs that start together drift apart: a step takes up to that share more, by CTA and step.
  double step_jitter = 0.25;
  double poll_cycles = 800.0;  // between two looks of a CTA that waits: L2's answer, 20 ns of sleep
  double cta_start_cycles = 1.2;  // between two CTAs' starts (a launch of 1,056 small ones: 1.1 us)
};

// Throws Error(kUsage) for a catalogue entry without SMs, L2 or bandwidth.
MemoryMachine memory_machine(const HardwareSpec& spec);

// What a launch that does nothing counts on a card, beside the time that it takes: requests of L2,
// mostly of one sector, that no SM made.
struct EmptyLaunch {
  double requests = 0.0;
  double hits = 0.0;
};
// That machine, its launches' own requests those of the card where the simulator was made (which
// `launch_requests` has in it) and what an empty launch counts more on this one.
MemoryMachine counted_on(MemoryMachine machine, const EmptyLaunch& empty);

// CTAs of that shape that one SM holds; 0: it holds none.
std::int64_t resident_ctas(const MemoryMachine& machine, std::int64_t threads,
                           std::int64_t registers, std::int64_t shared_bytes);

}  // namespace versieve::engine
