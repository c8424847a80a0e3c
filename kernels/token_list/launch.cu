// Grid of both launches: (block of 256 chunks, list, call), a thread a chunk. The first counts each
// block's kept chunks, the second adds up those before its own and writes its tokens behind them.
// Traffic: traffic::token_list. Bound by two launches.
#include "kernels/launch.h"

#include <span>
#include <vector>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/call_list.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/token_list/together.h"
#include "model/launches/specattn.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

std::int64_t block_count(const TokenListParams& p) {
  return (p.chunks() + kThreads - 1) / kThreads;
}

// A call, all of whose strides are set, and where its blocks' numbers lie between the launches.
struct ListCall {
  TokenListParams p;
  std::int32_t* kept_chunks;  // [lists, blocks]
  std::int64_t blocks;        // of a list
};

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

// What a block of either launch takes; blocks beyond the call's own leave at once.
template <int kCalls>
__device__ inline bool is_beyond(const ListCall& call) {
  return kCalls > 1 && (blockIdx.y >= call.p.lists || blockIdx.x >= call.blocks);
}

template <int kCalls>
__global__ void __launch_bounds__(kThreads)
    count_chunks_kernel(const __grid_constant__ CallList<ListCall, kCalls> calls) {
  const ListCall& call = calls.at(blockIdx.z);
  release_successors();
  if (is_beyond<kCalls>(call)) {
    return;
  }
  wait_for_predecessors();
  const int kept = __syncthreads_count(OwnChunk(call.p).kept);
  if (threadIdx.x == 0) {
    call.kept_chunks[blockIdx.y * call.blocks + blockIdx.x] = kept;
  }
}

template <int kCalls>
__global__ void __launch_bounds__(kThreads)
    write_list_kernel(const __grid_constant__ CallList<ListCall, kCalls> calls) {
  __shared__ int sums[kThreads / 32];
  const ListCall& call = calls.at(blockIdx.z);
  const TokenListParams& p = call.p;
  release_successors();
  if (is_beyond<kCalls>(call)) {
    return;
  }
  wait_for_predecessors();
  int before = 0;
  for (unsigned block = threadIdx.x; block < blockIdx.x; block += kThreads) {
    before += call.kept_chunks[blockIdx.y * call.blocks + block];
  }
  before = block_sum<kThreads>(before, sums);
  const OwnChunk own(p);
  const ScanResult<int> place = block_scan<kThreads>(own.kept ? 1 : 0, sums);
  std::int64_t at = (before + place.before) * p.chunk;
  std::int32_t* list = p.token + blockIdx.y * p.token_stride;
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

template <int kCalls>
void enqueue(const CallList<ListCall, kCalls>& list, std::span<const ListCall> calls,
             cudaStream_t stream) {
  const std::int64_t blocks = most_of(calls, [](const ListCall& call) { return call.blocks; });
  const std::int64_t lists = most_of(calls, [](const ListCall& call) { return call.p.lists; });
  const DependentGrid grid{
      .grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(lists),
                   static_cast<unsigned>(calls.size())),
      .threads = kThreads,
      .stream = stream};
  launch_dependent(grid, count_chunks_kernel<kCalls>, list);
  launch_dependent(grid, write_list_kernel<kCalls>, list);
}

}  // namespace

std::size_t token_list_scratch_bytes(const TokenListParams& p) {
  return token_list_together_scratch_bytes({&p, 1});
}

std::size_t token_list_together_scratch_bytes(std::span<const TokenListParams> calls) {
  std::size_t bytes = 0;
  for (const TokenListParams& p : calls) {
    bytes += static_cast<std::size_t>(p.lists * block_count(p)) * sizeof(std::int32_t);
  }
  return bytes;
}

void launch_token_list(const TokenListParams& p, const LaunchContext& context) {
  launch_token_list_together({&p, 1}, context);
}

void launch_token_list_together(std::span<const TokenListParams> params,
                                const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= token_list_together_scratch_bytes(params),
                  "scratch is reserved before");
  std::int32_t* kept_chunks = static_cast<std::int32_t*>(context.scratch);
  std::vector<ListCall> calls;
  Traffic traffic;
  for (const TokenListParams& p : params) {
    VERSIEVE_ASSERT(p.chunk >= 1 && p.length >= 1 && p.lists >= 1, "a list of a token and more");
    VERSIEVE_ASSERT(p.length < INT32_MAX && p.stride() >= p.length, "every token has room");
    calls.push_back({.p = p, .kept_chunks = kept_chunks, .blocks = block_count(p)});
    calls.back().p.token_stride = p.stride();
    calls.back().p.mask_stride = p.between_masks();
    kept_chunks += p.lists * calls.back().blocks;
    traffic += traffic::token_list(p.lists, p.length);
  }
  const LaunchRange range("token_list", traffic, context.observer);
  launch_lists(std::span<const ListCall>(calls),
               [&](const auto& list, std::span<const ListCall> some) {
                 enqueue(list, some, context.stream);
               });
}

}  // namespace versieve::kernels
