#include "kernels/launch.h"

#include <cstdint>
#include <string>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/compress/pool.cuh"
#include "kernels/compress/traffic.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr std::size_t kMaxSharedBytes = 227 * 1024;

// The tree's rows of KV head g as they lie in memory.
template <class T, int kUnit>
struct StoredTree {
  const CompressParams<T>& p;
  std::int64_t g;

  __device__ std::int64_t at(int node, int e) const {
    return (node * p.num_kv_heads + g) * p.head_dim + e;
  }
  __device__ Unit<T, kUnit> key(int node, int e) const {
    return load_unit<T, kUnit>(p.k_tree + at(node, e));
  }
  __device__ Unit<T, kUnit> value(int node, int e) const {
    return load_unit<T, kUnit>(p.v_tree + at(node, e));
  }
};

// Grid: (row, KV head). Traffic: traffic::compress. Starts under the launch before it. Bound by
// latency.
template <class T, int kUnit>
__global__ void __launch_bounds__(kPoolThreads)
    compress_kernel(const __grid_constant__ CompressParams<T> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  release_successors();
  const PoolMemory<T> memory(p, shared);
  const std::int64_t row = blockIdx.x;
  const std::int64_t g = blockIdx.y;
  stage_weights(p, g, memory);
  wait_for_predecessors();
  if (p.counts != nullptr && row >= p.counts->tree_compressed) {
    return;
  }
  stage_tokens<T, kUnit>(p, row, g, StoredTree<T, kUnit>{p, g}, true, true, memory);
  __syncthreads();
  pool(p, row, g, memory);
}

template <class T>
bool whole_units(const CompressParams<T>& p) {
  std::uintptr_t addresses = 0;
  for (const void* rows :
       {static_cast<const void*>(p.k_cache), static_cast<const void*>(p.v_cache),
        static_cast<const void*>(p.k_tree), static_cast<const void*>(p.v_tree)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(rows);
  }
  return addresses % 16 == 0 && p.head_dim % 8 == 0;
}

}  // namespace

template <class T>
void launch_compress(const CompressParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.cmp_block >= 1 && p.num_kv_heads >= 1, "phi pools at least one token");
  VERSIEVE_ASSERT(!p.rotate || p.head_dim % 2 == 0, "rotary pairs need an even head size");
  if (p.rows == 0) {
    return;
  }
  const std::size_t bytes = PoolMemory<T>::bytes(p);
  if (bytes > kMaxSharedBytes) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels pool tokens in 227 KiB of shared memory; blocks of " +
                    std::to_string(p.cmp_block) + " tokens of head size " +
                    std::to_string(p.head_dim) + " need " + std::to_string(bytes) + " bytes");
  }
  const dim3 grid(static_cast<unsigned>(p.rows), static_cast<unsigned>(p.num_kv_heads));
  const LaunchRange range("compress", compress_traffic(p), context.observer);
  launch_dependent(
      {.grid = grid, .threads = kPoolThreads, .shared_bytes = bytes, .stream = context.stream},
      whole_units(p) ? compress_kernel<T, 8> : compress_kernel<T, 1>, p);
}

template void launch_compress<float>(const CompressParams<float>&, const LaunchContext&);
template void launch_compress<Bf16>(const CompressParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
