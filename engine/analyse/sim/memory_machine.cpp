#include "engine/analyse/sim/memory_machine.h"

#include <algorithm>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

// What a long read gets of the bus on the machine where it was measured (H200: 4.64 of 4.917 TB/s);
// other machines are taken to get the same share.
double read_share() {
  const HardwareSpec& measured = hardware_by_key("h200-sxm");
  return *cold_read_rate(measured) / measured.raw_bandwidth();
}

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

MemoryMachine memory_machine(const HardwareSpec& spec) {
  MemoryMachine m;
  m.sm_count = whole(spec[HardwareField::kSmCount]);
  m.l2_bytes = whole(spec.l2_bytes());
  if (m.sm_count < 1 || m.l2_bytes < (1 << 16) || !(spec.raw_bandwidth() > 0.0)) {
    throw Error(ExitCode::kUsage, "hardware '" + spec.key +
                                      "' lacks SMs, L2 or memory bandwidth, and the simulator "
                                      "needs all three");
  }
  m.threads_per_sm = whole(spec[HardwareField::kThreadsPerSm]);
  m.blocks_per_sm = whole(spec[HardwareField::kBlocksPerSm]);
  m.registers_per_sm = whole(spec[HardwareField::kRegistersPerSm]);
  m.shared_bytes_per_sm = whole(spec[HardwareField::kSharedMemoryKibPerSm] * 1024.0);
  m.clock_hz = spec.l2_clock_hz();
  m.gpc_count = std::max<std::int64_t>(1, (m.sm_count + 15) / 18);
  m.dram_channels = std::max<std::int64_t>(1, whole(spec[HardwareField::kMemoryBusBits]) / 64);
  const std::optional<double> measured = cold_read_rate(spec);
  m.dram_bytes_per_s = measured ? *measured : spec.raw_bandwidth() * read_share();
  // Two partitions from A100's 40 MB on; the chips with GDDR have one.
  m.l2_partitions = spec[HardwareField::kMemoryBusBits] >= 4096.0 ? 2 : 1;
  return m;
}

MemoryMachine counted_on(MemoryMachine machine, const EmptyLaunch& empty) {
  constexpr double kOwnRequests = 2000.0;  // of an empty launch there (H200, 1,363 and 2,631)
  const double more = std::max(0.0, empty.requests - kOwnRequests);
  const double hits = machine.overhead_hit_share * machine.launch_requests +
                      more * empty.hits / std::max(1.0, empty.requests);
  machine.launch_requests += more;
  machine.launch_sectors += more;
  machine.overhead_hit_share = hits / machine.launch_requests;
  return machine;
}

std::int64_t resident_ctas(const MemoryMachine& machine, std::int64_t threads,
                           std::int64_t registers, std::int64_t shared_bytes) {
  constexpr std::int64_t kReserved = 1024;  // shared memory that the system takes of each CTA
  const std::int64_t warps = (threads + 31) / 32;
  const std::int64_t registers_of_cta = warps * 32 * ((registers + 7) / 8 * 8);
  return std::min({machine.blocks_per_sm, machine.threads_per_sm / (warps * 32),
                   machine.registers_per_sm / std::max<std::int64_t>(registers_of_cta, 1),
                   machine.shared_bytes_per_sm / (shared_bytes + kReserved)});
}

}  // namespace versieve::engine
