// A block's pass over its split of the keys: the ring's filling by one thread, the loop of the
// warpgroups that multiply. While a tile's scores become weights, the tensor cores add the values
// of the tile before.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/dense_pass/pass_plan.cuh"
#include "kernels/ops.h"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

using DensePassParams = TreeAttentionParams<Bf16>;

struct PassMaps {
  CUtensorMap k, v;            // the committed rows
  CUtensorMap k_tree, v_tree;  // the chain's
};

// Tiles of keys: the committed ones, then the chain's, each from its own first row on.
struct PassTiles {
  int committed;      // keys
  int cached, count;  // tiles

  __device__ explicit PassTiles(const DensePassParams& p)
      : committed(static_cast<int>(p.counts == nullptr ? p.context_len : p.counts->context_len)),
        cached((committed + kTilePassKeys - 1) / kTilePassKeys),
        count(cached + (static_cast<int>(p.num_nodes) + kTilePassKeys - 1) / kTilePassKeys) {}
  __device__ bool in_cache(int tile) const { return tile < cached; }
  __device__ int first_row(int tile) const {
    return (in_cache(tile) ? tile : tile - cached) * kTilePassKeys;
  }
  // Whether every row sees all keys of the tile.
  __device__ bool whole(int tile) const {
    return in_cache(tile) && (tile + 1) * kTilePassKeys <= committed;
  }
  // Keys of the tile that query `query` of the chain sees.
  __device__ int visible(int tile, int query) const {
    const int end = in_cache(tile) ? committed : query + 1;
    return max(0, min(kTilePassKeys, end - first_row(tile)));
  }
};

struct TileSpan {
  int first, last;
};
__device__ inline TileSpan span_of(const PassTiles& tiles, int split, int splits) {
  return {split * tiles.count / splits, (split + 1) * tiles.count / splits};
}

// A row of the block: a query head of one KV head.
struct PassRow {
  std::int64_t query, head;

  __device__ PassRow(const DensePassParams& p, int r) {
    const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
    const int row = static_cast<int>(blockIdx.x) * static_cast<int>(kPassRows) + r;
    query = row / group_heads;
    head = static_cast<std::int64_t>(blockIdx.y) * group_heads + row % group_heads;
  }
  __device__ bool exists(const DensePassParams& p) const { return query < p.num_queries; }
  __device__ std::int64_t index(const DensePassParams& p) const {
    return query * p.num_heads + head;
  }
};

// By one thread.
template <int kHeadDim>
__device__ void fill_ring(const PassMaps& maps, const PassTiles& tiles, const TileSpan& span,
                          const PassPlan<kHeadDim>& plan) {
  using Plan = PassPlan<kHeadDim>;
  const int g = static_cast<int>(blockIdx.y);
  const int items = 2 * (span.last - span.first);
  for (int item = 0; item < items; ++item) {
    const int tile = span.first + item / 2;
    const bool value = item % 2 == 1;
    if (item >= Plan::kSlots) {
      barrier_wait(plan.empty(item), Plan::parity(item - Plan::kSlots));
    }
    barrier_expect(plan.full(item), Plan::kSlotBytes);
    const CUtensorMap* map =
        tiles.in_cache(tile) ? (value ? &maps.v : &maps.k) : (value ? &maps.v_tree : &maps.k_tree);
#pragma unroll
    for (int panel = 0; panel < kHeadDim / 64; ++panel) {
      copy_box_3d(plan.slot(item) + static_cast<std::uint32_t>(panel * kPassPanelBytes), map,
                  panel * 64, g, tiles.first_row(tile), plan.full(item));
    }
  }
}

// The block's query rows to shared memory, zeros where there are none. By all consumers.
template <int kHeadDim>
__device__ void load_queries(const DensePassParams& p, const PassPlan<kHeadDim>& plan) {
  using Plan = PassPlan<kHeadDim>;
  constexpr int kWords = kHeadDim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Plan::kRows * kWords; i += Plan::kConsumers) {
    const int r = i / kWords;
    const int word = i % kWords;
    const PassRow row(p, r);
    uint4 x{};
    if (row.exists(p)) {
      x = reinterpret_cast<const uint4*>(p.q + row.index(p) * kHeadDim)[word];
    }
    store_16(swizzled_chunk<128>(plan.queries(r / kPassGroupRows) +
                                     static_cast<std::uint32_t>(word / 8 * kQueryPanelBytes),
                                 r % kPassGroupRows, word % 8),
             x);
  }
  fence_for_copies();
  meet<1, Plan::kConsumers>();
}

