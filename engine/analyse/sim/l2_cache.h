// One partition of a sectored, set-associative, write-back L2: lines of 128 bytes with four sectors
// that are valid and dirty each for itself. A set holds at most so many dirty lines: a store that
// would make one more has the least recent of them written back. Time is somebody else's.
//
// Replacement (deterministic): the least recent of the lines that were asked for as ones that leave
// first; where there is none, one of the least recent ways, at random, lines that leave last spared
// where there is another. Lines that leave first have some ways of a set, and those of lines that
// nobody asked for while the set was filled often (L2Policy).
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

// What an access says of its line (createpolicy's evict_normal, evict_first, evict_last).
enum class LineStay : std::uint8_t { kNormal, kLeavesFirst, kLeavesLast };

// How a set's lines replace each other, of the chips that were counted (GH100).
struct L2Policy {
  std::int64_t ways = 16;
  std::int64_t victim_ways = 6;  // a fill replaces one of the least recent ways, at random
  std::int64_t dirty_ways = 10;  // a set writes its oldest dirty line back before it has more
  // Ways for lines that leave first. 8.4 MB of them read again and again (machine:gemm/k2048m2048,
  // warm, 2026-11-25 and 22) keep 52 % of themselves in an H100's 50 MiB and 63 % in an H200's 60;
  // three ways in order give 53 and 64, the same three of both machines.
  std::int64_t first_ways = 3;
  // Fills of a set after which a line that nobody asked for is replaced like one that leaves first:
  // of a draft's window 90 and 98 % are there again after 84 and 70 fills of weights, 32 and 72 %
  // after 209 and 175 (tree_attention of h200-fused-step, H100 and H200).
  std::int64_t forgotten_fills = 192;
};

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

  L2Partition(std::int64_t bytes, const L2Policy& policy);

  // The line's sectors `mask` are read; those not valid become so (the caller fetches them).
  Outcome read(std::uint64_t line, std::uint64_t hash, unsigned mask,
               LineStay stay = LineStay::kNormal) {
    return touch(line, hash, mask, 0U, stay);
  }
  // The sectors are written whole: valid and dirty from now on, nothing is fetched.
  Outcome write(std::uint64_t line, std::uint64_t hash, unsigned mask) {
    return touch(line, hash, mask, mask, LineStay::kNormal);
  }
  // The sectors of the mask that are there; nothing changes.
  unsigned find(std::uint64_t line, std::uint64_t hash, unsigned mask) const;
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
  // An entry: line, when it was used, stay, dirty and valid sectors; 0: empty. A set's entries
  // stand in order of use.
  static constexpr unsigned kStayShift = 8, kUsedShift = 10, kLineShift = 22;
  static constexpr std::uint64_t kUsedMask = 0xFFF;  // fills of the set, so many bits of them
  static LineStay stay_of(std::uint64_t entry) {
    return static_cast<LineStay>(entry >> kStayShift & 3);
  }
  Outcome touch(std::uint64_t line, std::uint64_t hash, unsigned mask, unsigned dirty,
                LineStay stay);
  // The way of a full set that a line of that kind replaces.
  std::uint64_t victim_of(const std::uint64_t* set, std::uint64_t fills, LineStay stay);
  // Writes the least recent dirty line back if the set has too many.
  void limit_dirty(std::uint64_t* set, Outcome& outcome) const;
  std::uint64_t index_of(std::uint64_t hash) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(hash) * sets_) >> 64);
  }
  std::uint64_t* set_of(std::uint64_t hash) { return entries_.data() + index_of(hash) * ways_; }
  std::uint64_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }

  std::uint64_t sets_;
  std::uint64_t ways_;
  std::uint64_t victim_ways_;
  std::uint64_t dirty_ways_;
  std::uint64_t first_ways_;
  std::uint64_t forgotten_fills_;
  std::uint64_t state_ = 0x2545F4914F6CDD1DULL;
  std::vector<std::uint64_t> entries_;
  std::vector<std::uint16_t> fills_;  // of each set
};

}  // namespace versieve::engine
