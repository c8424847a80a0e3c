// gvr's guess and its verification: a threshold from hinted and sampled scores, and the list of the
// block's scores that reach it, found by one comparison a score.
#pragma once

#include "kernels/topk/select_row.cuh"

namespace versieve::kernels {

// At most one hint a thread: entries evenly over the row of hints, neighbours in different warps.
// -1 where there is none.
template <class T>
__device__ inline std::int32_t own_hint(const TopkParams<T>& p, std::int64_t row) {
  const int sample = p.k < kSelectThreads ? static_cast<int>(p.k) : kSelectThreads;
  const int order =
      static_cast<int>(threadIdx.x % 32) * kSelectWarps + static_cast<int>(threadIdx.x / 32);
  if (p.hint == nullptr || order >= sample) {
    return -1;
  }
  return __ldg(p.hint + row * p.k + order * p.k / sample);
}

// One score of each 512th of the row, at a scattered place of it, neighbours in different warps.
template <class T>
__device__ inline std::uint32_t sampled_key(const RowPart<T>& part) {
  const std::uint32_t order = threadIdx.x % 32 * kSelectWarps + threadIdx.x / 32;
  const std::uint32_t length = static_cast<std::uint32_t>(part.length);
  const std::uint32_t first =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(order) * length / kSampleCount);
  const std::uint32_t width = max(length / kSampleCount, 1U);
  return select_key(part.row[first + (order * 2654435761U >> 7) % width]);
}

// The key of that rank among the warp's, by taking the largest away.
__device__ inline std::uint32_t warp_ranked(std::uint32_t key, int rank) {
  std::uint32_t largest = __reduce_max_sync(kAllLanes, key);
  for (int taken = 0; taken < rank; ++taken) {
    const unsigned holders = __ballot_sync(kAllLanes, key == largest);
    key = threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(holders)) - 1) ? 0 : key;
    largest = __reduce_max_sync(kAllLanes, key);
  }
  return largest;
}

// The same among 16 keys in shared memory, 16-byte aligned; every warp finds it.
__device__ inline std::uint32_t ranked_of_warps(const std::uint32_t* keys, int rank) {
  const unsigned lane = threadIdx.x % kSelectWarps;
  const std::uint32_t own = keys[lane];
  int before = 0;
#pragma unroll
  for (unsigned four = 0; four < kSelectWarps / 4; ++four) {
    const uint4 others = reinterpret_cast<const uint4*>(keys)[four];
    const std::uint32_t other[4] = {others.x, others.y, others.z, others.w};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      before += other[i] > own || (other[i] == own && four * 4 + i < lane) ? 1 : 0;
    }
  }
  const unsigned holders = __ballot_sync(kAllLanes, before == rank);
  return __shfl_sync(kAllLanes, own, __ffs(static_cast<int>(holders)) - 1);
}

// The key of -infinity: all below are NaN or no score.
template <class T>
__device__ inline std::uint32_t lowest_number_key() {
  return sizeof(T) == 4 ? 0x007FFFFFU : 0x007FU;
}

// The number with that key. Scores have a key of at least `key` just if they are >= it: the keys
// between numbers (one, of -0) belong to +-0. REQUIRES: between the keys of the infinities.
template <class T>
__device__ inline float score_of_key(std::uint32_t key) {
  constexpr int kWidth = static_cast<int>(sizeof(T)) * 8;
  constexpr std::uint32_t kSign = 1U << (kWidth - 1);
  const std::uint32_t bits = (key & kSign) != 0 ? key ^ kSign : ~key;
  return __uint_as_float(bits << (32 - kWidth));
}

struct Guess {
  std::uint32_t threshold;
  std::uint32_t largest;  // a key near the row's largest, >= threshold
};

