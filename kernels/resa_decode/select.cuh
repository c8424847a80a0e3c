// The best `kept` of a KV head's free blocks by radix selection over their order keys, the lower
// block first among equals, then the newest blocks; ascending. One CTA a KV head; a row of keys
// that fits lies in shared memory. Traffic: traffic::resa_select. Bound by latency.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

inline constexpr int kResaSelectThreads = 1024;
inline constexpr int kSelectBins = 2048;

// Keys above (key & mask) == prefix are taken, and `ties` of those equal to it.
struct RankThreshold {
  std::uint32_t mask = 0;
  std::uint32_t prefix = 0;
  int ties = 0;
};

struct ResaSelectShared {
  int bins[kSelectBins];
  int sums[kResaSelectThreads / 32];
  int equal[kResaSelectThreads / 32];
  int above;  // found digit: keys in higher bins, its bin, its count
  int bin;
  int count;
};

// The digit of the `need`-th largest among keys that match so far. REQUIRES: that many match.
__device__ inline void find_digit(ResaSelectShared& shared, const std::uint32_t* rank,
                                  std::int64_t count, int shift, int digit_bins,
                                  const RankThreshold& t) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int bin = thread; bin < kSelectBins; bin += kResaSelectThreads) {
    shared.bins[bin] = 0;
  }
  __syncthreads();
  for (std::int64_t i = thread; i < count; i += kResaSelectThreads) {
    const std::uint32_t key = rank[i];
    if ((key & t.mask) == t.prefix) {
      atomicAdd(&shared.bins[key >> shift & static_cast<std::uint32_t>(digit_bins - 1)], 1);
    }
  }
  __syncthreads();
  // Thread t owns two bins, the highest first.
  const int high = shared.bins[kSelectBins - 1 - 2 * thread];
  const int low = shared.bins[kSelectBins - 2 - 2 * thread];
  const ScanResult<int> scan = block_scan<kResaSelectThreads>(high + low, shared.sums);
  if (scan.before < t.ties && scan.before + high + low >= t.ties) {
    const bool in_high = scan.before + high >= t.ties;
    shared.bin = kSelectBins - 1 - 2 * thread - (in_high ? 0 : 1);
    shared.above = scan.before + (in_high ? 0 : high);
    shared.count = in_high ? high : low;
  }
  __syncthreads();
}

__device__ inline RankThreshold find_threshold(ResaSelectShared& shared, const std::uint32_t* rank,
                                               std::int64_t count, int kept) {
  RankThreshold t{.ties = kept};
  const int shifts[3] = {21, 10, 0};
  const int bins[3] = {2048, 2048, 1024};
  for (int pass = 0; pass < 3; ++pass) {
    find_digit(shared, rank, count, shifts[pass], bins[pass], t);
    t.prefix |= static_cast<std::uint32_t>(shared.bin) << shifts[pass];
    t.mask |= static_cast<std::uint32_t>(bins[pass] - 1) << shifts[pass];
    t.ties -= shared.above;
    const bool all = shared.count == t.ties;
    __syncthreads();
    if (all) {
      break;  // whatever follows in the key, the whole bin is taken
    }
  }
  return t;
}

// Writes the taken blocks ascending. A warp owns a piece of the row.
__device__ inline void write_taken(ResaSelectShared& shared, const std::uint32_t* rank,
                                   std::int64_t count, const RankThreshold& t, std::int32_t* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t piece = (count + kResaSelectThreads - 1) / kResaSelectThreads * 32;
  const std::int64_t first = min(count, warp * piece);
  const std::int64_t last = min(count, first + piece);
  int above = 0;
  int equal = 0;
  for (std::int64_t i = first + lane; i < last; i += 32) {
    const std::uint32_t key = rank[i] & t.mask;
    above += key > t.prefix ? 1 : 0;
    equal += key == t.prefix ? 1 : 0;
  }
  above = warp_sum(above);
  equal = warp_sum(equal);
  if (lane == 0) {
    shared.sums[warp] = above;
    shared.equal[warp] = equal;
  }
  __syncthreads();
  int above_before = 0;
  int equal_before = 0;
  for (int w = 0; w < warp; ++w) {
    above_before += shared.sums[w];
    equal_before += shared.equal[w];
  }
  const unsigned below = (1U << lane) - 1U;
  for (std::int64_t base = first; base < last; base += 32) {
    const std::int64_t i = base + lane;
    const std::uint32_t key = i < last ? rank[i] & t.mask : 0U;
    const unsigned above_lanes = __ballot_sync(0xFFFFFFFFU, i < last && key > t.prefix);
    const unsigned equal_lanes = __ballot_sync(0xFFFFFFFFU, i < last && key == t.prefix);
    const int above_rank = above_before + __popc(above_lanes & below);
    const int equal_rank = equal_before + __popc(equal_lanes & below);
    const bool is_equal = (equal_lanes >> lane & 1U) != 0;
    if ((above_lanes >> lane & 1U) != 0 || (is_equal && equal_rank < t.ties)) {
      out[above_rank + min(equal_rank, t.ties)] = static_cast<std::int32_t>(i);
    }
    above_before += __popc(above_lanes);
    equal_before += __popc(equal_lanes);
  }
}

// Grid: (KV heads, call). kShared: a row's keys are copied to shared memory first.
template <class T, bool kShared>
__global__ void __launch_bounds__(kResaSelectThreads)
    resa_select_kernel(const __grid_constant__ ResaCalls<T> calls) {
  extern __shared__ std::uint32_t copy[];
  __shared__ ResaSelectShared shared;
  release_successors();
  wait_for_predecessors();
  const ResaDecodeParams<T>& p = calls.at(blockIdx.y).p;
  const ResaScratch& scratch = calls.at(blockIdx.y).scratch;
  const ResaStep s = resa_step(p);
  const std::uint32_t* rank = scratch.rank + blockIdx.x * scratch.blocks;
  std::int32_t* out = p.indices + blockIdx.x * scratch.indices;
  const int kept = static_cast<int>(s.active - (s.blocks - s.free));
  for (std::int64_t i = threadIdx.x; i < s.blocks - s.free; i += kResaSelectThreads) {
    out[kept + i] = static_cast<std::int32_t>(s.free + i);
  }
  if (kept <= 0) {
    return;
  }
  if constexpr (kShared) {
    for (std::int64_t i = threadIdx.x; i < s.free; i += kResaSelectThreads) {
      copy[i] = rank[i];
    }
    rank = copy;
    __syncthreads();
  }
  const RankThreshold t = find_threshold(shared, rank, s.free, kept);
  write_taken(shared, rank, s.free, t, out);
}

}  // namespace versieve::kernels
