// Grid: (split, KV head, block of query rows); each CTA attends its share of the chunks, then one
// CTA a row merges them. Traffic: traffic::tree_attention and the partial results. Bound by memory
// with few queries, by the tensor cores from about 64 rows a KV head on.
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/flash_decode/launch.h"
#include "kernels/tree_attention/traffic.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

using Params = TreeAttentionParams<Bf16>;

__device__ std::int64_t committed(const Params& p) {
  return p.counts == nullptr ? p.context_len : p.counts->context_len;
}

// Keys and values by position: committed ones, then the chain's.
class ChainKeys {
 public:
  __device__ ChainKeys(const Params& p, int g, int end)
      : p_(p),
        width_(static_cast<int>(p.num_kv_heads * p.head_dim)),
        offset_(g * static_cast<int>(p.head_dim)),
        end_(end),
        context_len_(static_cast<int>(committed(p))) {}
  __device__ void enter(int) {}
  __device__ const Bf16* any() const { return p_.k_tree; }
  __device__ const Bf16* row(int tile, int key, bool value) const {
    const int position = tile * kTileKeys + key;
    if (position >= end_) {
      return nullptr;
    }
    if (position < context_len_) {
      return (value ? p_.v : p_.k) + static_cast<std::int64_t>(position) * width_ + offset_;
    }
    return (value ? p_.v_tree : p_.k_tree) + (position - context_len_) * width_ + offset_;
  }

 private:
  const Params& p_;
  int width_;
  int offset_;
  int end_;
  int context_len_;
};

// The CTA's query rows: query n's heads of KV head g lie together. Rows whose keys are cut into
// chunks of another size see nothing.
struct ChainRows {
  const Params& p;
  std::int64_t g, first, context_len, chunk;
  int group_heads;

  __device__ std::int64_t query_of(int r) const { return (first + r) / group_heads; }
  __device__ std::int64_t index(int r) const {
    return query_of(r) * p.num_heads + g * group_heads + (first + r) % group_heads;
  }
  __device__ const Bf16* query(int r) const {
    return query_of(r) < p.num_queries ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ std::int64_t visible(int r) const {
    const std::int64_t keys = context_len + query_of(r) + 1;
    return query_of(r) < p.num_queries && chunk_keys(keys) == chunk ? keys : 0;
  }
};

template <int kHeadDim, int kWarps, int kRowTiles>
__global__ void __launch_bounds__(kWarps * 32)
    flash_decode_kernel(const __grid_constant__ Params p, const ChunkPartials partials) {
  extern __shared__ __align__(128) unsigned char shared[];
  release_successors();
  wait_for_predecessors();
  constexpr int kRows = kWarps * kRowTiles * kTileRows;
  const std::uint32_t ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::int64_t context_len = committed(p);
  ChainRows rows{.p = p,
                 .g = blockIdx.y,
                 .first = static_cast<std::int64_t>(blockIdx.z) * kRows,
                 .context_len = context_len,
                 .chunk = 0,
                 .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads)};
  const std::int64_t fewest = context_len + rows.query_of(0) + 1;
  const std::int64_t most = context_len + min(p.num_queries - 1, rows.query_of(kRows - 1)) + 1;
  // Nearly always one size; two where the rows straddle a power of two.
  for (rows.chunk = chunk_keys(fewest); rows.chunk <= chunk_keys(most); rows.chunk *= 2) {
    const std::int64_t chunks = (most + rows.chunk - 1) / rows.chunk;
    const std::int64_t first = blockIdx.x * chunks / gridDim.x;
    const std::int64_t last = (blockIdx.x + 1) * chunks / gridDim.x;
    if (first < last) {
      ChainKeys keys(p, static_cast<int>(blockIdx.y), static_cast<int>(most));
      attend_chunks<kHeadDim, kWarps, kRowTiles>(keys, rows, ring, static_cast<int>(rows.chunk),
                                                 static_cast<int>(first), static_cast<int>(last),
                                                 static_cast<int>(most), partials);
    }
  }
}

