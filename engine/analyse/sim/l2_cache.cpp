#include "engine/analyse/sim/l2_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/analyse/sim/memory_machine.h"
#include "model/words/assert.h"

namespace versieve::engine {

L2Partition::L2Partition(std::int64_t bytes, std::int64_t ways, std::int64_t victim_ways,
                         std::int64_t dirty_ways)
    : sets_(static_cast<std::uint64_t>(bytes) / kLineBytes / static_cast<std::uint64_t>(ways)),
      ways_(static_cast<std::uint64_t>(ways)),
      victim_ways_(static_cast<std::uint64_t>(victim_ways)),
      dirty_ways_(static_cast<std::uint64_t>(dirty_ways)),
      entries_(sets_ * ways_, 0) {
  VERSIEVE_ASSERT(sets_ > 0, "a partition has at least one set");
  VERSIEVE_ASSERT(dirty_ways >= 1 && dirty_ways <= ways, "a store makes a line dirty");
  VERSIEVE_ASSERT(victim_ways >= 1 && victim_ways <= ways, "a victim is one of the ways");
}

L2Partition::Outcome L2Partition::touch(std::uint64_t line, std::uint64_t hash, unsigned mask,
                                        unsigned dirty) {
  std::uint64_t* const set = set_of(hash);
  Outcome outcome;
  std::uint64_t way = 0;
  while (way < ways_ && set[way] >> 8 != line) {
    ++way;
  }
  std::uint64_t entry = line << 8;
  if (way < ways_ && (set[way] & 0xF) != 0) {
    entry = set[way];
    outcome.present = true;
    outcome.hit = static_cast<unsigned>(entry) & mask;
  } else {
    way = ways_ - 1;
    if (set[way] != 0) {  // empty ways stand last
      way -= victim_ways_ > 1 ? random() % victim_ways_ : 0;
      outcome.victim = set[way] >> 8;
      outcome.victim_dirty = static_cast<unsigned>(set[way] >> 4) & 0xFU;
    }
  }
  const bool newly_dirty = dirty != 0 && (entry >> 4 & 0xF) == 0;
  entry |= mask | dirty << 4;
  std::memmove(set + 1, set, way * sizeof(*set));
  set[0] = entry;
  if (newly_dirty) {
    limit_dirty(set, outcome);
  }
  return outcome;
}

void L2Partition::limit_dirty(std::uint64_t* set, Outcome& outcome) const {
  std::uint64_t dirty_lines = 0;
  std::uint64_t least_recent = 0;
  for (std::uint64_t way = 0; way < ways_; ++way) {
    if ((set[way] >> 4 & 0xF) != 0) {
      ++dirty_lines;
      least_recent = way;
    }
  }
  if (dirty_lines > dirty_ways_) {
    outcome.cleaned = set[least_recent] >> 8;
    outcome.cleaned_dirty = static_cast<unsigned>(set[least_recent] >> 4) & 0xFU;
    set[least_recent] &= ~0xF0ULL;
  }
}

void L2Partition::drop(std::uint64_t line, std::uint64_t hash, unsigned mask) {
  std::uint64_t* const set = set_of(hash);
  for (std::uint64_t way = 0; way < ways_; ++way) {
    if (set[way] >> 8 != line) {
      continue;
    }
    set[way] &= ~static_cast<std::uint64_t>(mask | mask << 4);
    if ((set[way] & 0xF) == 0) {
      for (; way + 1 < ways_; ++way) {
        set[way] = set[way + 1];
      }
      set[ways_ - 1] = 0;
    }
    return;
  }
}

std::int64_t L2Partition::dirty_sectors() const {
  std::int64_t count = 0;
  for (const std::uint64_t entry : entries_) {
    count += std::popcount(entry >> 4 & 0xFU);
  }
  return count;
}

}  // namespace versieve::engine
