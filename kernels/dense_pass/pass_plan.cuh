// How a block of the dense pass is made: two warpgroups of 64 query rows each that read the same
// tiles of keys and values, and a third of which one thread has the copy engine fill a ring with
// them, an item the keys or the values of a tile.
#pragma once

#include "kernels/dense_pass/pass_rows.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace versieve::kernels {

// Whether the warpgroups take turns at the tensor cores, so that one's products run beside the
// other's exponentials.
inline constexpr bool kTakesTurns = true;

template <int kHeadDim>
struct PassPlan {
  static constexpr int kGroups = static_cast<int>(kPassRows) / kPassGroupRows;
  static constexpr int kRows = kGroups * kPassGroupRows;
  static constexpr int kConsumers = kGroups * kGroupThreads;
  static constexpr int kThreads = kConsumers + kGroupThreads;
  // A block alone on its SM has 168 a thread.
  static constexpr int kIdleRegisters = 24;
  static constexpr int kRegisters = 240;
  static constexpr int kSlotBytes = kTilePassKeys * kHeadDim * 2;
  static constexpr int kQueryBytes = kRows * kHeadDim * 2;
  static constexpr int kSlots = (227 * 1024 - 256 - kQueryBytes) / kSlotBytes;
  static constexpr int kSharedBytes = kQueryBytes + kSlots * kSlotBytes + 2 * kSlots * 8;
  // The block's barriers: 0 is all threads', 1 the consumers', then one a warpgroup's turn.
  static constexpr int kFirstTurn = 2;

  std::uint32_t shared;  // kSharedBytes on 1,024 bytes

  __device__ std::uint32_t queries(int group) const {
    return shared + static_cast<std::uint32_t>(group * kPassGroupRows * kHeadDim * 2);
  }
  __device__ std::uint32_t slot(int item) const {
    return shared + static_cast<std::uint32_t>(kQueryBytes + item % kSlots * kSlotBytes);
  }
  __device__ std::uint32_t full(int item) const {
    return shared +
           static_cast<std::uint32_t>(kQueryBytes + kSlots * kSlotBytes + item % kSlots * 8);
  }
  __device__ std::uint32_t empty(int item) const {
    return full(item) + static_cast<std::uint32_t>(kSlots * 8);
  }
  __device__ static int parity(int item) { return item / kSlots & 1; }
  // By one thread; then publish_barriers() and a barrier of the block.
  __device__ void init() const {
    for (int slot = 0; slot < kSlots; ++slot) {
      barrier_init(full(slot), 1);
      barrier_init(empty(slot), kConsumers / 32);
    }
  }
};

}  // namespace versieve::kernels
