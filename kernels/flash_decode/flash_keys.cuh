// What the rows of a launch see: first the shared keys (the committed tokens, or the listed ones of
// them), then the draft tokens of the row's path. A key's place is its number in that order;
// without a list it is its position.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/flash_decode/row_tile.cuh"
#include "kernels/ops.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace versieve::kernels {

using FlashParams = TreeAttentionParams<Bf16>;

// The cache's keys and values for the copy engine: boxes of a whole tile, and where tokens are
// listed of kRunRows rows and of one row, too.
inline constexpr int kRunRows = 16;
struct CacheMaps {
  CUtensorMap k, v;
  CUtensorMap k_run, v_run;  // of lists
  CUtensorMap k_row, v_row;
};

// Queries that one launch takes: params whose q, out and query_node begin at `first_query`.
struct FlashSlice {
  std::int64_t first_query = 0;
  bool tree = false;    // else each node follows the one before it
  int path_blocks = 0;  // of the grid's z, for the paths of a tree
  int first_row = 0;    // of the maps' rows before the cache's own
};

__device__ inline std::int64_t committed(const FlashParams& p) {
  return p.counts == nullptr ? p.context_len : p.counts->context_len;
}
// `list`: of the counts, where the params name those of several lists.
__device__ inline int shared_keys(const FlashParams& p, int list = 0) {
  if (p.selected.token == nullptr) {
    return static_cast<int>(committed(p));
  }
  return p.selected.known_count == nullptr ? static_cast<int>(p.selected.count)
                                           : p.selected.known_count[list];
}
__device__ inline const std::int32_t* token_list(const FlashParams& p, int g) {
  return p.selected.token == nullptr
             ? nullptr
             : p.selected.token + (p.selected.per_kv_head ? g * p.selected.count : 0);
}
__device__ inline int node_of(const FlashParams& p, const FlashSlice& slice, int query) {
  return p.query_node == nullptr ? static_cast<int>(slice.first_query) + query
                                 : p.query_node[query];
}
// Keys that a query sees. A padding node of a recorded step may have any position.
__device__ inline int keys_of(const FlashParams& p, const FlashSlice& slice, int query,
                              int list = 0) {
  const int node = node_of(p, slice, query);
  const int path = slice.tree ? p.position[node] - static_cast<int>(committed(p)) + 1 : node + 1;
  return shared_keys(p, list) + max(1, min(path, static_cast<int>(p.num_nodes)));
}

// Shared keys by tensor copies, then a chain's nodes by hand.
template <int kHeadDim>
class FlashKeys {
 public:
  // No place from `end` on exists. `first_row`: FlashSlice's.
  __device__ FlashKeys(const FlashParams& p, const CacheMaps& maps, int first_row, int g,
                       int first_tile, int end)
      : p_(p),
        maps_(maps),
        list_(token_list(p, g)),
        first_row_(first_row),
        g_(g),
        end_(end),
        shared_(shared_keys(p)) {
    if (list_ != nullptr) {
      look_up(first_tile);
    }
  }
  __device__ int cached_rows(int tile) const {
    return max(0, min(kTileKeys, shared_ - tile * kTileKeys));
  }
  __device__ int copied_bytes(int tile) const {
    return (list_ == nullptr ? kTileKeys : cached_rows(tile)) * kHeadDim * 2;
  }
  __device__ void copy(int tile, bool value, std::uint32_t slot, std::uint32_t barrier) {
    if (list_ != nullptr) {
      copy_listed(tile, value, slot, barrier);
      return;
    }
    copy_tile(row_of(tile * kTileKeys), value, slot, barrier);
  }
  __device__ void look_up_rows(int) const {}
  __device__ const Bf16* row(int tile, int key, bool value) const {
    const int place = tile * kTileKeys + key;
    const int width = static_cast<int>(p_.num_kv_heads) * kHeadDim;
    return place < end_ ? (value ? p_.v_tree : p_.k_tree) +
                              static_cast<std::int64_t>(place - shared_) * width + g_ * kHeadDim
                        : nullptr;
  }

 protected:
  static constexpr int kPanels = kHeadDim / 64;

