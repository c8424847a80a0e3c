// Last phases of the fused form: attention over chunks of the list, one warp (a team) a chunk, and
// the merge of the chunks, 16 elements of a row at a time. Chunks are cut by the number of listed
// tokens alone, so neither the cluster's size nor who attends a chunk changes a bit.
#pragma once

#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/resa_decode/fused.cuh"
#include "kernels/resa_decode/fused_launch.cuh"

namespace versieve::kernels {

// Keys and values for the copy engine, `box_rows` rows a box: a power of two that divides the size
// of a key block.
struct ListedMaps {
  CUtensorMap k, v;
  int box_rows;
  int unused[alignof(CUtensorMap) / sizeof(int) - 1] = {};  // else padding, of whatever lay there
};
static_assert(sizeof(ListedMaps) == 2 * sizeof(CUtensorMap) + alignof(CUtensorMap),
              "a launch's arguments are written to their last byte");

// Rows of the list's tokens. Blocks of the next tile are looked up while the one before is asked
// for.
template <int kHeadDim>
class ListedTiles {
 public:
  __device__ ListedTiles(const ResaDecodeParams<Bf16>& p, const ListedMaps& maps, const ResaStep& s,
                         int g, const std::int32_t* list, int first_tile)
      : p_(p),
        maps_(maps),
        list_(list),
        g_(g),
        block_(static_cast<int>(p.selection.key_block)),
        tokens_(static_cast<int>(attended_tokens(p, s, list))),
        cached_(tokens_ - (p.k_new != nullptr && holds_newest(s, list) ? 1 : 0)) {
    look_up(first_tile);
  }
  __device__ int tokens() const { return tokens_; }
  __device__ int cached_rows(int tile) const {
    return max(0, min(kTileKeys, cached_ - tile * kTileKeys));
  }
  __device__ int copied_bytes(int tile) const {
    const int boxes = (cached_rows(tile) + maps_.box_rows - 1) / maps_.box_rows;
    return boxes * maps_.box_rows * kHeadDim * 2;
  }
  __device__ void copy(int tile, bool value, std::uint32_t slot, std::uint32_t barrier) {
    if (!value) {
      position_[0] = next_[0];
      position_[1] = next_[1];
      look_up(tile + 1);
    }
    const int rows = cached_rows(tile);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = box_row(i);
      if (row < rows) {
        for (int panel = 0; panel < kHeadDim / 64; ++panel) {
          copy_box_3d(slot + static_cast<std::uint32_t>(panel * kPanelBytes + row * 128),
                      value ? &maps_.v : &maps_.k, panel * 64, g_, position_[i], barrier);
        }
      }
    }
  }
  __device__ void look_up_rows(int) const {}
  // Past the cached rows: the newest token, then nothing.
  __device__ const Bf16* row(int tile, int key, bool value) const {
    const int token = tile * kTileKeys + key;
    return token < tokens_ ? (value ? p_.v_new : p_.k_new) + g_ * p_.head_dim : nullptr;
  }

 private:
  // The first row of this lane's i-th box in a tile.
  __device__ int box_row(int i) const {
    return (static_cast<int>(threadIdx.x) % 32 + i * 32) * maps_.box_rows;
  }
  __device__ void look_up(int tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = tile * kTileKeys + box_row(i);
      if (box_row(i) < kTileKeys && token < cached_) {
        // A box lies in one page.
        next_[i] =
            row_in_page(p_.pages.page, __ldcg(list_ + token / block_) * block_ + token % block_);
      }
    }
  }

  const ResaDecodeParams<Bf16>& p_;
  const ListedMaps& maps_;
  const std::int32_t* list_;
  int g_;
  int block_;
  int tokens_;
  int cached_;  // of them, those in the cache
  int position_[2] = {0, 0};
  int next_[2] = {0, 0};
};

struct GroupRows {
  const ResaDecodeParams<Bf16>& p;
  int g, tokens, group_heads;
  int room;  // chunks a row

