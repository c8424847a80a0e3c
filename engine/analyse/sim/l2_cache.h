// One partition of a sectored, set-associative, write-back L2: lines of 128 bytes with four sectors
// that are valid and dirty each for itself. Replacement: one of the least recent ways, at random
// (deterministic). A set holds at most so many dirty lines: a store that would make one more has
// the least recent of them written back. Time is somebody else's.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::engine {

// Scrambles a line's number: partition, set and channel are taken from different bits of it.
inline std::uint64_t line_hash(std::uint64_t line) {
  std::uint64_t x = line * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93ULL;
  return x ^ (x >> 29);
}

class L2Partition {
 public:
  // What a lookup left: sectors found, and what had to go for the rest.
  struct Outcome {
    unsigned hit = 0;            // of the mask: sectors that were valid
    bool present = false;        // any sector of the line was
    std::uint64_t victim = 0;    // line that was replaced, if its dirty sectors are not 0
    unsigned victim_dirty = 0;   // sectors to write back
    std::uint64_t cleaned = 0;   // line that stays but may not stay dirty
    unsigned cleaned_dirty = 0;  // sectors to write back
  };

  L2Partition(std::int64_t bytes, std::int64_t ways, std::int64_t victim_ways,
              std::int64_t dirty_ways);

  // The line's sectors `mask` are read; those not valid become so (the caller fetches them).
  Outcome read(std::uint64_t line, std::uint64_t hash, unsigned mask) {
    return touch(line, hash, mask, 0U);
  }
  // The sectors are written whole: valid and dirty from now on, nothing is fetched.
  Outcome write(std::uint64_t line, std::uint64_t hash, unsigned mask) {
    return touch(line, hash, mask, mask);
  }
  // A copy elsewhere became stale. Its sectors are clean by construction.
  void drop(std::uint64_t line, std::uint64_t hash, unsigned mask);

  // The set will be asked for soon.
  void prefetch(std::uint64_t hash) {
    const std::uint64_t* const set = set_of(hash);
    __builtin_prefetch(set, 1);
    __builtin_prefetch(set + 8, 1);
  }

  std::int64_t dirty_sectors() const;

 private:
  // An entry: line << 8 | dirty << 4 | valid; 0: empty. A set's entries stand in order of use.
  Outcome touch(std::uint64_t line, std::uint64_t hash, unsigned mask, unsigned dirty);
  // Writes the least recent dirty line back if the set has too many.
  void limit_dirty(std::uint64_t* set, Outcome& outcome) const;
  std::uint64_t* set_of(std::uint64_t hash) {
    const std::uint64_t set =
        static_cast<std::uint64_t>((static_cast<unsigned __int128>(hash) * sets_) >> 64);
    return entries_.data() + set * ways_;
  }
  std::uint64_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }

  std::uint64_t sets_;
  std::uint64_t ways_;
  std::uint64_t victim_ways_;
  std::uint64_t dirty_ways_;
  std::uint64_t state_ = 0x2545F4914F6CDD1DULL;
  std::vector<std::uint64_t> entries_;
};

}  // namespace versieve::engine
