// Grid of both launches: (block of 256 chunks, list), a thread a chunk. The first counts each
// block's kept chunks, the second adds up those before its own and writes its tokens behind them.
// Traffic: traffic::token_list. Bound by two launches.
#include "kernels/launch.h"

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "model/launches/specattn.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

std::int64_t block_count(const TokenListParams& p) {
  return (p.chunks() + kThreads - 1) / kThreads;
}

// This thread's chunk of list blockIdx.y.
struct OwnChunk {
  std::int64_t length;      // L
  std::int64_t first, end;  // tokens; none if first >= end
  bool kept = false;

  __device__ explicit OwnChunk(const TokenListParams& p)
      : length(p.counts == nullptr ? p.length : p.counts->context_len),
        first((std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * p.chunk),
        end(min(length, first + p.chunk)) {
    const std::int32_t* mask = p.mask + blockIdx.y * p.mask_stride;
    for (std::int64_t token = first; token < end; ++token) {
      kept = kept || mask[token] != 0;
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    count_chunks_kernel(const __grid_constant__ TokenListParams p, std::int32_t* kept_chunks) {
  release_successors();
  wait_for_predecessors();
  const int kept = __syncthreads_count(OwnChunk(p).kept);
  if (threadIdx.x == 0) {
    kept_chunks[blockIdx.y * gridDim.x + blockIdx.x] = kept;
  }
}

__global__ void __launch_bounds__(kThreads)
    write_list_kernel(const __grid_constant__ TokenListParams p, std::int64_t stride,
                      const std::int32_t* kept_chunks) {
  __shared__ int sums[kThreads / 32];
  release_successors();
  wait_for_predecessors();
  int before = 0;
  for (unsigned block = threadIdx.x; block < blockIdx.x; block += kThreads) {
    before += kept_chunks[blockIdx.y * gridDim.x + block];
  }
  before = block_sum<kThreads>(before, sums);
  const OwnChunk own(p);
  const ScanResult<int> place = block_scan<kThreads>(own.kept ? 1 : 0, sums);
  std::int64_t at = (before + place.before) * p.chunk;
  std::int32_t* list = p.token + blockIdx.y * stride;
  if (own.kept) {
    for (std::int64_t token = own.first; token < own.end; ++token) {
      list[at++] = static_cast<std::int32_t>(token);
    }
  }
  // The thread of the last chunk, the only one that may be short, knows where the list ends.
  if (own.first < own.end && own.end == own.length) {
    p.count[blockIdx.y] = static_cast<std::int32_t>(at);
    if (p.total != nullptr) {
      p.total[blockIdx.y] += at;
    }
  }
}

}  // namespace

std::size_t token_list_scratch_bytes(const TokenListParams& p) {
  return static_cast<std::size_t>(p.lists * block_count(p)) * sizeof(std::int32_t);
}

void launch_token_list(const TokenListParams& params, const LaunchContext& context) {
  TokenListParams p = params;
  p.mask_stride = params.between_masks();
  VERSIEVE_ASSERT(p.chunk >= 1 && p.length >= 1 && p.lists >= 1, "a list of a token and more");
  VERSIEVE_ASSERT(p.length < INT32_MAX && p.stride() >= p.length, "every token has room");
  VERSIEVE_ASSERT(context.scratch_bytes >= token_list_scratch_bytes(p),
                  "scratch is reserved before");
  std::int32_t* kept_chunks = static_cast<std::int32_t*>(context.scratch);
  const LaunchRange range("token_list", traffic::token_list(p.lists, p.length), context.observer);
  const DependentGrid grid{
      .grid = dim3(static_cast<unsigned>(block_count(p)), static_cast<unsigned>(p.lists)),
      .threads = kThreads,
      .stream = context.stream};
  launch_dependent(grid, count_chunks_kernel, p, kept_chunks);
  launch_dependent(grid, write_list_kernel, p, p.stride(),
                   static_cast<const std::int32_t*>(kept_chunks));
}

}  // namespace versieve::kernels
