// A row of logits as a law, cut into chunks that one warp takes each, so that any number of blocks
// finds the same bits. A chunk's weights are measured from its own largest logit; up to 16 chunks
// make a tile, up to 16 tiles the row, and the statistics of either are combined in one fixed
// order. The cut follows V alone. Samplers of a chain and of a tree are built from it.
#pragma once

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cstdint>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/global_memory.cuh"

namespace versieve::kernels {

inline constexpr int kRoundElements = 512;  // a warp's, 16 a lane
inline constexpr int kLaneElements = kRoundElements / 32;
inline constexpr int kMaxTiles = 16;  // of a row, and chunks of a tile
inline constexpr int kMaxLawChunks = kMaxTiles * kMaxTiles;

// exp underflows to 0 below this in f64: weights the reference holds to be 0 are 0 here too.
inline constexpr double kLeastExponent = -745.13;

struct LawCut {
  int vocab = 0;
  int rounds = 1;       // of a warp over its chunk
  int chunk = 0;        // elements
  int chunks = 0;       // of the row, at most 256
  int tile_chunks = 0;  // of a tile, at most 16
  int tiles = 0;        // of the row, at most 16
};

// REQUIRES: 1 <= vocab < 2^30.
inline LawCut cut_law(std::int64_t vocab) {
  const auto parts = [](int whole, int part) { return (whole + part - 1) / part; };
  LawCut cut;
  cut.vocab = static_cast<int>(vocab);
  cut.rounds = parts(cut.vocab, kMaxLawChunks * kRoundElements);
  cut.chunk = cut.rounds * kRoundElements;
  cut.chunks = parts(cut.vocab, cut.chunk);
  cut.tile_chunks = parts(cut.chunks, kMaxTiles);
  cut.tiles = parts(cut.chunks, cut.tile_chunks);
  return cut;
}

// Temperature, as the laws use it. One-hot (temperature 0): all weight on the lowest argmax.
struct LawScale {
  bool one_hot = false;
  float per_logit = 1.0F;  // log2(e) / T, finite
  double inverse = 1.0;    // 1 / T
};

inline LawScale law_scale(double temperature) {
  const double t = std::clamp(temperature, double{FLT_MIN}, double{FLT_MAX});
  return {temperature == 0.0, static_cast<float>(1.4426950408889634 / t), 1.0 / t};
}

// Of a chunk, a tile or a row: its largest logit, and the sum of exp((z - largest) / T) or,
// one-hot, the bits of the lowest argmax's index.
struct alignas(8) LawStat {
  float largest;
  float sum;

  __device__ int argmax() const { return __float_as_int(sum); }
};

// Of no elements.
__device__ inline LawStat empty_stat() {
  return {-INFINITY, 0.0F};
}

// The row's index of a lane's element j, in a round that begins at `first`: words of 16 bytes of T
// side by side.
template <class T>
__device__ inline int element_index(int first, int j) {
  constexpr int kWord = kWordElements<T>;
  return first + j / kWord * 32 * kWord + static_cast<int>(threadIdx.x % 32) * kWord + j % kWord;
}

// A lane's elements of a round, as f32; -infinity past the row's end. `words`: rows begin at 16
// bytes and V is whole words.
template <class T>
__device__ inline void load_round(const T* row, int first, int vocab, bool words,
                                  float (&z)[kLaneElements]) {
  constexpr int kWord = kWordElements<T>;
#pragma unroll
  for (int j = 0; j < kLaneElements; j += kWord) {
    const int x = element_index<T>(first, j);
    float word[kWord];
    if (words) {
      if (x < vocab) {
        unpack<T>(load_ahead(row + x), word);
      } else {
#pragma unroll
        for (int i = 0; i < kWord; ++i) {
          word[i] = -INFINITY;
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWord; ++i) {
        word[i] = x + i < vocab ? load_f32(row + x + i) : -INFINITY;
      }
    }
#pragma unroll
    for (int i = 0; i < kWord; ++i) {
      z[j + i] = word[i];
    }
  }
}

// A lane's elements without those below `least`.
__device__ inline void keep_from(float least, float (&z)[kLaneElements]) {
  if (least > -INFINITY) {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      z[j] = z[j] >= least ? z[j] : -INFINITY;
    }
  }
}
__device__ inline float keep_from(float least, float z) {
  return z >= least ? z : -INFINITY;
}

// Brings a lane's part of a round into the second-level cache.
template <class T>
__device__ inline void call_for_round(const T* row, int first, int vocab) {
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));  // elements of a cache line
  const int x = first + static_cast<int>(threadIdx.x % 32) * kLine;
  if (x < first + kRoundElements && x < vocab) {
    prefetch_l2(row + x);
  }
}

