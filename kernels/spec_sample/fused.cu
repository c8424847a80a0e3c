// spec_sample, variants `exact` and `sigmoid`: one pass over the logits.
// Grid: a cluster of 16 blocks for each position of the chain (x), slices of the samples (y); a
// tile of the vocabulary a block, a chunk of 512 elements of target and draft a warp. 1. Chunks
// give their largest logit and sum, blocks exchange those of their tiles (exact). 2. The weights
// max(0, p - q), p after the last draft, are summed, blocks exchange the sums, and meanwhile one
// warp tests the position. 3. The warp whose chunk holds the draw finds the token.
// Two forms. Held: all positions fit on the chip at once, logits stay in registers as weights, and
// every position draws as if it were the first rejected. Voting: more positions, fewer registers a
// thread; a position keeps nothing but its statistics, waits for the votes of those before it, and
// only a sample's first rejection reads its rows again, from the second-level cache.
// Bits are those of baseline.cu, whose order of sums is the same. Moves (2 gamma + 1) V logits once
// (traffic::spec_chain); bound by latencies: README.md.
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/chain_draw.cuh"
#include "kernels/spec_sample/launch.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kPickThreads = 128;

// What the functions of the kernel share: this warp's part of a position.
template <class T, bool kSigmoid>
struct Worker {
  Position<T, kSigmoid> here;
  Place place;
  int warp, lane;
  int chunk, first;  // of this warp
  bool tests;        // this warp tests the position's samples
  bool reports;      // and is the cluster's that writes them

  // REQUIRES: the logits have been asked for, since this waits for memory.
  __device__ void read_parity(ChainShared& shared) {
    here.parity = here.results.votes != nullptr ? vote_parity(*here.results.votes) : 0;
    if (lane == 0) {  // the read ends before this block's first push
      *static_cast<volatile unsigned*>(shared.parity + warp) = here.parity;
    }
  }
  __device__ bool votes(const Proposal& x) const {
    return reports && here.results.votes != nullptr && x.any && !here.past_drafts();
  }
};

// The factors that make probabilities of this warp's weights, and the sum of those it draws from.
template <class T, bool kSigmoid>
__device__ float warp_draw_weights(const Worker<T, kSigmoid>& w, const LawStat& target,
                                   const LawStat& draft, float (&p)[kLaneElements],
                                   const float (&q)[kLaneElements]) {
  const Position<T, kSigmoid>& here = w.here;
  const bool soft = here.by_softmax();
  return draw_weights<kSigmoid>(
      here.a, here.past_drafts(), soft ? chunk_factor(target, here.law.target, here.a.scale) : 1.0F,
      soft && !here.past_drafts() ? chunk_factor(draft, here.law.draft, here.a.scale) : 1.0F, p, q);
}

// 32 samples from `base` on are tested by one warp; the rest of the block learns who draws at the
// next barrier of the block.
template <class T, bool kSigmoid>
__device__ bool test_batch(const Worker<T, kSigmoid>& w, const Proposal& x, float2 logits,
                           ChainShared& shared) {
  const bool drawing = test_sample(w.here, x, logits, w.reports);
  const unsigned mask = __ballot_sync(0xFFFFFFFFU, drawing);
  if (w.lane == 0) {
    shared.drawing = mask;
  }
  return drawing;
}

// Draws for this launch's samples, batch after batch, from weights in registers.
template <class T, bool kSigmoid>
__device__ void draw_samples(const Worker<T, kSigmoid>& w, Proposal x, const DrawRange<float>& tile,
                             const float (&weights)[kLaneElements], ChainShared& shared) {
  const Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  const bool fine = !kSigmoid && !here.past_drafts() && !a.scale.one_hot && tile.total < kFineMass;
  const bool slow = fine || !(tile.total > 0.0F);
  bool drawing = (shared.drawing >> w.lane & 1U) != 0;
  std::int64_t base = std::int64_t{blockIdx.y} * 32;
  while (true) {
    draw_batch(here, x, drawing && !slow, tile, w.chunk, weights, shared);
    base += std::int64_t{gridDim.y} * 32;
    if (base >= a.s.samples) {
      break;
    }
    x = Proposal(a.s, here.c, base + w.lane);
    const bool tested = x.any && !here.past_drafts();
    drawing = test_sample(here, x, tested ? x.gather(here.z) : float2{}, w.reports);
  }
  if (slow && w.place.rank == 0) {
    const Position<T, kSigmoid> copy = here;  // so that `here` itself may stay in registers
    draw_slowly(copy, shared);
  }
}

