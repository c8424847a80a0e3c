// Reductions over the threads of a block in an order fixed by the thread index, so that results
// have the same bits in every launch. Every thread gets the result.
#pragma once

#include <cstdint>

namespace versieve::kernels {

// Adds lanes pairwise at distance 16, 8, 4, 2, 1.
template <class Real>
__device__ inline Real warp_sum(Real value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, distance);
  }
  return value;
}

__device__ inline std::uint64_t warp_max(std::uint64_t value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const std::uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// Warps are added in ascending order. `shared` may be used again at once.
template <int kThreads, class Real>
__device__ inline Real block_sum(Real value, Real* shared /* [kThreads / 32] */) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = value;
  }
  __syncthreads();
  Real sum = shared[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    sum += shared[warp];
  }
  __syncthreads();
  return sum;
}

template <int kThreads>
__device__ inline std::uint64_t block_max(std::uint64_t value, std::uint64_t* shared) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = value;
  }
  __syncthreads();
  std::uint64_t largest = shared[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    largest = shared[warp] > largest ? shared[warp] : largest;
  }
  __syncthreads();
  return largest;
}

template <class Real>
struct ScanResult {
  Real before = 0;  // sum over the threads with a lower index
  Real total = 0;   // sum over all
};

// Prefix sums over the thread index.
template <int kThreads, class Real>
__device__ inline ScanResult<Real> block_scan(Real value, Real* shared /* [kThreads / 32] */) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Real inclusive = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    const Real other = __shfl_up_sync(0xFFFFFFFFU, inclusive, distance);
    inclusive = lane >= distance ? other + inclusive : inclusive;
  }
  if (lane == 31) {
    shared[threadIdx.x / 32] = inclusive;
  }
  __syncthreads();
  ScanResult<Real> result;
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    result.before = warp == static_cast<int>(threadIdx.x / 32) ? result.total : result.before;
    result.total += shared[warp];
  }
  __syncthreads();
  const Real previous = __shfl_up_sync(0xFFFFFFFFU, inclusive, 1);
  result.before += lane == 0 ? Real{0} : previous;
  return result;
}

}  // namespace versieve::kernels
