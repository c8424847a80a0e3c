// L2's two partitions, the fabric, DRAM: against what was measured on an H200 with known kernels
// (a copy, a re-read buffer) and by hand.
#include "engine/analyse/sim/memory_system.h"

#include <catch2/catch.hpp>

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::uint64_t kBase = 1ULL << 32;
constexpr double kLater = 1e7;  // cycles: nothing is in flight any more

MemoryMachine h200() {
  MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
  machine.launch_requests = machine.launch_sectors = 0.0;
  return machine;
}

// One pass over `bytes`, lines taken by the GPCs in turn.
void stream(MemorySystem& memory, std::uint64_t base, std::uint64_t bytes, AccessKind kind,
            double now) {
  for (std::uint64_t at = 0; at < bytes; at += 4096) {
    const std::int64_t gpc = static_cast<std::int64_t>(at / 4096) % memory.gpc_count();
    memory.access({.address = base + at, .bytes = 4096, .kind = kind}, gpc, now);
  }
}

}  // namespace

TEST_CASE("a range's lines and sectors are those that it touches") {
  MemorySystem memory(h200());
  memory.access({.address = kBase + 96, .bytes = 64}, 0, 0.0);
  CHECK(memory.counters().l1_sectors == 2);
  CHECK(memory.counters().dram_read_bytes == 64);
  memory.access({.address = kBase + 4096 + 4, .bytes = 4, .count = 3, .stride = 256}, 0, 0.0);
  CHECK(memory.counters().dram_read_bytes == 64 + 3 * 32);
}

TEST_CASE("a line homed on the other side is looked up there too and then has a copy here") {
  MemorySystem memory(h200());
  std::uint64_t line = kBase / kLineBytes;
  while ((line_hash(line) & 1) != 1) {  // home: partition 1
    ++line;
  }
  const Access access{.address = line * kLineBytes, .bytes = 128};
  memory.access(access, 0, 0.0);
  CHECK(memory.counters().l2_requests == 3);  // the home, which lacks it, by halves
  CHECK(memory.counters().l2_sectors == 8);
  CHECK(memory.counters().sm_sectors == 4);
  CHECK(memory.counters().l2_hit_requests == 0);
  memory.access(access, 0, kLater);
  CHECK(memory.counters().l2_requests == 4);
  CHECK(memory.counters().l2_hit_requests == 1);
  CHECK(memory.counters().dram_read_bytes == 128);
  // A store from the other side makes the copy stale.
  memory.access({.address = access.address, .bytes = 128, .kind = AccessKind::kWrite}, 7, kLater);
  const double before = memory.counters().l2_requests;
  memory.access(access, 0, 2 * kLater);
  CHECK(memory.counters().l2_requests == before + 2);
  CHECK(memory.counters().dram_read_bytes == 128);
}

TEST_CASE("requests of a GPC for a line on its way are joined") {
  MemorySystem memory(h200());
  const Access access{.address = kBase, .bytes = 128};
  const double done = memory.access(access, 0, 0.0);
  CHECK(memory.access(access, 0, 0.5 * done) == done);
  CHECK(memory.counters().sm_sectors == 4);
  memory.access(access, 1, 0.5 * done);  // another GPC's
  CHECK(memory.counters().sm_sectors == 8);
  memory.access(access, 0, done + 1.0);
  CHECK(memory.counters().sm_sectors == 12);
  CHECK(memory.counters().l1_sectors == 16);
  // One that L2 has is joined for a short time only.
  memory.access(access, 0, done + 0.5 * h200().joined_hit_cycles);
  CHECK(memory.counters().sm_sectors == 12);
  memory.access(access, 0, done + 2.0 * h200().joined_hit_cycles);
  CHECK(memory.counters().sm_sectors == 16);
}

TEST_CASE("a half of a line that is to leave first is looked up once more over the fabric") {
  for (const AccessKind kind : {AccessKind::kBulkRead, AccessKind::kStream}) {
    MemorySystem memory(h200());
    std::uint64_t line = kBase / kLineBytes;
    while ((line_hash(line) & 1) != 1) {  // home: the other side
      ++line;
    }
    memory.access({.address = line * kLineBytes, .bytes = kLineBytes, .kind = kind}, 0, 0.0);
    const bool marked = kind == AccessKind::kStream;
    CHECK(memory.counters().l2_requests == (marked ? 4.0 : 3.0));
    CHECK(memory.counters().l2_hit_requests == (marked ? 1.0 : 0.0));
    CHECK(memory.counters().sm_sectors == (marked ? 6.0 : 4.0));
    CHECK(memory.counters().dram_read_bytes == 128.0);
  }
}

