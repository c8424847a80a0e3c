// Batches in two launches (exact): statistics of every chunk of every row, as fast as memory gives
// them, then a cluster a sequence that tests all positions and draws where its sample ends, from
// the two rows it reads again. What a cluster a position loses by its waits is nothing to one that
// comes once. REQUIRES: one sample a sequence, at most kVotePositions drafts.
#pragma once

#include "kernels/spec_sample/chain_forms.cuh"

namespace versieve::kernels {

inline constexpr int kStreamBlocks = 2;  // of an SM

// A warp a chunk, the next one on its way (two rounds are enough on their way without). Rows: the
// target's B (gamma + 1), then the draft's B gamma.
template <class T, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, kStreamBlocks)
    spec_stats_kernel(const __grid_constant__ ChainSetting<T> a,
                      LawStat* stats /* [rows, chunks] */) {
  release_successors();
  const int gamma = static_cast<int>(a.s.gamma);
  const int targets = static_cast<int>(a.s.batch) * (gamma + 1);
  const int rows = targets + static_cast<int>(a.s.batch) * gamma;
  const int all = rows * a.cut.chunks;
  const int warps = static_cast<int>(gridDim.x) * (kClusterLawThreads / 32);
  wait_for_predecessors();
  const auto load = [&](int index, Rounds<kRounds>& z) {
    if (index < all) {
      const int row = index / a.cut.chunks;
      const int first = (index - row * a.cut.chunks) * kRounds * kRoundElements;
      const T* const from = row < targets
                                ? a.s.target_logits + std::int64_t{row} * a.cut.vocab
                                : a.s.draft_logits + std::int64_t{row - targets} * a.cut.vocab;
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        load_round(from, first + r * kRoundElements, a.cut.vocab, a.words, z[r]);
      }
    }
  };
  const auto send = [&](int index, Rounds<kRounds>& z) {
    const int row = index / a.cut.chunks;
    if (a.cuts != nullptr) {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        keep_from(a.cuts[row], z[r]);
      }
    }
    const int first = (index - row * a.cut.chunks) * kRounds * kRoundElements;
    const LawStat stat = weigh_chunk<T>(z, first, a.scale);
    if (threadIdx.x % 32 == 0) {
      stats[index] = stat;
    }
  };
  int index =
      static_cast<int>(blockIdx.x) * (kClusterLawThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  Rounds<kRounds> z = {};
  load(index, z);
  for (; index < all; index += warps) {
    if constexpr (kRounds == 1) {
      Rounds<kRounds> next = {};
      load(index + warps, next);
      send(index, z);
#pragma unroll
      for (int j = 0; j < kLaneElements; ++j) {
        z[0][j] = next[0][j];
      }
    } else {
      send(index, z);
      load(index + warps, z);
    }
  }
}

// By a warp: a row's statistics from its chunks'.
__device__ inline LawStat row_of_chunks(const LawStat* chunks, const LawCut& cut,
                                        const LawScale& scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int member = lane % 16;
  LawStat tile = empty_stat();  // the lane's: lanes 0 to 15, and again
#pragma unroll
  for (int pair = 0; pair < kMaxTiles / 2; ++pair) {
    const int mine = pair * 2 + lane / 16;
    const int chunk = mine * cut.tile_chunks + member;
    const bool any = mine < cut.tiles && member < cut.tile_chunks && chunk < cut.chunks;
    const LawStat whole = combine16(any ? chunks[chunk] : empty_stat(), scale);
    const float largest = __shfl_sync(0xFFFFFFFFU, whole.largest, member % 2 * 16);
    const float sum = __shfl_sync(0xFFFFFFFFU, whole.sum, member % 2 * 16);
    if (member / 2 == pair) {
      tile = {largest, sum};
    }
  }
  return combine16(member < cut.tiles ? tile : empty_stat(), scale);
}

struct StreamShared {
  ChainShared chain;
  LawStat row[2 * kVotePositions + 1];  // target's, then the draft's
  int accepted;
};