// Held: weights stay in registers, and the test runs beside the exchange of their sums.
template <class T, bool kSigmoid>
__device__ void run_held(Worker<T, kSigmoid>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  const Proposal x(a.s, here.c, std::int64_t{blockIdx.y} * 32 + w.lane);
  float p[kLaneElements], q[kLaneElements] = {};
  here.z.load_target(w.first, p);
  if (!here.past_drafts()) {
    here.z.load_draft(w.first, q);
  }
  cluster_wait();  // all blocks run
  w.read_parity(shared);
  LawStat target = empty_stat(), draft = empty_stat();
  if (here.by_softmax()) {
    target = weigh_round<T>(p, w.first, a.scale);
    if (!here.past_drafts()) {
      draft = weigh_round<T>(q, w.first, a.scale);
    }
  }
  float2 logits = {};  // near by now, and needed only after the exchange
  if (w.tests && x.any && !here.past_drafts()) {
    logits = x.gather(here.z);
  }
  if (here.by_softmax()) {
    here.law = exchange_law(w.place, target, draft, a.scale, shared.cluster);
  }
  const float sum = warp_draw_weights(w, target, draft, p, q);
  if (w.lane == 0) {
    shared.cluster.sum[w.warp] = sum;
  }
  __syncthreads();
  push_sums(w.place, shared.cluster);
  bool drawing = false;
  if (w.tests) {
    drawing = test_batch(w, x, logits, shared);
    if (!kSigmoid && w.votes(x)) {
      vote(*here.results.votes, here.parity, w.lane, static_cast<int>(here.c), !drawing);
    }
  }
  __syncthreads();
  const DrawRange<float> tile = await_sums(w.place, shared.cluster, 0);
  if (kSigmoid && w.votes(x)) {  // only now have all blocks of the cluster read the parity
    vote(*here.results.votes, here.parity, w.lane, static_cast<int>(here.c), !drawing);
  }
  draw_samples(w, x, tile, p, shared);
}

// Voting: statistics alone, then the votes; who is a sample's first rejection reads its rows again.
// REQUIRES: votes; so at most 32 samples.
template <class T, bool kSigmoid>
__device__ void run_voting(Worker<T, kSigmoid>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  const Proposal x(a.s, here.c, w.lane);
  LawStat target = empty_stat(), draft = empty_stat();
  float z[kLaneElements];
  if (here.by_softmax()) {
    if (!here.past_drafts()) {
      call_for_round(here.z.draft, w.first, a.cut.vocab);
    }
    here.z.load_target(w.first, z);
    target = weigh_round<T>(z, w.first, a.scale);
    if (!here.past_drafts()) {
      here.z.load_draft(w.first, z);
      draft = weigh_round<T>(z, w.first, a.scale);
    }
  }
  cluster_wait();
  w.read_parity(shared);
  if (here.by_softmax()) {
    here.law = exchange_law(w.place, target, draft, a.scale, shared.cluster);
  } else {
    cluster_sync();  // all blocks have read the parity
  }
  if (w.tests) {
    const float2 logits = x.any && !here.past_drafts() ? x.gather(here.z) : float2{};
    bool drawing = test_batch(w, x, logits, shared);
    if (w.votes(x)) {
      vote(*here.results.votes, here.parity, w.lane, static_cast<int>(here.c), !drawing);
    }
    drawing = drawing && all_accepted_before(*here.results.votes, here.parity, w.lane,
                                             static_cast<int>(here.c));
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, drawing);
    if (w.lane == 0) {
      shared.drawing = mask;
    }
  }
  __syncthreads();
  if (shared.drawing == 0) {
    return;  // the whole cluster alike
  }
  here.z.load_target(w.first, z);
  float q[kLaneElements] = {};
  if (!here.past_drafts()) {
    here.z.load_draft(w.first, q);
  }
  if (here.by_softmax()) {
    weigh_again<T>(z, w.first, target, a.scale);
    weigh_again<T>(q, w.first, draft, a.scale);
  }
  const float sum = warp_draw_weights(w, target, draft, z, q);
  if (w.lane == 0) {
    shared.cluster.sum[w.warp] = sum;
  }
  __syncthreads();
  push_sums(w.place, shared.cluster);
  if (w.place.blocks == 1) {
    __syncthreads();
  }
  draw_samples(w, x, await_sums(w.place, shared.cluster, 0), z, shared);
}

