// Attention over the tokens of the chosen blocks, in chunks of the list, and the merge of the
// chunks: the form for f32 and for head sizes that the fused one does not take. Traffic:
// traffic::resa_attend and the partial results. Bound by memory.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/warp_attention.cuh"
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

// The CTA's share of a KV head's chunks.
struct ChunkShare {
  std::int64_t chunk, first, last;

  __device__ explicit ChunkShare(std::int64_t tokens) : chunk(chunk_keys(tokens)) {
    const std::int64_t chunks = (tokens + chunk - 1) / chunk;
    first = blockIdx.x * chunks / gridDim.x;
    last = (blockIdx.x + 1) * chunks / gridDim.x;
  }
};

// Grid: (split, KV head, call).
template <class T, int kLanesPerKey>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    resa_attend_vanilla_kernel(const __grid_constant__ ResaCalls<T> calls) {
  extern __shared__ float merge[];
  release_successors();
  wait_for_predecessors();
  const ResaDecodeParams<T>& p = calls.at(blockIdx.z).p;
  const ResaScratch& scratch = calls.at(blockIdx.z).scratch;
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
    const std::int64_t offset = (committed ? p.pages.row(position) * width : 0) + g * p.head_dim;
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

// Grid: (query heads, call).
template <class T>
__global__ void __launch_bounds__(kCombineParts * 128)
    resa_combine_kernel(const __grid_constant__ ResaCalls<T> calls) {
  release_successors();
  wait_for_predecessors();
  const ResaDecodeParams<T>& p = calls.at(blockIdx.y).p;
  const ResaScratch& scratch = calls.at(blockIdx.y).scratch;
  const ResaStep s = resa_step(p);
  const std::int64_t row = blockIdx.x;
  const std::int64_t g = row / (p.num_heads / p.num_kv_heads);
  const std::int64_t tokens = attended_tokens(p, s, p.indices + g * scratch.indices);
  const std::int64_t chunk = chunk_keys(tokens);
  combine_chunks(scratch.partials, row, (tokens + chunk - 1) / chunk, static_cast<int>(p.head_dim),
                 p.out + row * p.head_dim);
}

}  // namespace versieve::kernels
