// A row of logits as a law, by one block of 1,024 threads: its largest logit, its sum and the draw
// from weights. Sums run over tiles of 16,384 elements, added in order; inside a tile thread t adds
// its 4 x 4 elements, then the block in an order fixed by t. Any kernel that cuts the vocabulary at
// tile borders can therefore reproduce them bit for bit.
#pragma once

#include <cfloat>
#include <cstdint>

#include "kernels/common/block_reduce.cuh"
#include "kernels/topk/ranked_element.cuh"

namespace versieve::kernels {

inline constexpr int kLawThreads = 1024;
inline constexpr int kLawPiece = 4;  // neighbouring elements of one thread
inline constexpr int kLawStrip = kLawThreads * kLawPiece;
inline constexpr int kLawTile = 4 * kLawStrip;

// exp underflows to 0 below this in f64: weights the reference holds to be 0 are 0 here too.
inline constexpr float kLeastExponent = -745.13F;

struct LawShared {
  std::uint64_t rank[kLawThreads / 32];
  double sum[kLawThreads / 32];  // or as many floats

  template <class Real>
  __device__ Real* sums() {
    return reinterpret_cast<Real*>(sum);
  }
};

// Temperature as f32, kept where a quotient by it is neither 0/0 nor inf/inf.
inline float law_temperature(double temperature) {
  const double clamped = temperature < FLT_MIN   ? static_cast<double>(FLT_MIN)
                         : temperature > FLT_MAX ? static_cast<double>(FLT_MAX)
                                                 : temperature;
  return static_cast<float>(clamped);
}

// The highest rank (ranked_element.cuh) among elements that `keep(x)` admits; 0 if there is none.
template <class T, class Keep>
__device__ std::uint64_t row_max(const T* logits, int vocab, LawShared& shared, const Keep& keep) {
  std::uint64_t best = 0;
  for (int x = static_cast<int>(threadIdx.x); x < vocab; x += kLawThreads) {
    const std::uint64_t rank = rank_of(logits[x], x);
    best = rank > best && keep(x) ? rank : best;
  }
  return block_max<kLawThreads>(best, shared.rank);
}

// sum over x of weight(x), in the weights' type.
template <class Weight>
__device__ auto row_sum(int vocab, LawShared& shared, const Weight& weight) {
  using Real = decltype(weight(0));
  Real total = 0;
  for (int tile = 0; tile < vocab; tile += kLawTile) {
    Real sum = 0;
    for (int strip = tile; strip < tile + kLawTile; strip += kLawStrip) {
      const int first = strip + static_cast<int>(threadIdx.x) * kLawPiece;
      for (int x = first; x < first + kLawPiece && x < vocab; ++x) {
        sum += weight(x);
      }
    }
    total += block_sum<kLawThreads>(sum, shared.sums<Real>());
  }
  return total;
}

// The lowest x of positive weight whose running sum exceeds u times the whole sum; where rounding
// leaves none, the last positive one; -1 if every weight is 0. The same on all threads.
template <class Weight>
__device__ int row_draw(int vocab, float u, LawShared& shared, const Weight& weight) {
  using Real = decltype(weight(0));
  const auto strip_scan = [&](int strip, Real* own) {
    const int first = strip + static_cast<int>(threadIdx.x) * kLawPiece;
    Real sum = 0;
    for (int j = 0; j < kLawPiece; ++j) {
      own[j] = first + j < vocab ? weight(first + j) : Real{0};
      sum += own[j];
    }
    return block_scan<kLawThreads>(sum, shared.sums<Real>());
  };
  Real own[kLawPiece];
  Real total = 0;
  for (int strip = 0; strip < vocab; strip += kLawStrip) {
    total += strip_scan(strip, own).total;
  }
  const Real target = static_cast<Real>(u) * total;
  Real before = 0;
  int last_positive = -1;
  for (int strip = 0; strip < vocab; strip += kLawStrip) {
    const ScanResult<Real> scan = strip_scan(strip, own);
    Real running = before + scan.before;
    int found = vocab;
    int positive = -1;
    for (int j = 0; j < kLawPiece; ++j) {
      const int x = strip + static_cast<int>(threadIdx.x) * kLawPiece + j;
      running += own[j];
      positive = own[j] > Real{0} ? x : positive;
      found = own[j] > Real{0} && running > target && found == vocab ? x : found;
    }
    // Ranked so that block_max finds the lowest hit and the highest positive element.
    const std::uint64_t lowest =
        block_max<kLawThreads>(static_cast<std::uint64_t>(vocab - found), shared.rank);
    if (lowest > 0) {
      return vocab - static_cast<int>(lowest);
    }
    const std::uint64_t highest =
        block_max<kLawThreads>(static_cast<std::uint64_t>(positive + 1), shared.rank);
    last_positive = highest > 0 ? static_cast<int>(highest) - 1 : last_positive;
    before += scan.total;
  }
  return last_positive;
}

}  // namespace versieve::kernels
