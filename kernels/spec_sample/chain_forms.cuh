// The forms of the fused launch, position by position (fused.cuh): held, with a position's logits
// in registers as weights, and voting, with its statistics alone.
#pragma once

#include "kernels/spec_sample/chain_draw.cuh"
#include "model/launches/spec_sample.h"

namespace versieve::kernels {

// Whether the block's test ends at a barrier of its own, for which only a warp with a draw waits.
// Not for sigmoids, whose votes wait for the second exchange anyhow.
template <bool kSigmoid, ChainForm kForm>
inline constexpr bool kTellsBeside = kForm != ChainForm::kVoting && !kSigmoid;

// A warp's chunk of a row, round by round.
template <int kRounds>
using Rounds = float[kRounds][kLaneElements];

// What the functions of the kernel share: this warp's part of a position.
template <class T, bool kSigmoid, int kRounds>
struct Worker {
  Position<T, kSigmoid> here;
  Place place;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int chunk() const { return place.rank * here.a.cut.tile_chunks + warp(); }
  // Of a round of the chunk.
  __device__ int first(int round = 0) const { return (chunk() * kRounds + round) * kRoundElements; }
  // This warp tests the position's samples, and is the cluster's that writes them.
  __device__ static bool tests() { return warp() == static_cast<int>(blockDim.x) / 32 - 1; }
  __device__ bool reports() const { return tests() && place.rank == 0; }

  // Rows as they come, without the cut: what asks for them must not wait for it.
  __device__ void ask(const T* row, Rounds<kRounds>& z) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      load_round(row, first(r), here.a.cut.vocab, here.a.words, z[r]);
    }
  }
  __device__ void call_for(const T* row) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      call_for_round(row, first(r), here.a.cut.vocab);
    }
  }
  __device__ void cut(float least, Rounds<kRounds>& z) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      keep_from(least, z[r]);
    }
  }

  // REQUIRES: the logits have been asked for, since this waits for memory.
  __device__ void read_parity(ChainShared& shared) {
    here.parity = here.results.votes != nullptr ? vote_parity(*here.results.votes) : 0;
    if (lane() == 0) {  // the read ends before this block's first push
      *static_cast<volatile unsigned*>(shared.parity + warp()) = here.parity;
    }
  }
  __device__ bool votes() const {
    return reports() && here.results.votes != nullptr && lane() < here.a.s.samples &&
           !here.past_drafts();
  }
  // This lane's sample of the sequence.
  __device__ void cast_vote(bool accepts) const {
    vote(*here.results.votes, here.parity, static_cast<int>(here.samples().first) + lane(), here.c,
         accepts);
  }
};

// The factors that make probabilities of this warp's weights, and the sum of those it draws from.
template <class T, bool kSigmoid, int kRounds>
__device__ float warp_draw_weights(const Worker<T, kSigmoid, kRounds>& w, const RowPair& law,
                                   const ClusterLawShared& shared, Rounds<kRounds>& p,
                                   const Rounds<kRounds>& q) {
  const Position<T, kSigmoid>& here = w.here;
  const bool soft = here.by_softmax();
  const bool past = here.past_drafts();
  const float target =
      soft ? chunk_factor(shared.chunk[0][w.warp()], law.target, here.a.scale) : 1.0F;
  const float draft =
      soft && !past ? chunk_factor(shared.chunk[1][w.warp()], law.draft, here.a.scale) : 1.0F;
  float sum = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    sum = draw_weights<kSigmoid>(here.a, past, target, draft, p[r], q[r], sum);
  }
  return warp_sum(sum);
}

// By the warp that tests the first 32 samples: who draws here.
template <bool kBeside>
__device__ void tell_drawing(bool drawing, ChainShared& shared) {
  const unsigned mask = __ballot_sync(0xFFFFFFFFU, drawing);
  if (threadIdx.x % 32 == 0) {
    shared.drawing = mask;
    if constexpr (kBeside) {
      barrier_arrive(shared_address(&shared.tested));
    }
  }
}
template <bool kBeside>
__device__ unsigned told_drawing(ChainShared& shared) {
  if constexpr (kBeside) {
    barrier_wait(shared_address(&shared.tested), 0);
  }
  return shared.drawing;
}

// Draws for this launch's samples, batch after batch, from weights in registers.
template <bool kBeside, class T, bool kSigmoid, int kRounds>
__device__ void draw_samples(const Worker<T, kSigmoid, kRounds>& w, const DrawRange<float>& tile,
                             const Rounds<kRounds>& weights, ChainShared& shared) {
  const Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  const bool fine = !kSigmoid && !here.past_drafts() && !a.scale.one_hot && tile.total < kFineMass;
  const bool slow = fine || !(tile.total > 0.0F);
  const SampleRange samples = here.samples();
  if (!slow) {
    draw_batch(
        here, samples.first + blockIdx.y * 32, shared.draw[w.lane()],
        [&shared] { return told_drawing<kBeside>(shared); }, tile, w.chunk(), weights, shared);
  }
  for (unsigned base = samples.first + (blockIdx.y + gridDim.y) * 32; base < samples.end;
       base += gridDim.y * 32) {
    const Proposal x(a.s, here.c, base + threadIdx.x % 32, samples);
    const bool tested = x.any && !here.past_drafts();
    const bool drawing =
        test_sample(here, x, tested ? x.gather(here.z()) : float2{}, shared.rows, w.reports());
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, drawing);
    if (!slow) {
      draw_batch(
          here, base, x.draw, [mask] { return mask; }, tile, w.chunk(), weights, shared);
    }
  }
  if (slow && w.place.rank == 0) {
    const Position<T, kSigmoid> copy = here;  // so that `here` itself may stay in registers
    draw_slowly(copy, shared);
  }
}

