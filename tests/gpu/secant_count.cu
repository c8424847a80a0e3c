#include "tests/gpu/secant_count.h"

#include "kernels/common/cuda_check.h"
#include "kernels/topk/short_rows.cuh"
#include "model/words/assert.h"

namespace versieve::testing {
namespace {

using kernels::kAllLanes;
using kernels::kShortThreads;
using kernels::kShortWarps;
constexpr int kMostCounts = 12;

// Sum or minimum over the block of one number a thread. Synchronises the block.
__device__ inline int block_count(int own, std::int32_t* of_warps) {
  own = __reduce_add_sync(kAllLanes, own);
  if (threadIdx.x % 32 == 0) {
    of_warps[threadIdx.x / 32] = own;
  }
  __syncthreads();
  return __reduce_add_sync(kAllLanes, of_warps[threadIdx.x % 32]);
}

template <int kItems>
__global__ void __launch_bounds__(kShortThreads, 1)
    secant_count_kernel(const __grid_constant__ SecantCount s) {
  __shared__ std::int32_t of_warps[2][kShortWarps];
  __shared__ std::uint32_t least_of_warps[kShortWarps];
  const std::int64_t at = blockIdx.x;
  const kernels::ShortRow<float> row{s.scores + at * s.length, static_cast<int>(s.length), 0};
  kernels::ShortKeys<float, kItems> own;
  own.load(row);
  std::uint32_t least = kAllLanes;
  for (int i = static_cast<int>(threadIdx.x); i < s.k; i += kShortThreads) {
    least = min(least, kernels::select_key(row.row[s.hint[at * s.k + i]]));
  }
  least = __reduce_min_sync(kAllLanes, least);
  if (threadIdx.x % 32 == 0) {
    least_of_warps[threadIdx.x / 32] = least;
  }
  __syncthreads();
  std::uint32_t threshold = __reduce_min_sync(kAllLanes, least_of_warps[threadIdx.x % 32]);
  const int k = static_cast<int>(s.k);
  const int most = k + max(k / 2, 32);
  std::uint32_t low = 1, high = kAllLanes;  // keys
  int at_low = row.length, past_high = 0;   // scores that reach low, that pass high
  int counts = 0;
  int count = 0;
  while (counts < kMostCounts) {
    int own_count = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      own_count += own.key[i] >= threshold ? 1 : 0;
    }
    count = block_count(own_count, of_warps[counts % 2]);
    ++counts;
    if (count >= k && count <= most) {
      break;
    }
    if (count > most) {
      low = threshold;
      at_low = count;
    } else {
      high = threshold - 1;
      past_high = count;
    }
    if (low >= high) {
      break;
    }
    const float share = static_cast<float>(at_low - (k + most) / 2) /
                        static_cast<float>(max(at_low - past_high, 1));
    const std::uint32_t step = static_cast<std::uint32_t>(static_cast<float>(high - low) * share);
    threshold = min(max(low + step, low + 1), high);
  }
  if (threadIdx.x == 0) {
    s.counts[at] = counts;
    s.reached[at] = count;
  }
}

}  // namespace

void enqueue_secant_count(const SecantCount& s, cudaStream_t stream) {
  VERSIEVE_ASSERT(s.length % 4 == 0 && s.length <= 32 * kShortThreads, "a block holds the row");
  const unsigned blocks = static_cast<unsigned>(s.rows);
  if (s.length <= 8 * kShortThreads) {
    secant_count_kernel<8><<<blocks, kShortThreads, 0, stream>>>(s);
  } else {
    secant_count_kernel<32><<<blocks, kShortThreads, 0, stream>>>(s);
  }
  kernels::check(cudaGetLastError());
}

}  // namespace versieve::testing
