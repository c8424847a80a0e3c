// spec_sample, variants `exact` and `sigmoid`: one pass over the logits, which stay in registers.
// Grid: a cluster of 16 blocks for each position of the chain (x), slices of the samples (y); a
// tile of the vocabulary a block, a chunk of 512 elements of target and draft a warp. 1. Chunks
// give their largest logit and sum, blocks exchange those of their tiles and the drafted tokens'
// logits (exact). 2. The position is tested, and where a sample rejects (or all drafts are past)
// the weights max(0, p - q), p after the last draft, are summed; blocks exchange the sums. 3. The
// warp whose chunk holds the draw finds the token. Which rejection is a sample's first: with few
// samples each position votes as soon as it is tested, and the warp that drew looks at the votes of
// the positions before its own; else a second launch picks it. Bits are those of baseline.cu, whose
// order of sums is the same. Moves (2 gamma + 1) V logits once (traffic::spec_chain); bound by
// latencies: one from memory, two cluster barriers, one vote.
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/chain_law.cuh"
#include "kernels/spec_sample/chain_votes.cuh"
#include "kernels/spec_sample/cluster_law.cuh"
#include "kernels/spec_sample/launch.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kPickThreads = 128;
constexpr std::int32_t kAccepted = -1;  // instead of a drawn token

// Where drawn tokens go.
struct ChainResults {
  ChainVotes* votes = nullptr;    // or null
  std::int32_t* drawn = nullptr;  // [R, gamma + 1]; without votes
};

struct ChainShared {
  ClusterLawShared cluster;
  LawStat logits[32];  // not statistics: target's and draft's logit of 32 samples' drafted tokens
  unsigned parity[kMaxTiles];  // that each warp read
  unsigned drawing;            // of those samples, the ones that draw here
  double fine[kMaxChunks];
  BlockLawShared law;
};

// What a lane's sample brings to a position.
struct Proposal {
  std::int64_t sample = 0;
  bool any = false;
  int token = 0;
  float test = 0.0F;  // its uniform
  float draw = 0.0F;  // the draw's

  template <class T>
  __device__ Proposal(const SpecSampleParams<T>& s, std::int64_t c, std::int64_t index)
      : sample(index), any(index < s.samples) {
    if (any) {
      const float* uniforms = s.uniforms + sample * (s.gamma + 1);
      draw = uniforms[s.gamma];
      if (c < s.gamma) {
        token = s.draft_tokens[sample * s.gamma + c];
        test = uniforms[c];
      }
    }
  }
  // Whether one of the blocks holds its token.
  __device__ bool known(int vocab) const { return any && token >= 0 && token < vocab; }
  template <class T>
  __device__ float2 gather(const PositionLogits<T>& z) const {
    return {load_f32(z.target + token), load_f32(z.draft + token)};
  }
};

// One position of the chain, as the functions below see it.
template <class T, bool kSigmoid>
struct Position {
  const ChainSetting<T>& a;
  const ChainResults& results;
  PositionLogits<T> z;
  std::int64_t c;
  RowPair law = {};  // exact, once it is known
  unsigned parity = 0;

  __device__ bool past_drafts() const { return c == a.s.gamma; }
  __device__ TokenTest test(int token, float2 logits) const {
    if constexpr (kSigmoid) {
      return sigmoid_test(logits.x, logits.y, a.sigmoid);
    } else {
      return softmax_test(token, logits.x, law.target, logits.y, law.draft, a.scale);
    }
  }
};

// Sends the logits of tokens in this warp's chunk to all blocks. REQUIRES: all blocks run.
template <class T>
__device__ void send_logits(Place place, const Proposal& x, int first, int vocab,
                            const float (&p)[kLaneElements], const float (&q)[kLaneElements],
                            ChainShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int offset = x.token - first;
  unsigned own =
      __ballot_sync(0xFFFFFFFFU, x.known(vocab) && offset >= 0 && offset < kRoundElements);
  while (own != 0) {
    const int slot = __ffs(static_cast<int>(own)) - 1;
    own &= own - 1;
    const int2 at = element_place<T>(__shfl_sync(0xFFFFFFFFU, offset, slot));
    float2 logits = {};
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      logits = j == at.y ? float2{p[j], q[j]} : logits;
    }
    logits.x = __shfl_sync(0xFFFFFFFFU, logits.x, at.x);
    logits.y = __shfl_sync(0xFFFFFFFFU, logits.y, at.x);
    if (lane < place.blocks) {
      push(place, &shared.logits[slot], {logits.x, logits.y}, lane, shared.cluster.law_pushed);
    }
  }
}

