#include "engine/analyse/sim/memory_counters.h"

#include "model/words/range_counters.h"

namespace versieve::engine {
namespace {

struct Named {
  const char* metric;
  double MemoryCounters::*value;
};

constexpr Named kNamed[] = {
    {"lts__t_sectors.sum", &MemoryCounters::l2_sectors},
    {"lts__t_sectors_op_read.sum", &MemoryCounters::l2_read_sectors},
    {"lts__t_sectors_op_write.sum", &MemoryCounters::l2_write_sectors},
    {"lts__t_sectors_srcunit_tex.sum", &MemoryCounters::sm_sectors},
    {"lts__t_sectors_lookup_hit.sum", &MemoryCounters::l2_hit_sectors},
    {"lts__t_requests.sum", &MemoryCounters::l2_requests},
    {"lts__t_requests_lookup_hit.sum", &MemoryCounters::l2_hit_requests},
    {kDramBytesRead, &MemoryCounters::dram_read_bytes},
    {kDramBytesWrite, &MemoryCounters::dram_write_bytes},
    {"gpu__time_duration.sum", &MemoryCounters::duration_ns},
    {"sm__cycles_elapsed.max", &MemoryCounters::cycles},
    {"l1tex__t_sectors.sum", &MemoryCounters::l1_sectors},
};

}  // namespace

MemoryCounters& MemoryCounters::operator+=(const MemoryCounters& other) {
  for (const Named& named : kNamed) {
    this->*named.value += other.*named.value;
  }
  return *this;
}

MemoryCounters operator-(const MemoryCounters& a, const MemoryCounters& b) {
  MemoryCounters difference = a;
  for (const Named& named : kNamed) {
    difference.*named.value -= b.*named.value;
  }
  return difference;
}

std::vector<CounterValue> counter_values(const MemoryCounters& counters) {
  std::vector<CounterValue> values;
  for (const Named& named : kNamed) {
    values.push_back({.metric = named.metric, .value = counters.*named.value});
  }
  return values;
}

}  // namespace versieve::engine
