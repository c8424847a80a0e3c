// Waves of CTAs on SMs: how many are resident, in which order they run, that runs repeat.
#include <catch2/catch.hpp>

#include "engine/analyse/sim/launch_schedule.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

// Each CTA reads its own `lines` lines, one a step.
class OwnLines final : public LaunchTrace {
 public:
  OwnLines(LaunchShape shape, std::int64_t lines) : LaunchTrace(std::move(shape)), lines_(lines) {}
  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    if (step >= lines_) {
      return false;
    }
    out.push_back({.address = (1ULL << 30) + static_cast<std::uint64_t>(cta * lines_ + step) * 128,
                   .bytes = 128});
    return true;
  }

 private:
  std::int64_t lines_;
};

ScheduledLaunch scheduled(const LaunchShape& shape, std::int64_t lines, MemoryCounters* counters) {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  MemorySystem memory(machine);
  const ScheduledLaunch result = run_launch(OwnLines(shape, lines), machine, memory, 0.0);
  if (counters != nullptr) {
    *counters = memory.counters();
  }
  return result;
}

}  // namespace

TEST_CASE("an SM holds as many CTAs as its scarcest resource allows") {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  CHECK(resident_ctas(machine, 128, 32, 0) == 16);          // threads
  CHECK(resident_ctas(machine, 32, 32, 0) == 32);           // CTAs
  CHECK(resident_ctas(machine, 128, 128, 0) == 4);          // registers
  CHECK(resident_ctas(machine, 128, 32, 113 * 1024) == 2);  // shared memory
  CHECK(resident_ctas(machine, 128, 32, 227 * 1024) == 1);
  CHECK(resident_ctas(machine, 128, 32, 228 * 1024) == 0);
}

TEST_CASE("15 clusters of 8 CTAs are resident on an H200 at one CTA an SM") {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  CHECK(resident_clusters(machine, 8, 1) == 15);  // measured
  CHECK(resident_clusters(machine, 1, 1) == 132);
}

TEST_CASE("CTAs beyond those resident run in further waves") {
  const LaunchShape shape{.path = "x", .threads = 1024, .registers = 32, .step_cycles = 0.0};
  LaunchShape one = shape;
  one.ctas = 264;
  LaunchShape three = shape;
  three.ctas = 3 * 264;
  const ScheduledLaunch first = scheduled(one, 8, nullptr);
  const ScheduledLaunch third = scheduled(three, 8, nullptr);
  CHECK(first.resident_ctas == 264);
  CHECK(first.waves == 1.0);
  CHECK(third.waves == 3.0);
  CHECK(third.end_cycle > 2.5 * first.end_cycle);
  CHECK(third.end_cycle < 3.5 * first.end_cycle);
}

TEST_CASE("a launch counts the same each time") {
  const LaunchShape shape{.path = "x", .ctas = 1000, .cluster = 8, .registers = 32};
  MemoryCounters a;
  MemoryCounters b;
  const ScheduledLaunch first = scheduled(shape, 20, &a);
  const ScheduledLaunch second = scheduled(shape, 20, &b);
  CHECK(first.end_cycle == second.end_cycle);
  CHECK(a.l2_requests == b.l2_requests);
  CHECK(a.l2_hit_requests == b.l2_hit_requests);
  CHECK(a.dram_read_bytes == 1000.0 * 20 * 128);
  CHECK(b.dram_read_bytes == a.dram_read_bytes);
}

TEST_CASE("a CTA that no SM can hold is refused with a sentence") {
  const LaunchShape shape{.path = "too_large", .shared_bytes = 300 * 1024};
  CHECK_THROWS_WITH(scheduled(shape, 1, nullptr), Catch::Contains("too_large"));
}

namespace {

// Rank r takes r + 1 steps, then meets the others, then one more.
class Meeting final : public LaunchTrace {
 public:
  Meeting() : LaunchTrace({.path = "x", .ctas = 8, .cluster = 8, .step_cycles = 1000.0}) {}
  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const bool last = step == cta + 1;
    if (step > cta + 1) {
      return false;
    }
    // Before the meeting a CTA stores its line; after it, it reads its neighbour's.
    const std::int64_t line = last ? (cta + 1) % 8 : cta;
    out.push_back({.address = (1ULL << 30) + static_cast<std::uint64_t>(line) * 128,
                   .bytes = 128,
                   .kind = last ? AccessKind::kRead : AccessKind::kWrite});
    return true;
  }
  bool meets_cluster(std::int64_t cta, std::int64_t step) const override { return step == cta + 1; }
};

}  // namespace

TEST_CASE("a cluster meets before any CTA of it goes on") {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  MemorySystem memory(machine);
  const ScheduledLaunch result = run_launch(Meeting(), machine, memory, 0.0);
  CHECK(memory.counters().dram_read_bytes == 0);  // all lines had been stored
  CHECK(result.end_cycle > 9 * 1000.0);
}

namespace {

// CTAs 0 to 6 store their lines in as many steps; the last one waits for five of them.
class WaitsForFive final : public LaunchTrace {
 public:
  WaitsForFive() : LaunchTrace({.path = "x", .ctas = 8, .step_cycles = 1000.0}) {}
  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    if (cta < 7) {
      out.push_back({.address = (1ULL << 30) + static_cast<std::uint64_t>(cta) * 128,
                     .bytes = 128,
                     .kind = AccessKind::kWrite});
      return step <= cta;
    }
    if (step == 1) {  // the five that ended first
      out.push_back({.address = 1ULL << 30, .bytes = 5 * 128});
    }
    return step < 2;
  }
  std::int64_t arrives_at(std::int64_t cta) const override { return cta < 7 ? 3 : -1; }
  Waiting waits_for(std::int64_t cta, std::int64_t step) const override {
    return cta == 7 && step == 1 ? Waiting{3, 5} : Waiting{};
  }
};

}  // namespace

TEST_CASE("a CTA that waits for others goes on when they have ended, and asks meanwhile") {
  const MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  MemorySystem memory(machine);
  const ScheduledLaunch result = run_launch(WaitsForFive(), machine, memory, 0.0);
  CHECK(memory.counters().dram_read_bytes == 0);  // all five lines had been stored
  CHECK(result.end_cycle > 7 * 1000.0);
  // It waited some four steps of 1,000 cycles.
  MemorySystem idle(machine);
  idle.count_launch();
  CHECK(memory.counters().l2_requests - idle.counters().l2_requests > 28 + 5 + 3);
}