// Whether a lane's sample draws here; the first block's first warp reports tests and acceptances.
template <class T, bool kSigmoid>
__device__ bool test_sample(const Position<T, kSigmoid>& here, const Proposal& x, float2 logits,
                            bool reports) {
  if (!x.any || here.past_drafts()) {
    return x.any;
  }
  const SpecSampleParams<T>& s = here.a.s;
  const TokenTest test = here.test(x.token, logits);
  const bool accepted = test.accepts(x.test);
  if (reports) {
    s.tau[x.sample * s.gamma + here.c] = test.tau;
    if (accepted && here.results.votes == nullptr) {
      here.results.drawn[x.sample * (s.gamma + 1) + here.c] = kAccepted;
    }
  }
  return !accepted;
}

// By one warp: a token drawn for `sample` here.
template <class T, bool kSigmoid>
__device__ void report_draw(const Position<T, kSigmoid>& here, std::int64_t sample, int token) {
  const SpecSampleParams<T>& s = here.a.s;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (here.results.votes == nullptr) {
    if (lane == 0) {
      here.results.drawn[sample * (s.gamma + 1) + here.c] = token;
    }
    return;
  }
  const std::int32_t drafted = lane < s.gamma ? s.draft_tokens[sample * s.gamma + lane] : 0;
  if (!all_accepted_before(*here.results.votes, here.parity, static_cast<int>(sample),
                           static_cast<int>(here.c))) {
    return;
  }
  if (lane <= s.gamma) {
    s.tokens[sample * (s.gamma + 1) + lane] =
        lane < here.c ? drafted : (lane == here.c ? token : -1);
  }
  if (lane == 0) {
    s.accepted[sample] = static_cast<std::int32_t>(here.c);
  }
}

// By the first block of a cluster: draws where too little of max(0, p - q) is left for f32, or
// nothing at all.
template <class T, bool kSigmoid>
__device__ __noinline__ void draw_slowly(const Position<T, kSigmoid>& here, ChainShared& shared) {
  const ChainSetting<T>& a = here.a;
  const std::int64_t step = std::int64_t{gridDim.y} * 32;
  for (std::int64_t base = std::int64_t{blockIdx.y} * 32; base < a.s.samples; base += step) {
    for (std::int64_t sample = base; sample < base + 32 && sample < a.s.samples; ++sample) {
      const Proposal x(a.s, here.c, sample);
      if (!here.past_drafts() && here.test(x.token, x.gather(here.z)).accepts(x.test)) {
        continue;
      }
      int token = -1;
      if (!kSigmoid && !here.past_drafts() && !a.scale.one_hot) {
        token = block_draw_fine(a, here.z, here.law.target.largest, here.law.draft.largest, x.draw,
                                shared.fine);
      }
      if (token < 0) {
        const auto load = [&here](int first, float(&w)[kLaneElements]) {
          here.z.load_target(first, w);
        };
        token = block_draw_softmax<T>(load, a.cut, a.scale, x.draw, shared.law,
                                      reinterpret_cast<float*>(shared.fine));
      }
      if (threadIdx.x < 32) {
        report_draw(here, sample, token);
      }
    }
  }
}

// Weights of the draw in place of the target's logits or weights; returns the warp's sum.
template <bool kSigmoid, class T>
__device__ float draw_weights(const ChainSetting<T>& a, bool past_drafts, float target_factor,
                              float draft_factor, float (&p)[kLaneElements],
                              const float (&q)[kLaneElements]) {
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    if (past_drafts) {
      p[j] = __fmul_rn(p[j], target_factor);
    } else if constexpr (kSigmoid) {
      p[j] = sigmoid_residual(p[j], q[j], static_cast<float>(a.sigmoid.slope),
                              static_cast<float>(a.sigmoid.offset));
    } else {
      p[j] = residual(__fmul_rn(p[j], target_factor), __fmul_rn(q[j], draft_factor));
    }
    sum += p[j];
  }
  return warp_sum(sum);
}

