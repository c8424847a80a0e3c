#include "engine/analyse/sim/l2_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/analyse/sim/memory_machine.h"
#include "model/words/assert.h"

namespace versieve::engine {
L2Partition::L2Partition(std::int64_t bytes, const L2Policy& policy)
    : sets_(static_cast<std::uint64_t>(bytes) / kLineBytes /
            static_cast<std::uint64_t>(policy.ways)),
      ways_(static_cast<std::uint64_t>(policy.ways)),
      victim_ways_(static_cast<std::uint64_t>(policy.victim_ways)),
      dirty_ways_(static_cast<std::uint64_t>(policy.dirty_ways)),
      first_ways_(static_cast<std::uint64_t>(policy.first_ways)),
      forgotten_fills_(static_cast<std::uint64_t>(policy.forgotten_fills)),
      entries_(sets_ * ways_, 0),
      fills_(sets_, 0) {
  VERSIEVE_ASSERT(sets_ > 0, "a partition has at least one set");
  VERSIEVE_ASSERT(dirty_ways_ >= 1 && dirty_ways_ <= ways_, "a store makes a line dirty");
  VERSIEVE_ASSERT(victim_ways_ >= 1 && victim_ways_ <= ways_, "a victim is one of the ways");
  VERSIEVE_ASSERT(first_ways_ >= 1, "a line that leaves first has a place");
  VERSIEVE_ASSERT(forgotten_fills_ <= kUsedMask, "an entry counts so many fills");
}

std::uint64_t L2Partition::victim_of(const std::uint64_t* set, std::uint64_t fills, LineStay stay) {
  std::uint64_t first = ways_, first_count = 0;  // the least recent that leaves first
  std::uint64_t normal = ways_, other = ways_;   // likewise of those that do not, or not so soon
  for (std::uint64_t way = ways_; way-- > 0;) {
    const LineStay own = stay_of(set[way]);
    if (own == LineStay::kLeavesFirst) {
      first = first == ways_ ? way : first;
      ++first_count;
      continue;
    }
    other = other == ways_ ? way : other;
    if (own == LineStay::kNormal && normal == ways_) {
      normal = way;
    }
  }
  if (stay != LineStay::kLeavesFirst && first_count > 0) {
    return first;
  }
  if (first_count > 0 && other < ways_ &&
      ((fills - (set[other] >> kUsedShift)) & kUsedMask) > forgotten_fills_) {
    return other;
  }
  if (first_count >= std::min(ways_, first_ways_)) {
    return first;
  }
  const std::uint64_t drawn = ways_ - 1 - (victim_ways_ > 1 ? random() % victim_ways_ : 0);
  return stay_of(set[drawn]) == LineStay::kNormal || normal == ways_ ? drawn : normal;
}

L2Partition::Outcome L2Partition::touch(std::uint64_t line, std::uint64_t hash, unsigned mask,
                                        unsigned dirty, LineStay stay) {
  const std::uint64_t index = index_of(hash);
  std::uint64_t* const set = entries_.data() + index * ways_;
  Outcome outcome;
  std::uint64_t way = 0;
  while (way < ways_ && set[way] >> kLineShift != line) {
    ++way;
  }
  std::uint64_t sectors = 0;  // dirty and valid
  if (way < ways_ && (set[way] & 0xF) != 0) {
    sectors = set[way] & 0xFF;
    outcome.present = true;
    outcome.hit = static_cast<unsigned>(sectors) & mask;
  } else {
    way = ways_ - 1;
    ++fills_[index];
    if (set[way] != 0) {  // empty ways stand last
      way = victim_of(set, fills_[index], stay);
      outcome.victim = set[way] >> kLineShift;
      outcome.victim_dirty = static_cast<unsigned>(set[way] >> 4) & 0xFU;
    }
  }
  const bool newly_dirty = dirty != 0 && (sectors >> 4) == 0;
  std::memmove(set + 1, set, way * sizeof(*set));
  set[0] = line << kLineShift | (fills_[index] & kUsedMask) << kUsedShift |
           static_cast<std::uint64_t>(stay) << kStayShift | sectors | mask | dirty << 4;
  if (newly_dirty) {
    limit_dirty(set, outcome);
  }
  return outcome;
}

unsigned L2Partition::find(std::uint64_t line, std::uint64_t hash, unsigned mask) const {
  const std::uint64_t* const set = entries_.data() + index_of(hash) * ways_;
  for (std::uint64_t way = 0; way < ways_; ++way) {
    if (set[way] >> kLineShift == line) {
      return static_cast<unsigned>(set[way]) & mask & 0xFU;
    }
  }
  return 0;
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
    outcome.cleaned = set[least_recent] >> kLineShift;
    outcome.cleaned_dirty = static_cast<unsigned>(set[least_recent] >> 4) & 0xFU;
    set[least_recent] &= ~0xF0ULL;
  }
}

void L2Partition::drop(std::uint64_t line, std::uint64_t hash, unsigned mask) {
  std::uint64_t* const set = set_of(hash);
  for (std::uint64_t way = 0; way < ways_; ++way) {
    if (set[way] >> kLineShift != line) {
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
