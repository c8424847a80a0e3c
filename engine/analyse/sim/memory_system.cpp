#include "engine/analyse/sim/memory_system.h"

#include <algorithm>
#include <bit>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr unsigned kHalf = 0x3, kHalfSectors = 2;  // of a line
constexpr std::uint32_t kRunsAhead = 6;            // host memory's latency, in lookups

unsigned sectors_of(unsigned mask) {
  return static_cast<unsigned>(std::popcount(mask));
}

bool has_both_halves(unsigned mask) {
  return (mask & 0x3U) != 0 && (mask & 0xCU) != 0;
}

LineStay stay_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::kStream:
      return LineStay::kLeavesFirst;
    case AccessKind::kKept:
      return LineStay::kLeavesLast;
    case AccessKind::kRead:
    case AccessKind::kBulkRead:
    case AccessKind::kWrite:
      break;
  }
  return LineStay::kNormal;
}

}  // namespace

MemorySystem::MemorySystem(const MemoryMachine& machine) : machine_(machine), dram_(machine) {
  const std::int64_t count = machine.l2_partitions;
  VERSIEVE_ASSERT(count == 1 || count == 2, "a line's home is one bit of its hash");
  for (std::int64_t i = 0; i < count; ++i) {
    partitions_.emplace_back(machine.l2_bytes / count, machine.l2_policy);
  }
  in_flight_.assign(static_cast<std::size_t>(std::max(machine.gpc_count, count)),
                    std::vector<InFlight>(static_cast<std::size_t>(machine.joined_lines)));
}

void MemorySystem::prefetch(std::uint64_t line, std::size_t partition) {
  const std::uint64_t hash = line_hash(line);
  const std::size_t home = home_of(hash);
  partitions_[home].prefetch(hash);
  if (home != partition) {
    partitions_[partition].prefetch(hash);
  }
}

double MemorySystem::access(const Access& access, std::int64_t gpc, double now) {
  const std::size_t side = side_of(static_cast<std::size_t>(gpc));
  double done = now;
  for (std::uint32_t run = 0; run < access.count; ++run) {
    const std::uint64_t begin = access.address + run * access.stride;
    const std::uint64_t end = begin + access.bytes;
    if (run + kRunsAhead < access.count) {
      prefetch((begin + kRunsAhead * access.stride) / kLineBytes, side);
    }
    for (std::uint64_t line = begin / kLineBytes; line * kLineBytes < end; ++line) {
      const std::uint64_t from = std::max(begin, line * kLineBytes) - line * kLineBytes;
      const std::uint64_t to = std::min(end, (line + 1) * kLineBytes) - line * kLineBytes;
      const unsigned first = static_cast<unsigned>(from / kSectorBytes);
      const unsigned last = static_cast<unsigned>((to + kSectorBytes - 1) / kSectorBytes);
      const unsigned mask = (1U << last) - (1U << first);
      if (access.kind == AccessKind::kRead || access.kind == AccessKind::kWrite) {
        l1_sectors_ += last - first;
      }
      if (access.kind == AccessKind::kWrite) {
        write_line(line, mask, from % kSectorBytes == 0 && to % kSectorBytes == 0, side, now);
      } else {
        done = std::max(
            done, read_line(line, mask, stay_of(access.kind), static_cast<std::size_t>(gpc), now));
      }
    }
  }
  return done;
}

void MemorySystem::count_lookup(unsigned mask, unsigned hit) {
  ++requests_;
  hit_requests_ += hit == mask ? 1 : 0;
  hit_sectors_ += sectors_of(hit);
}

void MemorySystem::write_back(const L2Partition::Outcome& outcome, double now) {
  if (outcome.victim_dirty != 0) {
    dram_.write(line_hash(outcome.victim), sectors_of(outcome.victim_dirty), now);
  }
  if (outcome.cleaned_dirty != 0) {
    dram_.write(line_hash(outcome.cleaned), sectors_of(outcome.cleaned_dirty), now);
  }
}

double MemorySystem::read_home(std::uint64_t line, std::uint64_t hash, unsigned mask, LineStay stay,
                               std::size_t home, double now) {
  const L2Partition::Outcome outcome = partitions_[home].read(line, hash, mask, stay);
  read_sectors_ += sectors_of(mask);
  count_lookup(mask, outcome.hit);
  write_back(outcome, now);
  if (outcome.hit == mask) {
    return now + machine_.l2_hit_cycles;
  }
  const unsigned missing = sectors_of(mask & ~outcome.hit);
  return dram_.read(hash, missing, now) + machine_.l2_hit_cycles;
}

// What the home must fetch itself it is asked for by halves of a line.
double MemorySystem::read_over_fabric(std::uint64_t line, std::uint64_t hash, unsigned mask,
                                      LineStay stay, std::size_t home, double now) {
  const std::uint64_t hits = hit_requests_;
  const double done = read_home(line, hash, mask, stay, home, now);
  if (hit_requests_ == hits && has_both_halves(mask)) {
    ++requests_;
  }
  return done + machine_.fabric_cycles;
}

