// How fast the simulator goes: hidden, since a figure of the machine proves nothing in a test run.
//   test_engine_sim "[.speed]"
#include <catch2/catch.hpp>
#include <cstdio>
#include <ctime>

#include "engine/analyse/sim/simulate_point.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("sector accesses a second on one core", "[.speed]") {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  for (const char* strategy : {"nsa/d6k8n64/bfs/c1/F*/form=vanilla", "nsa/d6k8n64/bfs/c4e/F*"}) {
    const PointKey key{.model = "nsa-1b",
                       .strategy = strategy,
                       .dtype = Dtype::kBf16,
                       .cache_state = CacheState::kColdRotate,
                       .context_len = 65536,
                       .num_queries = 64,
                       .overlap = 0.8};
    const std::vector<LaunchSequence> launches = attention_sequences(key, {}, 1, 1);
    MemorySystem memory(machine);
    const std::clock_t begin = std::clock();  // of this process: other programs do not count
    double now = 0.0;
    run_sequence(machine, memory, launches.front(), now);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const MemoryCounters counted = memory.counters();
    // What the copy engine asks is not among L1's sectors; lookups in L2 count all that was looked
    // up, and joined requests none.
    const double sectors = std::max(counted.l1_sectors, counted.l2_sectors);
    std::printf("%s: %.1f M sectors in %.2f s: %.1f M a second; %.1f M lookups of L2\n", strategy,
                sectors / 1e6, seconds, sectors / seconds / 1e6, counted.l2_sectors / 1e6);
    CHECK(sectors / seconds > 30e6);
  }
}
