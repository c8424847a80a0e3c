// Attention over the tokens of the chosen blocks, in chunks of the list, and the merge of the
// chunks. The tensor-core form takes one warp a CTA; the plain form every head size and f32.
// Traffic: traffic::resa_attend and the partial results. Bound by memory.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/warp_attention.cuh"
#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

// Where token i of the list lies, or -1 past its end.
template <class T>
class ListedTokens {
 public:
  __device__ ListedTokens(const ResaDecodeParams<T>& p, const ResaStep& s, const std::int32_t* list)
      : list_(list),
        block_(static_cast<int>(p.selection.key_block)),
        tokens_(static_cast<int>(attended_tokens(p, s, list))) {}
  __device__ int count() const { return tokens_; }
  __device__ int position(int i) const {
    return i < tokens_ ? list_[i / block_] * block_ + i % block_ : -1;
  }

 private:
  const std::int32_t* list_;
  int block_;
  int tokens_;
};

// Rows of the list's tokens for one warp. Positions of the next tile are asked for while the
// tile before it is fetched.
class ListedKeys {
 public:
  __device__ ListedKeys(const ResaDecodeParams<Bf16>& p, const ResaStep& s, int g,
                        const ListedTokens<Bf16>& tokens, std::int32_t* shared, int first_tile)
      : p_(p),
        width_(static_cast<int>(p.num_kv_heads * p.head_dim)),
        offset_(g * static_cast<int>(p.head_dim)),
        context_len_(static_cast<int>(s.context_len)),
        tokens_(tokens),
        shared_(shared) {
    look_up(first_tile);
  }
  __device__ void enter(int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
    shared_[lane] = next_[0];
    shared_[lane + 32] = next_[1];
    __syncwarp();
    look_up(tile + 1);
  }
  __device__ const Bf16* any() const { return p_.k; }
  __device__ const Bf16* row(int, int key, bool value) const {
    const int position = shared_[key];
    if (position < 0) {
      return nullptr;
    }
    if (position == context_len_) {
      return (value ? p_.v_new : p_.k_new) + offset_;
    }
    return (value ? p_.v : p_.k) + static_cast<std::int64_t>(position) * width_ + offset_;
  }

 private:
  __device__ void look_up(int tile) {
    const int first = tile * kTileKeys + static_cast<int>(threadIdx.x) % 32;
    next_[0] = tokens_.position(first);
    next_[1] = tokens_.position(first + 32);
  }

  const ResaDecodeParams<Bf16>& p_;
  int width_;
  int offset_;
  int context_len_;
  const ListedTokens<Bf16>& tokens_;
  std::int32_t* shared_;  // [64]
  std::int32_t next_[2];
};

struct GroupRows {
  const ResaDecodeParams<Bf16>& p;
  std::int64_t g, tokens;
  int group_heads;

  __device__ std::int64_t index(int r) const { return g * group_heads + r; }
  __device__ const Bf16* query(int r) const {
    return r < group_heads ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ std::int64_t visible(int r) const { return r < group_heads ? tokens : 0; }
};

// The CTA's share of a KV head's chunks.
struct ChunkShare {
  std::int64_t chunk, first, last;

  __device__ explicit ChunkShare(std::int64_t tokens) : chunk(chunk_keys(tokens)) {
    const std::int64_t chunks = (tokens + chunk - 1) / chunk;
    first = blockIdx.x * chunks / gridDim.x;
    last = (blockIdx.x + 1) * chunks / gridDim.x;
  }
};

// Grid: (split, KV head).
template <int kHeadDim>
__global__ void __launch_bounds__(32)
    resa_attend_kernel(const __grid_constant__ ResaDecodeParams<Bf16> p,
                       const ResaScratch scratch) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ std::int32_t positions[kTileKeys];
  release_successors();
  wait_for_predecessors();
  const ResaStep s = resa_step(p);
  const ListedTokens<Bf16> tokens(p, s, p.indices + blockIdx.y * scratch.indices);
  const ChunkShare share(tokens.count());
  if (share.first >= share.last) {
    return;
  }
  ListedKeys keys(p, s, static_cast<int>(blockIdx.y), tokens, positions,
                  static_cast<int>(share.first * share.chunk / kTileKeys));
  const GroupRows rows{.p = p,
                       .g = blockIdx.y,
                       .tokens = tokens.count(),
                       .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads)};
  attend_chunks<kHeadDim, 1, 1>(
      keys, rows, static_cast<std::uint32_t>(__cvta_generic_to_shared(ring)), share.chunk,
      share.first, share.last, tokens.count(), scratch.partials);
}

// Grid: (split, KV head). The form for f32 and for head sizes without an instantiation above.
template <class T, int kLanesPerKey>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    resa_attend_plain_kernel(const __grid_constant__ ResaDecodeParams<T> p,
                             const ResaScratch scratch) {
  extern __shared__ float merge[];
  release_successors();
  wait_for_predecessors();
  const ResaStep s = resa_step(p);
  const std::int64_t g = blockIdx.y;
  const ListedTokens<T> tokens(p, s, p.indices + g * scratch.indices);
  const ChunkShare share(tokens.count());
  const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const auto row_at = [&](std::int64_t i) -> KeyRow<T> {
    const std::int64_t position = tokens.position(static_cast<int>(i));
    if (position < 0) {
      return {};
    }
    const bool committed = position < s.context_len;
    const std::int64_t offset = (committed ? position * width : 0) + g * p.head_dim;
    return {(committed ? p.k : p.k_new) + offset, (committed ? p.v : p.v_new) + offset};
  };
  for (std::int64_t chunk = share.first; chunk < share.last; ++chunk) {
    WarpAttention<T, kLanesPerKey> attention(p.q + g * group_heads * p.head_dim, group_heads,
                                             static_cast<int>(p.head_dim));
    const std::int64_t end = min(std::int64_t{tokens.count()}, (chunk + 1) * share.chunk);
    for (std::int64_t base = chunk * share.chunk; base < end; base += kDeviceChunk) {
      attention.absorb(base, row_at, NoScores{});
    }
    const ChunkPartials& partials = scratch.partials;
    attention.merge(merge, group_heads,
                    [&](int head, int element, float value, float most, float sum) {
                      const std::int64_t at = (g * group_heads + head) * partials.chunks + chunk;
                      partials.value[at * p.head_dim + element] = value;
                      if (element == 0) {
                        partials.max_sum[2 * at] = most;
                        partials.max_sum[2 * at + 1] = sum;
                      }
                    });
    __syncthreads();
  }
}

// Grid: query heads.
template <class T>
__global__ void __launch_bounds__(kCombineParts * 128)
    resa_combine_kernel(const __grid_constant__ ResaDecodeParams<T> p, const ResaScratch scratch) {
  release_successors();
  wait_for_predecessors();
  const ResaStep s = resa_step(p);
  const std::int64_t row = blockIdx.x;
  const std::int64_t g = row / (p.num_heads / p.num_kv_heads);
  const std::int64_t tokens = attended_tokens(p, s, p.indices + g * scratch.indices);
  const std::int64_t chunk = chunk_keys(tokens);
  combine_chunks(scratch.partials, row, (tokens + chunk - 1) / chunk, static_cast<int>(p.head_dim),
                 p.out + row * p.head_dim);
}

}  // namespace versieve::kernels