double MemorySystem::read_line(std::uint64_t line, unsigned mask, LineStay stay, std::size_t gpc,
                               double now) {
  const std::uint64_t hash = line_hash(line);
  std::vector<InFlight>& table = in_flight_[gpc];
  InFlight& flight = table[(hash >> 32) % table.size()];
  if (flight.line == line && (mask & ~flight.mask) == 0 && now < flight.until) {
    return flight.until;
  }
  sm_sectors_ += sectors_of(mask);
  const std::size_t partition = side_of(gpc);
  const std::size_t home = home_of(hash);
  double done;
  if (home == partition) {
    done = read_home(line, hash, mask, stay, home, now);
  } else {
    const bool copies = stay != LineStay::kLeavesFirst;
    const L2Partition::Outcome near =
        copies ? partitions_[partition].read(line, hash, mask, stay)
               : L2Partition::Outcome{.hit = partitions_[partition].find(line, hash, mask)};
    read_sectors_ += sectors_of(mask);
    count_lookup(mask, near.hit);
    write_back(near, now);
    const std::uint64_t hits = hit_requests_;
    done = near.hit == mask ? now + machine_.l2_hit_cycles
                            : read_over_fabric(line, hash, mask & ~near.hit, stay, home, now);
    if (!copies && near.hit != mask && hit_requests_ == hits && has_both_halves(mask)) {
      read_sectors_ += kHalfSectors;
      sm_sectors_ += kHalfSectors;
      count_lookup(kHalf, kHalf);
    }
  }
  const bool from_dram = done - now > machine_.l2_hit_cycles + machine_.fabric_cycles;
  flight = {line, mask, from_dram ? done : now + machine_.joined_hit_cycles};
  return done;
}

void MemorySystem::write_line(std::uint64_t line, unsigned mask, bool whole, std::size_t partition,
                              double now) {
  const std::uint64_t hash = line_hash(line);
  const unsigned sectors = sectors_of(mask);
  const std::size_t home = home_of(hash);
  sm_sectors_ += sectors;
  if (partitions_.size() > 1) {
    partitions_[1 - home].drop(line, hash, mask);
  }
  for (std::vector<InFlight>& table : in_flight_) {  // a reader from now on sees what was stored
    InFlight& flight = table[(hash >> 32) % table.size()];
    flight.until = flight.line == line ? 0.0 : flight.until;
  }
  const L2Partition::Outcome outcome = partitions_[home].write(line, hash, mask);
  write_back(outcome, now);
  write_sectors_ += sectors;
  // A store of whole sectors needs nothing but its line. One from the other side is looked up on
  // its way to the home too, where only parts of sectors are said to hit; a line that is not there
  // comes by halves.
  const unsigned there = outcome.present ? mask : 0;
  count_lookup(mask, whole ? there : outcome.hit);
  if (home != partition) {
    write_sectors_ += sectors;
    count_lookup(mask, whole ? 0 : outcome.hit);
    requests_ += whole && !outcome.present && has_both_halves(mask) ? 1 : 0;
  }
}

void MemorySystem::count_launch() {
  overhead_requests_ += machine_.launch_requests;
  overhead_sectors_ += machine_.launch_sectors;
  overhead_hits_ += machine_.overhead_hit_share * machine_.launch_requests;
}

void MemorySystem::count_polls(double polls) {
  overhead_requests_ += polls;
  overhead_sectors_ += polls;
  overhead_hits_ += polls;
}

void MemorySystem::fill_foreign(double bytes, double dirty_share) {
  const std::uint64_t lines = static_cast<std::uint64_t>(bytes / static_cast<double>(kLineBytes));
  // Every k-th line is dirty, without rounding away a small share.
  double dirty = 0.0;
  for (std::uint64_t i = 0; i < lines; ++i) {
    const std::uint64_t line = foreign_line_++;
    const std::uint64_t hash = line_hash(line);
    L2Partition& home = partitions_[home_of(hash)];
    dirty += dirty_share;
    if (dirty >= 1.0) {
      dirty -= 1.0;
      home.write(line, hash, 0xF);
    } else {
      home.read(line, hash, 0xF);
    }
  }
}

MemoryCounters MemorySystem::counters() const {
  MemoryCounters c;
  c.l1_sectors = static_cast<double>(l1_sectors_);
  c.sm_sectors = static_cast<double>(sm_sectors_);
  c.l2_read_sectors = static_cast<double>(read_sectors_) + overhead_sectors_;
  c.l2_write_sectors = static_cast<double>(write_sectors_);
  c.l2_sectors = c.l2_read_sectors + c.l2_write_sectors;
  c.l2_hit_sectors = static_cast<double>(hit_sectors_) + overhead_hits_;
  c.l2_requests = static_cast<double>(requests_) + overhead_requests_;
  c.l2_hit_requests = static_cast<double>(hit_requests_) + overhead_hits_;
  c.dram_read_bytes = static_cast<double>(dram_.read_sectors() * kSectorBytes);
  c.dram_write_bytes = static_cast<double>(dram_.written_sectors() * kSectorBytes);
  return c;
}

std::int64_t MemorySystem::dirty_bytes() const {
  std::int64_t sectors = 0;
  for (const L2Partition& partition : partitions_) {
    sectors += partition.dirty_sectors();
  }
  return sectors * static_cast<std::int64_t>(kSectorBytes);
}

}  // namespace versieve::engine
