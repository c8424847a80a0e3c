// What two neighbouring tokens merge into, and how early: a hash table with open addressing, since
// every merge asks it twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace versieve::engine {

class PairTable {
 public:
  struct Value {
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };

  PairTable() : PairTable(0) {}
  // `most`: pairs that are set at most.
  explicit PairTable(std::size_t most) {
    std::size_t slots = 16;
    while (slots < 2 * most) {
      slots *= 2;
    }
    slots_.resize(slots);
  }

  void set(std::int32_t left, std::int32_t right, Value value) {
    Slot& slot = slots_[place_of(key_of(left, right))];
    slot = {key_of(left, right), value};
  }
  // Null: they do not merge.
  const Value* find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[place_of(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // ids are never negative
  struct Slot {
    std::uint64_t key = kFree;
    Value value;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  // Where the key is, or would be.
  std::size_t place_of(std::uint64_t key) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = static_cast<std::size_t>((key * kGolden) >> 32) & mask;
    while (slots_[place].key != kFree && slots_[place].key != key) {
      place = (place + 1) & mask;
    }
    return place;
  }

  std::vector<Slot> slots_;
};

}  // namespace versieve::engine
