// Much at once in two launches (exact): statistics of every chunk of every row, as fast as memory
// gives them, then a cluster a sequence that tests all positions and draws where its sample ends,
// from the two rows it reads again. What a cluster a position loses by its waits is nothing to one
// that comes once. REQUIRES: one sample a sequence, at most kVotePositions drafts.
#pragma once

#include "kernels/ptx/async_copy.cuh"
#include "kernels/spec_sample/chain_forms.cuh"

namespace versieve::kernels {

// Bytes of a warp's chunks that are on their way, of 16 warps an SM: more than memory's latency
// asks for at its rate.
inline constexpr int kStreamWarpBytes = 12 * 1024;
inline constexpr int kStreamBytes = kMaxTiles * kStreamWarpBytes;  // of a block, one an SM

// A warp's chunks on their way through shared memory. Each lane fetches and reads the words of its
// own elements, so that it waits for nothing but its own fetches.
template <class T, int kRounds>
class ChunkRing {
 public:
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kRounds * kLaneElements / kWord;  // of a lane
  static constexpr int kStages = kStreamWarpBytes / (kWords * 32 * 16);
  static_assert(kStages >= 2, "a chunk is on its way while another one is weighed");

  // `bytes`: the block's.
  __device__ explicit ChunkRing(uint4* bytes)
      : own_(bytes + static_cast<int>(threadIdx.x) / 32 * (kStages * kWords * 32) +
             threadIdx.x % 32) {}

  // A group, whether or not it holds anything: elements of `row` from `first` on.
  __device__ void fetch(int stage, const T* row, int first, int vocab) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int x = element_index<T>(first, i * kWord);
      if (x < vocab) {
        fetch_16(shared_address(own_ + (stage * kWords + i) * 32), row + x);
      }
    }
  }
  __device__ void read(int stage, int first, int vocab, Rounds<kRounds>& z) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int x = element_index<T>(first, i * kWord);
      float word[kWord];
      unpack<T>(x < vocab ? own_[(stage * kWords + i) * 32] : uint4{}, word);
#pragma unroll
      for (int j = 0; j < kWord; ++j) {
        z[i * kWord / kLaneElements][i * kWord % kLaneElements + j] =
            x < vocab ? word[j] : -INFINITY;
      }
    }
  }

 private:
  uint4* own_;
};

// Where a chunk lies, of all rows' chunks one after the other: the target's B (gamma + 1) rows,
// then the draft's B gamma.
template <class T>
struct ChunkPlace {
  int row;
  int first;      // of the row's elements
  const T* from;  // the row

  __device__ ChunkPlace(const ChainSetting<T>& a, int index) : row(index / a.cut.chunks) {
    const int targets = static_cast<int>(a.s.batch) * (static_cast<int>(a.s.gamma) + 1);
    first = (index - row * a.cut.chunks) * a.cut.chunk;
    from = row < targets ? a.s.target_logits + std::int64_t{row} * a.cut.vocab
                         : a.s.draft_logits + std::int64_t{row - targets} * a.cut.vocab;
  }
};

// A warp a chunk, the next ones on their way.
template <class T, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, 1)
    spec_stats_kernel(const __grid_constant__ ChainSetting<T> a,
                      LawStat* stats /* [rows, chunks] */) {
  extern __shared__ uint4 stream_words[];
  release_successors();
  using Ring = ChunkRing<T, kRounds>;
  constexpr int kAhead = Ring::kStages - 1;
  const int all = static_cast<int>(a.s.batch * (2 * a.s.gamma + 1)) * a.cut.chunks;
  const int warps = static_cast<int>(gridDim.x) * (kClusterLawThreads / 32);
  int index =
      static_cast<int>(blockIdx.x) * (kClusterLawThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  Ring ring(stream_words);
  const auto fetch = [&](int stage, int at) {
    if (a.words && at < all) {
      const ChunkPlace<T> place(a, at);
      ring.fetch(stage, place.from, place.first, a.cut.vocab);
    }
    end_fetch_group();
  };
  wait_for_predecessors();
#pragma unroll 1
  for (int stage = 0; stage < kAhead; ++stage) {
    fetch(stage, index + stage * warps);
  }
  int stage = 0;
#pragma unroll 1
  for (; index < all; index += warps) {
    fetch(stage == 0 ? kAhead : stage - 1, index + kAhead * warps);
    const ChunkPlace<T> place(a, index);
    Rounds<kRounds> z;
    if (a.words) {
      await_fetch_groups<kAhead>();
      ring.read(stage, place.first, a.cut.vocab, z);
    } else {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        load_round(place.from, place.first + r * kRoundElements, a.cut.vocab, false, z[r]);
      }
    }
    if (a.cuts != nullptr) {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        keep_from(a.cuts[place.row], z[r]);
      }
    }
    const LawStat stat = weigh_chunk<T>(z, place.first, a.scale);
    if (threadIdx.x % 32 == 0) {
      stats[index] = stat;
    }
    stage = stage == kAhead ? 0 : stage + 1;
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

// Two blocks an SM, so that twice as many sequences end at once: a lane's part of one round is in
// registers at a time.
template <class T, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, 2)
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
  cluster_wait();  // all blocks run
  __syncwarp();
  const LawStat target_chunk = chain.cluster.chunk[0][w.warp()];
  const LawStat draft_chunk = chain.cluster.chunk[1][w.warp()];
  const float target = chunk_factor(target_chunk, chain.rows.target, a.scale);
  const float draft = past ? 1.0F : chunk_factor(draft_chunk, chain.rows.draft, a.scale);
  const PositionLogits<T> z = here.z();
  Rounds<kRounds> weights;
  float sum = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    float q[kLaneElements] = {};
    load_round(z.target, w.first(r), z.vocab, z.words, weights[r]);
    if (!past) {
      load_round(z.draft, w.first(r), z.vocab, z.words, q);
    }
    keep_from(z.target_least, weights[r]);
    keep_from(z.draft_least, q);
    weigh_again<T>(weights[r], w.first(r), target_chunk, a.scale);
    weigh_again<T>(q, w.first(r), draft_chunk, a.scale);
    sum = draw_weights<false>(a, past, target, draft, weights[r], q, sum);
  }
  sum = warp_sum(sum);
  if (w.lane() == 0) {
    chain.cluster.sum[w.warp()] = sum;
  }
  __syncthreads();
  push_sums(place, chain.cluster);
  draw_samples<false>(w, await_sums(place, chain.cluster), weights, chain);
}

}  // namespace versieve::kernels