// Rows of a tile of values from `first` on, which are none: their weights are 0, but a product with
// what lies there might not be. By all consumers.
template <int kHeadDim>
__device__ void clear_values(std::uint32_t slot, int first) {
  constexpr int kWords = kHeadDim / 8;
  constexpr int kConsumers = PassPlan<kHeadDim>::kConsumers;
  for (int i = first * kWords + static_cast<int>(threadIdx.x); i < kTilePassKeys * kWords;
       i += kConsumers) {
    const int word = i % kWords;
    store_16(swizzled_chunk<128>(slot + static_cast<std::uint32_t>(word / 8 * kPassPanelBytes),
                                 i / kWords, word % 8),
             uint4{});
  }
  fence_for_copies();
  meet<1, kConsumers>();
}

template <int kHeadDim>
class PassLoop {
 public:
  using Plan = PassPlan<kHeadDim>;

  __device__ PassLoop(const DensePassParams& p, const PassTiles& tiles, const TileSpan& span,
                      const Plan& plan)
      : p_(p),
        tiles_(tiles),
        span_(span),
        plan_(plan),
        group_(static_cast<int>(threadIdx.x) / kGroupThreads),
        queries_(plan.queries(group_)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      query_[half] = static_cast<int>(PassRow(p, row_of(half)).query);
    }
  }

  __device__ void run() {
    rows_.start();
    if (span_.first == span_.last) {
      return;
    }
    if (kTakesTurns && group_ == Plan::kGroups - 1) {
      arrive_at<kTurnThreads>(Plan::kFirstTurn);
    }
    begin<false>(span_.first);
    wgmma_wait<0>();
    release(key_item(span_.first));
    weigh(span_.first);
    rows_.pack();
    for (int tile = span_.first + 1; tile < span_.last; ++tile) {
      begin<true>(tile);
      wgmma_wait<1>();
      release(key_item(tile));
      const bool grows = weigh(tile);
      wgmma_wait<0>();
      release(key_item(tile) - 1);
      if (grows) {
        rows_.rescale(factor_);
      }
      rows_.pack();
    }
    await_values(span_.last - 1);
    rows_.begin_values(plan_.slot(key_item(span_.last) - 1));
    wgmma_wait<0>();
  }
  __device__ void store(const ChunkPartials& partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PassRow row(p_, row_of(half));
      rows_.store(partials, half,
                  row.exists(p_) ? row.index(p_) * partials.chunks + blockIdx.z : -1);
    }
  }

 private:
  static constexpr int kTurnThreads = 2 * kGroupThreads;

  // This thread's row of that half.
  __device__ static int row_of(int half) {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 * kTileRows + thread % 32 / 4 + 8 * half;
  }
  __device__ int key_item(int tile) const {
    return 2 * (tile - span_.first);
  }
  __device__ void await(int item) const {
    barrier_wait(plan_.full(item), Plan::parity(item));
  }
  // This warp's products have read the item.
  __device__ void release(int item) const {
    if (threadIdx.x % 32 == 0) {
      barrier_arrive(plan_.empty(item));
    }
  }
  // The tile's scores, then the values of the tile before it if there is one: known to the
  // compiler, which runs products one by one where a branch lies between them.
  template <bool kAddsValues>
  __device__ void begin(int tile) {
    await(key_item(tile));
    if constexpr (kAddsValues) {
      await_values(tile - 1);
    }
    if constexpr (kTakesTurns) {
      meet_at<kTurnThreads>(Plan::kFirstTurn + group_);
    }
    rows_.begin_scores(queries_, plan_.slot(key_item(tile)));
    if constexpr (kAddsValues) {
      rows_.begin_values(plan_.slot(key_item(tile) - 1));
    }
    if (kTakesTurns && (tile + 1 < span_.last || group_ + 1 < Plan::kGroups)) {
      arrive_at<kTurnThreads>(Plan::kFirstTurn + (group_ + 1) % Plan::kGroups);
    }
  }
  __device__ void await_values(int tile) {
    const int item = key_item(tile) + 1;
    await(item);
    // Without counts the copy engine knows where the rows end and leaves zeros.
    if (p_.counts != nullptr && tiles_.in_cache(tile) && !tiles_.whole(tile)) {
      clear_values<kHeadDim>(plan_.slot(item), tiles_.committed - tiles_.first_row(tile));
    }
  }
  __device__ bool weigh(int tile) {
    if (!tiles_.whole(tile)) {
      const int visible[2] = {tiles_.visible(tile, query_[0]), tiles_.visible(tile, query_[1])};
      rows_.hide(visible);
    }
    return rows_.weigh(factor_);
  }

  const DensePassParams& p_;
  const PassTiles& tiles_;
  const TileSpan& span_;
  const Plan& plan_;
  int group_;
  std::uint32_t queries_;
  PassRows<kHeadDim> rows_;
  float factor_[2];
  int query_[2];
};

}  // namespace versieve::kernels