// The least hinted key, a little lowered, where it is believable: above the sample's safe threshold
// and not where the sample says that far too few scores are. Otherwise the safe threshold. All
// blocks of a row see the same scores and agree. Synchronises the block.
template <class T>
__device__ inline Guess guess_threshold(const RowPart<T>& part, std::int32_t hint,
                                        std::uint32_t sample, const SelectPlan& plan,
                                        SelectShared& shared) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::uint32_t safe = warp_ranked(sample, plan.sample.in_warp);
  const std::uint32_t most = __reduce_max_sync(kAllLanes, sample);
  const bool valid = hint >= 0 && hint < part.length;
  const std::uint32_t key = valid ? select_key(part.row[hint]) : 0;
  const std::uint32_t least_hint = __reduce_min_sync(kAllLanes, valid ? key : kAllLanes);
  const std::uint32_t largest_hint = __reduce_max_sync(kAllLanes, key);
  if (lane == 0) {
    shared.warp_safe[warp] = safe;
    shared.warp_most[warp] = most;
    shared.warp_least_hint[warp] = least_hint;
    shared.warp_largest_hint[warp] = largest_hint;
  }
  __syncthreads();
  const bool in = lane < kSelectWarps;
  const std::uint32_t least = __reduce_min_sync(kAllLanes, in ? shared.warp_least_hint[lane] : ~0U);
  const std::uint32_t largest =
      __reduce_max_sync(kAllLanes, in ? shared.warp_largest_hint[lane] : 0);
  const std::uint32_t warp_most = in ? shared.warp_most[lane] : 0;
  const int reached = __popc(__ballot_sync(kAllLanes, in && warp_most >= least));
  Guess guess;
  guess.threshold = ranked_of_warps(shared.warp_safe, plan.sample.of_warps);
  if (least < largest && reached >= plan.sample.warps_reached) {
    // k > 512: the least of the hints that were looked at is not the least of all.
    const std::uint32_t margin = plan.looks_at_all ? 0 : (largest - least) / 64;
    guess.threshold = max(guess.threshold, least - min(margin, least - 1));
  }
  guess.threshold = max(guess.threshold, lowest_number_key<T>());
  guess.largest = max(max(__reduce_max_sync(kAllLanes, warp_most), largest), guess.threshold);
  return guess;
}

// Appends the indices of this chunk's scores >= threshold to the list: counted a thread, placed by
// one addition a warp. Entries past the room are dropped; list_count says so.
// REQUIRES: threshold >= lowest_number_key, so that one floating comparison decides.
template <class T, int kItems>
__device__ inline void collect(const OwnScores<T, kItems>& own, const RowPart<T>& part,
                               std::uint32_t threshold, int room, const SelectMemory& memory) {
  using Own = OwnScores<T, kItems>;
  const float least = score_of_key<T>(threshold);
  std::uint32_t hits = 0;  // a bit a score
#pragma unroll
  for (int w = 0; w < Own::kWords; ++w) {
#pragma unroll
    for (int e = 0; e < Own::kWord; ++e) {
      hits |= device_float(element_of_word<T>(own.raw[w], e)) >= least ? 1U << (w * Own::kWord + e)
                                                                       : 0U;
    }
    if (own.partial(part, w)) {
      for (int e = 0; e < Own::kWord; ++e) {
        hits |= own.partial_key(part, w, e) >= threshold ? 1U << (w * Own::kWord + e) : 0U;
      }
    }
  }
  if (__all_sync(kAllLanes, hits == 0)) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int count = __popc(hits);
  int end = count;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(kAllLanes, end, distance);
    end += lane >= distance ? other : 0;
  }
  int base = 0;
  if (lane == 31) {
    base = atomicAdd(&memory.fixed.list_count, end);
  }
  int place = __shfl_sync(kAllLanes, base, 31) + end - count;
  while (hits != 0) {
    const int item = __ffs(static_cast<int>(hits)) - 1;
    hits &= hits - 1;
    const int index = part.index_at(own.position(item / Own::kWord)) + item % Own::kWord;
    if (place < room) {
      memory.list[place] = static_cast<std::uint32_t>(index);
    }
    ++place;
  }
}

}  // namespace versieve::kernels