  // Of the cache.
  __device__ int row_of(int token) const { return row_in_page(p_.pages.page, token); }
  // Whether neighbours from `first` to `last` lie side by side in the cache.
  __device__ bool together(int first, int last) const {
    return p_.pages.page == nullptr || first / kPageRows == last / kPageRows;
  }
  // kTileKeys rows of the cache from that one on.
  __device__ void copy_tile(int row, bool value, std::uint32_t slot, std::uint32_t barrier) const {
    const int panel = static_cast<int>(threadIdx.x) % 32;
    if (panel < kPanels) {
      copy_box_3d(slot + static_cast<std::uint32_t>(panel * kPanelBytes),
                  value ? &maps_.v : &maps_.k, panel * 64, g_, first_row_ + row, barrier);
    }
  }
  // Tokens of the tile's rows lane and lane + 32, and whether their kRunRows follow each other.
  __device__ void look_up(int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int place = tile * kTileKeys + i * 32 + lane;
      next_[i] = place < shared_ ? __ldcg(list_ + place) : -1;
    }
  }
  // The first key of a tile of neighbours brings all of it, that of a run the run, others bring
  // themselves.
  __device__ void copy_listed(int tile, bool value, std::uint32_t slot, std::uint32_t barrier) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (!value) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        token_[i] = next_[i];
        const int first = __shfl_sync(0xFFFFFFFFU, token_[i], lane & -kRunRows);
        const int last = __shfl_sync(0xFFFFFFFFU, token_[i], lane | (kRunRows - 1));
        // Tokens ascend; -1 lies past the last.
        run_[i] = last - first == kRunRows - 1 && together(first, last);
      }
      const int start = __shfl_sync(0xFFFFFFFFU, token_[0], 0);
      const int last = __shfl_sync(0xFFFFFFFFU, token_[1], 31);
      start_ = last - start == kTileKeys - 1 && together(start, last) ? start : -1;
      look_up(tile + 1);
    }
    if (start_ >= 0) {
      copy_tile(row_of(start_), value, slot, barrier);
      return;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (token_[i] < 0 || (run_[i] && lane % kRunRows != 0)) {
        continue;
      }
      const CUtensorMap* map =
          run_[i] ? (value ? &maps_.v_run : &maps_.k_run) : (value ? &maps_.v_row : &maps_.k_row);
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        copy_box_3d(slot + static_cast<std::uint32_t>(panel * kPanelBytes + (i * 32 + lane) * 128),
                    map, panel * 64, g_, first_row_ + row_of(token_[i]), barrier);
      }
    }
  }

  const FlashParams& p_;
  const CacheMaps& maps_;
  const std::int32_t* list_;
  int first_row_;
  int g_;
  int end_;
  int shared_;
  int token_[2] = {-1, -1};
  int next_[2] = {-1, -1};
  bool run_[2] = {false, false};
  int start_ = -1;  // the tile's first token where all follow each other
};

// Shared keys by tensor copies, then the path of a tree's node by hand. For one warp.
template <int kHeadDim>
class PathKeys : public FlashKeys<kHeadDim> {
 public:
  // The node sees the places before `end`. `path`: kTileKeys integers of shared memory.
  __device__ PathKeys(const FlashParams& p, const CacheMaps& maps, int first_row, int g,
                      int first_tile, int end, int node, int* path)
      : FlashKeys<kHeadDim>(p, maps, first_row, g, first_tile, end), node_(node), path_(path) {}
  // The nodes at the tile's places, or -1: as many steps up the tree as places follow.
  __device__ void look_up_rows(int tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int place = tile * kTileKeys + i * 32 + lane;
      int node = place >= this->shared_ && place < this->end_ ? node_ : -1;
      for (int up = this->end_ - 1 - place; up > 0 && node >= 0; --up) {
        node = __ldg(this->p_.parent + node);
      }
      path_[i * 32 + lane] = node;
    }
    __syncwarp();
  }
  __device__ const Bf16* row(int, int key, bool value) const {
    const int node = path_[key];
    const int width = static_cast<int>(this->p_.num_kv_heads) * kHeadDim;
    return node < 0 ? nullptr
                    : (value ? this->p_.v_tree : this->p_.k_tree) +
                          static_cast<std::int64_t>(node) * width + this->g_ * kHeadDim;
  }

 private:
  int node_;
  int* path_;
};

// The heads of one query, over chunks of the length that its own number of keys asks for.
struct QueryRows {
  const FlashParams& p;
  const ChunkPartials& partials;
  int number, keys, g, group_heads;  // number: of the query

  __device__ std::int64_t index(int r) const { return number * p.num_heads + g * group_heads + r; }
  __device__ const Bf16* query(int r) const {
    return r < group_heads ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ int visible(int r) const { return r < group_heads ? keys : 0; }
  __device__ bool ends(int, int, bool) const { return true; }
  __device__ std::int64_t at(int r, int, int chunk) const {
    return r < group_heads ? index(r) * partials.chunks + chunk : -1;
  }
};

// The CTA's query rows: query n's heads of KV head g lie together. A span's unit is the chunk of
// the rows that see fewest keys; where the rows straddle a power of two, chunks of those that see
// more are two units long, and keys are read once for both.
struct FlashRows {
  const FlashParams& p;
  const FlashSlice& slice;
  const ChunkPartials& partials;
  int g, first, unit, group_heads;
  int end;  // of the places that are looked at: in a tree, of the last whole unit of shared keys

  __device__ int query_of(int r) const { return (first + r) / group_heads; }
  __device__ std::int64_t index(int r) const {
    return query_of(r) * p.num_heads + g * group_heads + (first + r) % group_heads;
  }
  __device__ const Bf16* query(int r) const {
    return query_of(r) < p.num_queries ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ int visible(int r) const {
    return query_of(r) < p.num_queries ? keys_of(p, slice, query_of(r)) : 0;
  }
  // Whether the chunks of a row that sees so many keys are two units long.
  __device__ bool wide(int keys) const { return keys > kMaxChunks * unit; }
  __device__ bool ends(int keys, int at_unit, bool last) const {
    return !wide(keys) || at_unit % 2 == 1 || last;
  }
  __device__ std::int64_t at(int r, int keys, int at_unit) const {
    const int chunk = wide(keys) ? at_unit / 2 : at_unit;
    const int length = wide(keys) ? 2 * unit : unit;
    return chunk * length < keys && (!slice.tree || (chunk + 1) * length <= end)
               ? index(r) * partials.chunks + chunk
               : -1;
  }
};

}  // namespace versieve::kernels