  __device__ std::int64_t index(int r) const { return g * group_heads + r; }
  __device__ const Bf16* query(int r) const {
    return r < group_heads ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ int visible(int r) const { return r < group_heads ? tokens : 0; }
  __device__ bool ends(int, int, bool) const { return true; }
  __device__ std::int64_t at(int r, int, int chunk) const {
    return r < group_heads ? index(r) * room + chunk : -1;
  }
};

// The share of this warp's team. After the list is written.
template <int kHeadDim>
__device__ inline void attend_list(const ResaDecodeParams<Bf16>& p, const ListedMaps& maps,
                                   const ResaStep& s, const ResaScratch& scratch, int g,
                                   Place place, unsigned char* memory, FusedShared& shared) {
  using Ring = TileRing<kHeadDim, 1, kTeamSlots>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp >= kTeams) {
    return;
  }
  const std::int32_t* list = p.indices + g * scratch.indices;
  const int tokens = static_cast<int>(attended_tokens(p, s, list));
  const int chunk = static_cast<int>(listed_chunk_keys(tokens));
  const int chunks = (tokens + chunk - 1) / chunk;
  // Neighbouring teams lie in different blocks: few chunks spread over all of them.
  const int teams = kTeams * place.blocks;
  const int team = warp * place.blocks + place.rank;
  const KeySpan span{.unit = chunk,
                     .first = team * chunks / teams,
                     .last = (team + 1) * chunks / teams,
                     .keys_end = tokens};
  if (span.first == span.last) {
    return;
  }
  ListedTiles<kHeadDim> keys(p, maps, s, g, list, span.first * (chunk / kTileKeys));
  const GroupRows rows{.p = p,
                       .g = g,
                       .tokens = tokens,
                       .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads),
                       .room = static_cast<int>(scratch.partials.chunks)};
  const Ring ring{shared_address(memory + warp * Ring::kBytes),
                  shared_address(shared.barriers + warp * kTeamSlots)};
  ChunkLoop<kHeadDim, 1, 1, kTeamSlots, ListedTiles<kHeadDim>, GroupRows>(keys, rows, ring,
                                                                          scratch.partials)
      .run(span);
}

// out of this block's share of the KV head's rows. After all chunks are in memory.
template <int kHeadDim>
__device__ inline void merge_chunks(const ResaDecodeParams<Bf16>& p, const ResaStep& s,
                                    const ResaScratch& scratch, int g, Place place,
                                    FusedShared& shared) {
  constexpr int kPieces = kHeadDim / 16;
  constexpr int kParts = kFusedThreads / 16;
  constexpr int kChunks = kListedChunks / kParts;  // of a part
  const ChunkPartials& partials = scratch.partials;
  const std::int64_t tokens = attended_tokens(p, s, p.indices + g * scratch.indices);
  const std::int64_t chunk = listed_chunk_keys(tokens);
  const int chunks = static_cast<int>((tokens + chunk - 1) / chunk);
  const int thread = static_cast<int>(threadIdx.x);
  const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
  for (int unit = place.rank; unit < group_heads * kPieces; unit += place.blocks) {
    const std::int64_t row = g * group_heads + unit / kPieces;
    const std::int64_t first = row * partials.chunks;
    const int element = unit % kPieces * 16 + thread % 16;
    float x[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int c = thread / 16 * kChunks + i;
      x[i] = c < chunks ? __ldcg(partials.value + (first + c) * kHeadDim + element) : 0.0F;
    }
    if (thread < 32) {
      weigh_chunks(partials, first, chunks, shared.weight, shared.total);
    }
    __syncthreads();
    float value = 0.0F;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      value = fmaf(shared.weight[thread / 16 * kChunks + i], x[i], value);
    }
    shared.part_value[thread] = value;
    __syncthreads();
    if (thread < 16) {
      float sum = shared.part_value[thread];
      for (int part = 1; part < kParts; ++part) {
        sum += shared.part_value[part * 16 + thread];
      }
      store_f32(p.out + row * kHeadDim + element, shared.total > 0.0F ? sum / shared.total : 0.0F);
    }
    __syncthreads();
  }
}

}  // namespace versieve::kernels