// The largest of a warp's values, on all lanes.
__device__ inline float warp_largest(float value) {
  const int bits = __float_as_int(value);
  const int key = bits ^ (bits >> 31 & INT_MAX);  // ordered as integers
  const int best = __reduce_max_sync(0xFFFFFFFFU, key);
  return __int_as_float(best ^ (best >> 31 & INT_MAX));
}

__device__ inline float lane_largest(const float (&z)[kLaneElements]) {
  float largest = z[0];
#pragma unroll
  for (int j = 1; j < kLaneElements; ++j) {
    largest = fmaxf(largest, z[j]);
  }
  return largest;
}

// Weights in place of logits, measured from `largest`; returns the lane's sum.
__device__ inline float weigh(float (&z)[kLaneElements], float largest, float per_logit) {
  const float reference = largest > -INFINITY ? largest : 0.0F;
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    z[j] = exp2_flushed(__fmul_rn(z[j] - reference, per_logit));
    sum += z[j];
  }
  return sum;
}

// The lane's lowest index of an element equal to `largest`, or INT_MAX.
template <class T>
__device__ inline int lowest_index(const float (&z)[kLaneElements], int first, float largest) {
  int lowest = INT_MAX;
#pragma unroll
  for (int j = kLaneElements - 1; j >= 0; --j) {
    lowest = z[j] == largest ? element_index<T>(first, j) : lowest;
  }
  return lowest;
}

// A chunk of one round: weights in place of logits, and its statistics.
template <class T>
__device__ inline LawStat weigh_round(float (&z)[kLaneElements], int first, const LawScale& scale) {
  const float largest = warp_largest(lane_largest(z));
  if (scale.one_hot) {
    const int lowest = __reduce_min_sync(0xFFFFFFFFU, lowest_index<T>(z, first, largest));
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      z[j] = element_index<T>(first, j) == lowest ? 1.0F : 0.0F;
    }
    return {largest, __int_as_float(lowest)};
  }
  return {largest, warp_sum(weigh(z, largest, scale.per_logit))};
}

// The same of a chunk whose rounds, from the row's `first` on, are held side by side; bits are
// those of chunk_stat.
template <class T, int kRounds>
__device__ inline LawStat weigh_chunk(float (&z)[kRounds][kLaneElements], int first,
                                      const LawScale& scale) {
  if constexpr (kRounds == 1) {
    return weigh_round<T>(z[0], first, scale);
  } else {
    float largest = lane_largest(z[0]);
#pragma unroll
    for (int r = 1; r < kRounds; ++r) {
      largest = fmaxf(largest, lane_largest(z[r]));
    }
    largest = warp_largest(largest);
    int lowest = INT_MAX;
    float sum = 0.0F;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (scale.one_hot) {
        lowest = min(lowest, lowest_index<T>(z[r], first + r * kRoundElements, largest));
      } else {
        sum += weigh(z[r], largest, scale.per_logit);
      }
    }
    if (!scale.one_hot) {
      return {largest, warp_sum(sum)};
    }
    lowest = __reduce_min_sync(0xFFFFFFFFU, lowest);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
#pragma unroll
      for (int j = 0; j < kLaneElements; ++j) {
        z[r][j] = element_index<T>(first + r * kRoundElements, j) == lowest ? 1.0F : 0.0F;
      }
    }
    return {largest, __int_as_float(lowest)};
  }
}