// Held: weights stay in registers, and the test runs beside the exchange of their sums.
template <bool kBeside, class T, bool kSigmoid, int kRounds>
__device__ void run_held(Worker<T, kSigmoid, kRounds>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  Proposal proposed;  // asked for before the logits
  if (w.tests()) {
    proposed = Proposal(a.s, here.c, here.samples().of_lane(), here.samples());
  }
  Rounds<kRounds> p, q = {};
  w.ask(here.z().target, p);
  if (!here.past_drafts()) {
    w.ask(here.z().draft, q);
  }
  cluster_wait();  // all blocks run
  w.read_parity(shared);
  if (w.tests()) {
    proposed.keep(shared);
  }
  if (a.cuts != nullptr) {
    w.cut(here.z().target_least, p);
    w.cut(here.z().draft_least, q);
  }
  if (here.by_softmax()) {
    keep_chunk(shared.cluster, 0, weigh_chunk<T>(p, w.first(), a.scale));
    keep_chunk(shared.cluster, 1,
               here.past_drafts() ? empty_stat() : weigh_chunk<T>(q, w.first(), a.scale));
  }
  float2 logits = {};  // near by now, and needed only after the exchange
  if (w.tests() && !here.past_drafts()) {
    const Proposal x(shared, here.samples());
    logits = x.any ? x.gather(here.z()) : float2{};
  }
  RowPair law = {};
  if (here.by_softmax()) {
    law = exchange_law(w.place, a.scale, shared.cluster);
  }
  const float sum = warp_draw_weights(w, law, shared.cluster, p, q);
  if (w.lane() == 0) {
    shared.cluster.sum[w.warp()] = sum;
    if (w.warp() == 0) {
      shared.rows = law;
    }
  }
  __syncthreads();
  push_sums(w.place, shared.cluster);
  bool drawing = false;
  if (w.tests()) {
    const Proposal x(shared, here.samples());
    drawing = test_sample(here, x, logits, shared.rows, w.reports());
    tell_drawing<kBeside>(drawing, shared);
    if (!kSigmoid && w.votes()) {
      w.cast_vote(!drawing);
    }
  }
  if constexpr (!kBeside) {
    __syncthreads();
  }
  const DrawRange<float> tile = await_sums(w.place, shared.cluster);
  if (kSigmoid && w.votes()) {  // only now have all blocks of the cluster read the parity
    w.cast_vote(!drawing);
  }
  draw_samples<kBeside>(w, tile, p, shared);
}

// Voting: statistics alone, then the votes; who is a sample's first rejection reads its rows again.
// REQUIRES: votes; so at most 32 samples.
template <class T, bool kSigmoid, int kRounds>
__device__ void run_voting(Worker<T, kSigmoid, kRounds>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  Proposal proposed;
  if (w.tests()) {
    proposed = Proposal(a.s, here.c, here.samples().of_lane(), here.samples());
  }
  Rounds<kRounds> z;
  if (here.by_softmax()) {
    if (!here.past_drafts()) {
      w.call_for(here.z().draft);
    }
    w.ask(here.z().target, z);
    if (a.cuts != nullptr) {
      w.cut(here.z().target_least, z);
    }
    keep_chunk(shared.cluster, 0, weigh_chunk<T>(z, w.first(), a.scale));
    if (!here.past_drafts()) {
      w.ask(here.z().draft, z);
      if (a.cuts != nullptr) {
        w.cut(here.z().draft_least, z);
      }
    }
    keep_chunk(shared.cluster, 1,
               here.past_drafts() ? empty_stat() : weigh_chunk<T>(z, w.first(), a.scale));
  }
  cluster_wait();
  w.read_parity(shared);
  if (w.tests()) {
    proposed.keep(shared);
  }
  if (here.by_softmax()) {
    const RowPair law = exchange_law(w.place, a.scale, shared.cluster);
    if (w.tests() && w.lane() == 0) {
      shared.rows = law;
    }
    __syncwarp();
  } else {
    cluster_sync();  // all blocks have read the parity
  }
  if (w.tests()) {
    const Proposal x(shared, here.samples());
    const float2 logits = x.any && !here.past_drafts() ? x.gather(here.z()) : float2{};
    bool drawing = test_sample(here, x, logits, shared.rows, w.reports());
    if (w.votes()) {
      w.cast_vote(!drawing);
    }
    drawing = drawing && all_accepted_before(*here.results.votes, here.parity,
                                             static_cast<int>(x.sample), here.c);
    tell_drawing<false>(drawing, shared);
  }
  __syncthreads();
  if (shared.drawing == 0) {
    return;  // the whole cluster alike
  }
  if (threadIdx.x == 0) {
    expect_sums(w.place, shared.cluster);
  }
  w.ask(here.z().target, z);
  Rounds<kRounds> q = {};
  if (!here.past_drafts()) {
    w.ask(here.z().draft, q);
  }
  if (a.cuts != nullptr) {
    w.cut(here.z().target_least, z);
    w.cut(here.z().draft_least, q);
  }
  if (here.by_softmax()) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      weigh_again<T>(z[r], w.first(r), shared.cluster.chunk[0][w.warp()], a.scale);
      weigh_again<T>(q[r], w.first(r), shared.cluster.chunk[1][w.warp()], a.scale);
    }
  }
  const float sum = warp_draw_weights(w, shared.rows, shared.cluster, z, q);
  if (w.lane() == 0) {
    shared.cluster.sum[w.warp()] = sum;
  }
  __syncthreads();
  push_sums(w.place, shared.cluster);
  draw_samples<false>(w, await_sums(w.place, shared.cluster), z, shared);
}

}  // namespace versieve::kernels