// Draws, from the weights in registers, for 32 samples that draw here.
template <class T, bool kSigmoid>
__device__ void draw_batch(const Position<T, kSigmoid>& here, const Proposal& x, bool drawing,
                           const DrawRange<float>& tile, int chunk,
                           const float (&weights)[kLaneElements], const ChainShared& shared) {
  const float aim = x.draw * tile.total;
  if (!__any_sync(0xFFFFFFFFU, drawing && tile.hit(aim))) {
    return;
  }
  const DrawRange<float> range = chunk_range(tile, shared.cluster);
  unsigned hits = __ballot_sync(0xFFFFFFFFU, drawing && range.hit(aim));
  while (hits != 0) {
    const int hit = __ffs(static_cast<int>(hits)) - 1;
    hits &= hits - 1;
    const int token = register_draw<T>(weights, chunk, here.a.cut, range.before,
                                       __shfl_sync(0xFFFFFFFFU, aim, hit));
    report_draw(here, __shfl_sync(0xFFFFFFFFU, x.sample, hit), token);
  }
}

template <class T, bool kSigmoid>
__global__ void __launch_bounds__(kClusterLawThreads, 2)
    spec_chain_kernel(const __grid_constant__ ChainSetting<T> a,
                      const __grid_constant__ ChainResults results) {
  __shared__ ChainShared shared;
  release_successors();
  init_pushes(shared.cluster);
  cluster_arrive_relaxed();
  const Place place = cluster_place();
  wait_for_predecessors();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t position = static_cast<int>(blockIdx.x) / place.blocks;
  Position<T, kSigmoid> here{a, results, PositionLogits<T>(a, position), position};
  const bool past_drafts = here.past_drafts();
  const bool by_softmax = !kSigmoid || past_drafts;
  const int chunk = place.rank * a.cut.tile_chunks + warp;
  const int first = chunk * kRoundElements;
  std::int64_t base = std::int64_t{blockIdx.y} * 32;
  const std::int64_t step = std::int64_t{gridDim.y} * 32;
  Proposal x(a.s, here.c, base + lane);
  float p[kLaneElements], q[kLaneElements] = {};
  here.z.load_target(first, p);
  if (!past_drafts) {
    here.z.load_draft(first, q);
  }
  here.parity = results.votes != nullptr ? vote_parity(*results.votes) : 0;
  const bool reports = place.rank == 0 && warp == 0;
  const bool votes = reports && results.votes != nullptr && x.any && !past_drafts;

  LawStat target = empty_stat(), draft = empty_stat();
  cluster_wait();   // all blocks run
  if (lane == 0) {  // the read of the parity ends before this block's first push
    *static_cast<volatile unsigned*>(shared.parity + warp) = here.parity;
  }
  if (by_softmax) {
    if (!past_drafts) {
      send_logits<T>(place, x, first, a.cut.vocab, p, q, shared);
      draft = weigh_round<T>(q, first, a.scale);
    }
    target = weigh_round<T>(p, first, a.scale);
    const int sent = past_drafts ? 0 : __popc(__ballot_sync(0xFFFFFFFFU, x.known(a.cut.vocab)));
    here.law = exchange_law(place, target, draft, a.scale, shared.cluster,
                            sent * static_cast<int>(sizeof(LawStat)));
  }
  if (warp == 0) {
    const float2 sent{shared.logits[lane].largest, shared.logits[lane].sum};
    const float2 logits = by_softmax ? sent : x.any ? x.gather(here.z) : float2{};
    const bool drawing = test_sample(here, x, logits, reports);
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, drawing);
    if (lane == 0) {
      shared.drawing = mask;
    }
    if (votes && (!kSigmoid || mask == 0)) {
      vote(*results.votes, here.parity, lane, static_cast<int>(here.c), !drawing);
    }
  }
  const float sum = draw_weights<kSigmoid>(
      a, past_drafts, by_softmax ? chunk_factor(target, here.law.target, a.scale) : 1.0F,
      by_softmax && !past_drafts ? chunk_factor(draft, here.law.draft, a.scale) : 1.0F, p, q);
  if (lane == 0) {
    shared.cluster.sum[warp] = sum;
  }
  __syncthreads();
  bool drawing = (shared.drawing >> lane & 1U) != 0;
  if (base + step >= a.s.samples && shared.drawing == 0) {
    return;  // the whole cluster alike
  }
  const DrawRange<float> tile = exchange_sums(place, shared.cluster);
  if (kSigmoid && votes) {  // only now have all blocks of the cluster read the parity
    vote(*results.votes, here.parity, lane, static_cast<int>(here.c), !drawing);
  }
  const bool fine = !kSigmoid && !past_drafts && !a.scale.one_hot && tile.total < kFineMass;
  const bool slow = fine || !(tile.total > 0.0F);
  while (true) {
    draw_batch(here, x, drawing && !slow, tile, chunk, p, shared);
    base += step;
    if (base >= a.s.samples) {
      break;
    }
    x = Proposal(a.s, here.c, base + lane);
    const bool tested = x.any && !past_drafts;
    drawing = test_sample(here, x, tested ? x.gather(here.z) : float2{}, reports);
  }
  if (slow && place.rank == 0) {
    draw_slowly(here, shared);
  }
  if (past_drafts && reports && results.votes != nullptr) {
    close_votes(*results.votes, here.parity, static_cast<int>(a.s.samples),
                static_cast<int>(a.s.gamma));
  }
}