// A chunk of any number of rounds: load(round, z) gives a lane's logits.
template <class T, class Load>
__device__ LawStat chunk_stat(const Load& load, int chunk, const LawCut& cut,
                              const LawScale& scale) {
  float z[kLaneElements];
  const int begin = chunk * cut.chunk;
  if (cut.rounds == 1) {
    load(begin, z);
    return weigh_round<T>(z, begin, scale);
  }
  float largest = -INFINITY;
  for (int first = begin; first < begin + cut.chunk; first += kRoundElements) {
    load(first, z);
    largest = fmaxf(largest, lane_largest(z));
  }
  largest = warp_largest(largest);
  float sum = 0.0F;
  int lowest = INT_MAX;
  for (int first = begin; first < begin + cut.chunk; first += kRoundElements) {
    load(first, z);
    lowest = min(lowest, lowest_index<T>(z, first, largest));
    sum += weigh(z, largest, scale.per_logit);
  }
  lowest = __reduce_min_sync(0xFFFFFFFFU, lowest);
  return {largest, scale.one_hot ? __int_as_float(lowest) : warp_sum(sum)};
}

// Statistics of 16 neighbouring lanes as one, on each of them.
__device__ inline LawStat combine16(const LawStat& stat, const LawScale& scale) {
  float largest = stat.largest;
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, distance));
  }
  if (scale.one_hot) {
    int lowest = stat.largest == largest ? stat.argmax() : INT_MAX;
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
      lowest = min(lowest, __shfl_xor_sync(0xFFFFFFFFU, lowest, distance));
    }
    return {largest, __int_as_float(lowest)};
  }
  const float reference = largest > -INFINITY ? largest : 0.0F;
  float sum =
      __fmul_rn(stat.sum, exp2_flushed(__fmul_rn(stat.largest - reference, scale.per_logit)));
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
  }
  return {largest, sum};
}

// What turns a chunk's weights into probabilities of the row.
__device__ inline float chunk_factor(const LawStat& chunk, const LawStat& row,
                                     const LawScale& scale) {
  if (scale.one_hot) {
    return chunk.argmax() == row.argmax() ? 1.0F : 0.0F;
  }
  return __fdiv_rn(exp2_flushed(__fmul_rn(chunk.largest - row.largest, scale.per_logit)), row.sum);
}

// A chunk's share of the row, not one-hot.
__device__ inline float chunk_mass(const LawStat& chunk, const LawStat& row,
                                   const LawScale& scale) {
  return __fmul_rn(chunk.sum, chunk_factor(chunk, row, scale));
}

// Where a chunk lies in the running sum over the row, and what the draw aims at.
template <class Real>
struct DrawRange {
  Real before = 0, after = 0, total = 0;

  // Exactly one chunk of a row with weight is hit, for every target below or at the total.
  __device__ bool hit(Real target) const {
    return (before <= target && target < after) ||
           (target >= total && before < total && after == total);
  }
};

// The draw inside a hit chunk: the lowest x of positive weight whose running sum exceeds the
// target, else the chunk's last positive one. load(first, w) gives a lane's weights of a round. The
// same on all lanes of the warp.
template <class T, class Real, class Load>
__device__ int chunk_draw(const Load& load, int chunk, const LawCut& cut, Real before,
                          Real target) {
  constexpr int kWord = kWordElements<T>;
  constexpr int kStrips = kLaneElements / kWord;
  const int lane = static_cast<int>(threadIdx.x % 32);
  int last = -1;
  for (int round = 0; round < cut.rounds; ++round) {
    const int first = chunk * cut.chunk + round * kRoundElements;
    Real w[kLaneElements];
    load(first, w);
    Real inclusive[kStrips] = {};  // over lanes, of each strip of words side by side
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      inclusive[j / kWord] += w[j];
    }
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const Real other = __shfl_up_sync(0xFFFFFFFFU, inclusive[strip], distance);
        inclusive[strip] = lane >= distance ? other + inclusive[strip] : inclusive[strip];
      }
    }
    int found = INT_MAX;
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const Real previous = __shfl_up_sync(0xFFFFFFFFU, inclusive[strip], 1);
      Real running = before + (lane == 0 ? Real{0} : previous);
#pragma unroll
      for (int j = strip * kWord; j < (strip + 1) * kWord; ++j) {
        const int x = element_index<T>(first, j);
        running += w[j];
        const bool positive = w[j] > Real{0};
        last = positive ? x : last;
        found = positive && running > target && found == INT_MAX ? x : found;
      }
      before += __shfl_sync(0xFFFFFFFFU, inclusive[strip], 31);
    }
    found = __reduce_min_sync(0xFFFFFFFFU, found);
    if (found != INT_MAX) {
      return found;
    }
  }
  return __reduce_max_sync(0xFFFFFFFFU, last);
}

}  // namespace versieve::kernels
