// What the memory hierarchy counted, under the names and in the units of the GPU's counters, so
// that simulated and measured ranges meet by metric.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::engine {

struct MemoryCounters {
  double l1_sectors = 0.0;        // asked of L1; what the copy engine moves is not among them
  double sm_sectors = 0.0;        // that SMs asked of L2, joined ones left out
  double l2_sectors = 0.0;        // all lookups: SMs', the fabric's, overhead
  double l2_read_sectors = 0.0;   //
  double l2_write_sectors = 0.0;  //
  double l2_hit_sectors = 0.0;
  double l2_requests = 0.0;
  double l2_hit_requests = 0.0;  // whose sectors were all there
  double dram_read_bytes = 0.0;
  double dram_write_bytes = 0.0;
  double cycles = 0.0;
  double duration_ns = 0.0;

  double l2_hit_rate() const { return l2_requests > 0.0 ? l2_hit_requests / l2_requests : 0.0; }
  MemoryCounters& operator+=(const MemoryCounters& other);
};
MemoryCounters operator-(const MemoryCounters& a, const MemoryCounters& b);

// CUPTI's names: "dram__bytes_read.sum", ... Status "ok".
std::vector<CounterValue> counter_values(const MemoryCounters& counters);

}  // namespace versieve::engine