// Blocks an SM: 64 registers a thread hold a chunk of both rows, 40 do not.
template <class T, bool kSigmoid, bool kHeld>
__global__ void __launch_bounds__(kClusterLawThreads, kHeld ? 2 : 3)
    spec_chain_kernel(const __grid_constant__ ChainSetting<T> a,
                      const __grid_constant__ ChainResults results) {
  __shared__ ChainShared shared;
  release_successors();
  init_pushes(shared.cluster);
  cluster_arrive_relaxed();
  const Place place = cluster_place();
  wait_for_predecessors();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t position = static_cast<int>(blockIdx.x) / place.blocks;
  Worker<T, kSigmoid> w{.here = {a, results, PositionLogits<T>(a, position), position},
                        .place = place,
                        .warp = warp,
                        .lane = static_cast<int>(threadIdx.x) % 32,
                        .chunk = place.rank * a.cut.tile_chunks + warp};
  w.first = w.chunk * kRoundElements;
  w.tests = warp == static_cast<int>(blockDim.x) / 32 - 1;
  w.reports = w.tests && place.rank == 0;
  if constexpr (kHeld) {
    run_held(w, shared);
  } else {
    run_voting(w, shared);
  }
  if (w.here.past_drafts() && w.reports && results.votes != nullptr) {
    close_votes(*results.votes, w.here.parity, static_cast<int>(a.s.samples),
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

// Threads that the chip holds at once of clusters of 16 blocks with 64 registers a thread: seven of
// its GPCs have 16 SMs or more, two blocks of 512 an SM.
constexpr std::int64_t kHeldThreads = 7 * 2 * 16 * 512;

template <class T, bool kSigmoid, bool kHeld>
void launch_chain(const ChainSetting<T>& a, const ChainResults& results,
                  const LaunchContext& context) {
  const LaunchRange range("spec_chain", traffic::spec_chain(a.s.gamma, a.s.vocab, sizeof(T)),
                          context.observer);
  const unsigned blocks = cluster_blocks(a.cut);
  const std::int64_t slices = std::clamp<std::int64_t>(a.s.samples / 256, 1, 128);
  check(cudaFuncSetAttribute(spec_chain_kernel<T, kSigmoid, kHeld>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent(
      {.grid = dim3(blocks * static_cast<unsigned>(a.s.gamma + 1), static_cast<unsigned>(slices)),
       .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
       .cluster = blocks,
       .stream = context.stream},
      spec_chain_kernel<T, kSigmoid, kHeld>, a, results);
}

template <class T, bool kSigmoid>
void launch_chain(const ChainSetting<T>& a, const ChainResults& results,
                  const LaunchContext& context) {
  const std::int64_t threads = (a.s.gamma + 1) * cluster_blocks(a.cut) * a.cut.tile_chunks * 32;
  if (results.votes == nullptr || threads <= kHeldThreads) {
    launch_chain<T, kSigmoid, true>(a, results, context);
  } else {
    launch_chain<T, kSigmoid, false>(a, results, context);
  }
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