TEST_CASE(
    "stores of whole sectors hit where their line is, of parts where the sector is, and miss on "
    "their way") {
  const auto counted = [](std::uint32_t bytes, bool again) {
    MemorySystem memory(h200());
    std::uint64_t line = kBase / kLineBytes;
    while ((line_hash(line) & 1) != 1) {  // home: the other side
      ++line;
    }
    const Access store{.address = line * kLineBytes, .bytes = bytes, .kind = AccessKind::kWrite};
    memory.access(store, 0, 0.0);
    if (again) {
      memory.access(store, 0, kLater);
    }
    return std::pair{memory.counters().l2_requests, memory.counters().l2_hit_requests};
  };
  CHECK(counted(32, false) == std::pair{2.0, 0.0});
  CHECK(counted(32, true) == std::pair{4.0, 1.0});
  CHECK(counted(128, false) == std::pair{3.0, 0.0});  // by halves
  CHECK(counted(128, true) == std::pair{5.0, 1.0});
  CHECK(counted(16, false) == std::pair{2.0, 0.0});
  CHECK(counted(16, true) == std::pair{4.0, 2.0});
}

TEST_CASE("a copy of 256 MiB reads it once and writes it once") {
  // Measured on the H200: 268.4 MB read, 272.8 MB written.
  MemorySystem memory(h200());
  memory.fill_foreign(2.0 * static_cast<double>(h200().l2_bytes), 0.0);
  constexpr std::uint64_t kBytes = 256ULL << 20;
  for (std::uint64_t at = 0; at < kBytes; at += 1 << 20) {
    stream(memory, kBase + at, 1 << 20, AccessKind::kRead, static_cast<double>(at));
    stream(memory, kBase + kBytes + at, 1 << 20, AccessKind::kWrite, static_cast<double>(at));
  }
  const MemoryCounters counted = memory.counters();
  CHECK(counted.dram_read_bytes == 268435456.0);
  CHECK(counted.dram_write_bytes + static_cast<double>(memory.dirty_bytes()) == 268435456.0);
  CHECK(counted.dram_write_bytes > 0.8 * 268435456.0);
}

TEST_CASE("16 MiB read eight times come from DRAM once") {
  // Measured on the H200: 16.8 MB read.
  MemorySystem memory(h200());
  memory.fill_foreign(2.0 * static_cast<double>(h200().l2_bytes), 0.0);
  for (int pass = 0; pass < 8; ++pass) {
    stream(memory, kBase, 16 << 20, AccessKind::kRead, pass * kLater);
  }
  CHECK(memory.counters().dram_read_bytes / 16777216.0 == Approx(1.0).margin(0.02));
}

TEST_CASE("copies on both sides make 60 MiB of L2 hold some 40 MiB of a stream") {
  // Measured on the H200 as read times: warm up to 40 MiB, half warm at 48, cold at 64.
  const auto reread_share = [](std::uint64_t mebibytes) {
    MemorySystem memory(h200());
    memory.fill_foreign(2.0 * static_cast<double>(h200().l2_bytes), 0.0);
    const std::uint64_t bytes = mebibytes << 20;
    for (int pass = 0; pass < 3; ++pass) {
      stream(memory, kBase, bytes, AccessKind::kRead, pass * kLater);
    }
    return (memory.counters().dram_read_bytes / static_cast<double>(bytes) - 1.0) / 2.0;
  };
  CHECK(reread_share(24) < 0.05);
  CHECK(reread_share(32) < 0.15);
  CHECK(reread_share(64) > 0.5);
}

TEST_CASE("one long read gets the measured bandwidth and turning to writes costs time") {
  const MemoryMachine machine = h200();
  Dram dram(machine);
  double last = 0.0;
  constexpr std::uint64_t kLines = 1 << 20;
  for (std::uint64_t line = 1; line <= kLines; ++line) {
    last = std::max(last, dram.read(line_hash(line), 4, 0.0));
  }
  const double seconds = (last - machine.dram_latency_cycles) / machine.clock_hz;
  const double rate = static_cast<double>(kLines * kLineBytes) / seconds;
  CHECK(rate < machine.dram_bytes_per_s);
  CHECK(rate > 0.9 * machine.dram_bytes_per_s);  // channels are not hit quite evenly

  Dram turning(machine);
  double turned = 0.0;
  for (std::uint64_t line = 1; line <= kLines; ++line) {
    if (line % 2 == 0) {
      turning.write(line_hash(line), 4, 0.0);
    } else {
      turned = std::max(turned, turning.read(line_hash(line), 4, 0.0));
    }
  }
  CHECK(turned > 1.1 * last);
}

TEST_CASE("a chip with one partition looks every line up once") {
  MemoryMachine machine = memory_machine(hardware_by_key("rtx4090"));
  CHECK(machine.l2_partitions == 1);
  machine.launch_requests = machine.launch_sectors = 0.0;
  MemorySystem memory(machine);
  stream(memory, kBase, 1 << 20, AccessKind::kRead, 0.0);
  CHECK(memory.counters().l2_requests == (1 << 20) / 128);
}