// By the warp that tests: tau of every position, a lane each; how many drafts are accepted.
template <class T>
__device__ int test_positions(const ChainSetting<T>& a, const StreamShared& shared, bool reports) {
  const SpecSampleParams<T>& s = a.s;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int gamma = static_cast<int>(s.gamma);
  const int sequence = static_cast<int>(blockIdx.z);
  bool accepted = false;
  if (lane < gamma) {
    const std::int64_t at = std::int64_t{sequence} * gamma + lane;
    const int token = s.draft_tokens[at];
    const float2 z = PositionLogits<T>(a, sequence, lane).both(token);
    const TokenTest test =
        softmax_test(token, z.x, shared.row[lane], z.y, shared.row[gamma + 1 + lane], a.scale);
    accepted = test.accepts(s.uniforms[at + sequence]);  // a number more a sequence
    if (reports) {
      s.tau[at] = test.tau;
    }
  }
  return __ffs(static_cast<int>(~__ballot_sync(0xFFFFFFFFU, accepted))) - 1;
}

template <class T, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, 1)
    spec_end_kernel(const __grid_constant__ ChainSetting<T> a,
                    const __grid_constant__ ChainResults results,
                    const LawStat* stats /* [rows, chunks] */) {
  __shared__ StreamShared shared;
  ChainShared& chain = shared.chain;
  release_successors();
  const Place place = cluster_place();
  init_pushes(chain.cluster);
  if (threadIdx.x == 0) {
    expect_sums(place, chain.cluster);
  }
  __syncwarp();
  cluster_arrive_relaxed();
  wait_for_predecessors();
  const int gamma = static_cast<int>(a.s.gamma);
  const int sequence = static_cast<int>(blockIdx.z);
  const int targets = static_cast<int>(a.s.batch) * (gamma + 1);
  const auto row_stats = [&](int i) {  // of the sequence's i-th row
    const int row =
        i <= gamma ? sequence * (gamma + 1) + i : targets + sequence * gamma + i - gamma - 1;
    return stats + std::int64_t{row} * a.cut.chunks;
  };
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = warp; i <= 2 * gamma; i += warps) {
    const LawStat row = row_of_chunks(row_stats(i), a.cut, a.scale);
    if (threadIdx.x % 32 == 0) {
      shared.row[i] = row;
    }
  }
  __syncthreads();
  Worker<T, false, kRounds> w{.here = {a, results, 0}, .place = place};
  if (w.tests()) {
    const int accepted = test_positions(a, shared, w.reports());
    const SampleRange own = w.here.samples();
    Proposal(a.s, accepted, own.of_lane(), own).keep(chain);
    if (w.lane() == 0) {
      shared.accepted = accepted;
      chain.drawing = 1U;
      chain.rows = {shared.row[accepted],
                    accepted < gamma ? shared.row[gamma + 1 + accepted] : empty_stat()};
    }
  }
  __syncthreads();
  Position<T, false>& here = w.here;
  here.c = shared.accepted;
  const bool past = here.past_drafts();
  const bool any = w.chunk() < a.cut.chunks;
  keep_chunk(chain.cluster, 0, any ? row_stats(here.c)[w.chunk()] : empty_stat());
  keep_chunk(chain.cluster, 1,
             any && !past ? row_stats(gamma + 1 + here.c)[w.chunk()] : empty_stat());
  Rounds<kRounds> p, q = {};
  w.ask(here.z().target, p);
  if (!past) {
    w.ask(here.z().draft, q);
  }
  cluster_wait();  // all blocks run
  if (a.cuts != nullptr) {
    w.cut(here.z().target_least, p);
    w.cut(here.z().draft_least, q);
  }
  __syncwarp();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    weigh_again<T>(p[r], w.first(r), chain.cluster.chunk[0][w.warp()], a.scale);
    weigh_again<T>(q[r], w.first(r), chain.cluster.chunk[1][w.warp()], a.scale);
  }
  const float sum = warp_draw_weights(w, chain.rows, chain.cluster, p, q);
  if (w.lane() == 0) {
    chain.cluster.sum[w.warp()] = sum;
  }
  __syncthreads();
  push_sums(place, chain.cluster);
  draw_samples<false>(w, await_sums(place, chain.cluster), p, chain);
}

}  // namespace versieve::kernels