// One warp a sample: its first position without an acceptance is the last.
template <class T>
__global__ void __launch_bounds__(kPickThreads)
    spec_pick_kernel(const __grid_constant__ SpecSampleParams<T> s, const std::int32_t* drawn) {
  release_successors();
  const std::int64_t sample =
      std::int64_t{blockIdx.x} * (kPickThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const std::int64_t lane = threadIdx.x % 32;
  wait_for_predecessors();
  if (sample >= s.samples) {
    return;
  }
  std::int32_t* const tokens = s.tokens + sample * (s.gamma + 1);
  bool over = false;
  for (std::int64_t base = 0; base <= s.gamma; base += 32) {
    const std::int64_t c = base + lane;
    const std::int32_t own = c <= s.gamma ? drawn[sample * (s.gamma + 1) + c] : 0;
    const std::int32_t drafted = c < s.gamma ? s.draft_tokens[sample * s.gamma + c] : 0;
    const unsigned ends = __ballot_sync(0xFFFFFFFFU, own != kAccepted);
    const std::int64_t end = ends != 0 ? base + __ffs(static_cast<int>(ends)) - 1 : s.gamma + 1;
    if (c <= s.gamma) {
      tokens[c] = over || c > end ? -1 : (c == end ? own : drafted);
    }
    if (!over && ends != 0 && lane == 0) {
      s.accepted[sample] = static_cast<std::int32_t>(end);
    }
    over = over || ends != 0;
  }
}

template <class T, bool kSigmoid>
void launch_chain(const ChainSetting<T>& a, const ChainResults& results,
                  const LaunchContext& context) {
  const LaunchRange range("spec_chain", traffic::spec_chain(a.s.gamma, a.s.vocab, sizeof(T)),
                          context.observer);
  const unsigned blocks = cluster_blocks(a.cut);
  const std::int64_t slices = std::clamp<std::int64_t>(a.s.samples / 256, 1, 128);
  check(cudaFuncSetAttribute(spec_chain_kernel<T, kSigmoid>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent(
      {.grid = dim3(blocks * static_cast<unsigned>(a.s.gamma + 1), static_cast<unsigned>(slices)),
       .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
       .cluster = blocks,
       .stream = context.stream},
      spec_chain_kernel<T, kSigmoid>, a, results);
}

}  // namespace

template <class T>
bool spec_fused_takes(const SpecSampleParams<T>& p) {
  return cut_law(p.vocab).rounds == 1;
}

template <class T>
std::size_t spec_fused_scratch_bytes(const SpecSampleParams<T>& p) {
  return static_cast<std::size_t>(p.samples * (p.gamma + 1)) * sizeof(std::int32_t);
}

template <class T>
void launch_spec_fused(const SpecSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= spec_fused_scratch_bytes(p),
                  "spec_sample's scratch is reserved before");
  const ChainSetting<T> a = chain_setting(p);
  ChainResults results;
  results.drawn = static_cast<std::int32_t*>(context.scratch);
  if (context.tickets != nullptr && p.samples <= kVoteSamples && p.gamma <= kVotePositions) {
    results.votes = static_cast<ChainVotes*>(context.tickets);
  }
  a.by_sigmoid() ? launch_chain<T, true>(a, results, context)
                 : launch_chain<T, false>(a, results, context);
  if (results.votes != nullptr) {
    return;
  }
  const LaunchRange range("spec_pick", traffic::spec_pick(p.samples, p.gamma), context.observer);
  constexpr std::int64_t kPicks = kPickThreads / 32;
  launch_dependent({.grid = dim3(static_cast<unsigned>((p.samples + kPicks - 1) / kPicks)),
                    .threads = kPickThreads,
                    .stream = context.stream},
                   spec_pick_kernel<T>, p, static_cast<const std::int32_t*>(results.drawn));
}

template bool spec_fused_takes<float>(const SpecSampleParams<float>&);
template bool spec_fused_takes<Bf16>(const SpecSampleParams<Bf16>&);
template std::size_t spec_fused_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_fused_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_fused<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_fused<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