// Grid: query rows.
template <int kHeadDim>
__global__ void __launch_bounds__(kCombineParts* kHeadDim)
    flash_combine_kernel(const __grid_constant__ Params p, const ChunkPartials partials) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t row = blockIdx.x;
  const std::int64_t keys = committed(p) + row / p.num_heads + 1;
  const std::int64_t chunk = chunk_keys(keys);
  combine_chunks(partials, row, (keys + chunk - 1) / chunk, kHeadDim, p.out + row * kHeadDim);
}

template <int kHeadDim, int kWarps, int kRowTiles>
void launch(const Params& p, const ChunkPartials& partials, cudaStream_t stream) {
  constexpr std::int64_t kRows = kWarps * kRowTiles * kTileRows;
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(partials.chunks), static_cast<unsigned>(p.num_kv_heads),
                    static_cast<unsigned>((rows + kRows - 1) / kRows)),
       .threads = kWarps * 32,
       .shared_bytes = kRingBytes<kHeadDim, kWarps>,
       .stream = stream},
      flash_decode_kernel<kHeadDim, kWarps, kRowTiles>, p, partials);
  check(cudaGetLastError());
}

template <int kHeadDim>
void launch_size(const Params& p, const ChunkPartials& partials, cudaStream_t stream) {
  if (p.num_queries * (p.num_heads / p.num_kv_heads) <= kTileRows) {
    launch<kHeadDim, 1, 1>(p, partials, stream);
  } else if constexpr (kHeadDim == 64) {
    launch<kHeadDim, 4, 2>(p, partials, stream);
  } else {
    launch<kHeadDim, 8, 1>(p, partials, stream);
  }
}

// Room for a row's chunks. That of several queries does not follow the context, so that recorded
// steps keep their scratch while passes over the chain run between them.
std::int64_t chunk_room(const Params& p) {
  return p.num_queries > 1 ? kMaxChunks : most_chunks(p.context_len + 1);
}

ChunkPartials partials_of(const Params& p, void* scratch) {
  ChunkPartials partials{.chunks = chunk_room(p)};
  partials.value = static_cast<float*>(scratch);
  partials.max_sum = partials.value + p.num_queries * p.num_heads * partials.chunks * p.head_dim;
  return partials;
}

}  // namespace

template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p) {
  return std::is_same_v<T, Bf16> && p.splits_chain && p.window == 0 && p.first_position == 0 &&
         p.query_node == nullptr && p.num_queries == p.num_nodes &&
         (p.head_dim == 64 || p.head_dim == 128);
}
template bool flash_decode_takes<float>(const TreeAttentionParams<float>&);
template bool flash_decode_takes<Bf16>(const TreeAttentionParams<Bf16>&);

std::size_t flash_decode_scratch_bytes(const Params& p) {
  return static_cast<std::size_t>(p.num_queries * p.num_heads * chunk_room(p) * (p.head_dim + 2)) *
         sizeof(float);
}

void launch_flash_decode(const Params& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(flash_decode_takes(p), "another launch takes it");
  VERSIEVE_ASSERT(p.context_len + p.num_queries < INT32_MAX, "positions are 32-bit");
  VERSIEVE_ASSERT(context.scratch_bytes >= flash_decode_scratch_bytes(p),
                  "scratch is reserved before");
  const ChunkPartials partials = partials_of(p, context.scratch);
  {
    const LaunchRange range("flash_decode", tree_attention_traffic(p), context.observer);
    p.head_dim == 64 ? launch_size<64>(p, partials, context.stream)
                     : launch_size<128>(p, partials, context.stream);
  }
  Traffic merged;
  merged.read(TrafficTerm::kScores, static_cast<double>(flash_decode_scratch_bytes(p)));
  const LaunchRange range("flash_combine", merged, context.observer);
  const DependentGrid grid{.grid = dim3(static_cast<unsigned>(p.num_queries * p.num_heads)),
                           .threads = static_cast<unsigned>(kCombineParts * p.head_dim),
                           .stream = context.stream};
  p.head_dim == 64 ? launch_dependent(grid, flash_combine_kernel<64>, p, partials)
                   : launch_dependent(grid, flash_combine_kernel<128>, p, partials);
  check(cudaGetLastError());
}

}  // namespace versieve::kernels
