// The forms of the fused launch, position by position (fused.cu): held, with a position's logits in
// registers as weights, and voting, with its statistics alone.
#pragma once

#include "kernels/spec_sample/chain_draw.cuh"
#include "model/launches/spec_sample.h"

namespace versieve::kernels {

// Whether the block's test ends at a barrier of its own, for which only a warp with a draw waits.
// Not for sigmoids, whose votes wait for the second exchange anyhow.
template <bool kSigmoid, ChainForm kForm>
inline constexpr bool kTellsBeside = kForm != ChainForm::kVoting && !kSigmoid;

// What the functions of the kernel share: this warp's part of a position.
template <class T, bool kSigmoid>
struct Worker {
  Position<T, kSigmoid> here;
  Place place;

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int chunk() const { return place.rank * here.a.cut.tile_chunks + warp(); }
  __device__ int first() const { return chunk() * kRoundElements; }  // of the chunk
  // This warp tests the position's samples, and is the cluster's that writes them.
  __device__ static bool tests() { return warp() == static_cast<int>(blockDim.x) / 32 - 1; }
  __device__ bool reports() const { return tests() && place.rank == 0; }

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
};

// The factors that make probabilities of this warp's weights, and the sum of those it draws from.
template <class T, bool kSigmoid>
__device__ float warp_draw_weights(const Worker<T, kSigmoid>& w, const RowPair& law,
                                   const ClusterLawShared& shared, float (&p)[kLaneElements],
                                   const float (&q)[kLaneElements]) {
  const Position<T, kSigmoid>& here = w.here;
  const bool soft = here.by_softmax();
  return draw_weights<kSigmoid>(
      here.a, here.past_drafts(),
      soft ? chunk_factor(shared.chunk[0][w.warp()], law.target, here.a.scale) : 1.0F,
      soft && !here.past_drafts() ? chunk_factor(shared.chunk[1][w.warp()], law.draft, here.a.scale)
                                  : 1.0F,
      p, q);
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
template <bool kBeside, class T, bool kSigmoid>
__device__ void draw_samples(const Worker<T, kSigmoid>& w, const DrawRange<float>& tile,
                             const float (&weights)[kLaneElements], ChainShared& shared) {
  const Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  const bool fine = !kSigmoid && !here.past_drafts() && !a.scale.one_hot && tile.total < kFineMass;
  const bool slow = fine || !(tile.total > 0.0F);
  if (!slow) {
    draw_batch(
        here, std::int64_t{blockIdx.y} * 32, shared.draw[w.lane()],
        [&shared] { return told_drawing<kBeside>(shared); }, tile, w.chunk(), weights, shared);
  }
  for (std::int64_t base = (std::int64_t{blockIdx.y} + gridDim.y) * 32; base < a.s.samples;
       base += std::int64_t{gridDim.y} * 32) {
    const Proposal x(a.s, here.c, base + w.lane());
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
template <bool kBeside, class T, bool kSigmoid>
__device__ void run_held(Worker<T, kSigmoid>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  Proposal proposed;  // asked for before the logits
  if (w.tests()) {
    proposed = Proposal(a.s, here.c, std::int64_t{blockIdx.y} * 32 + w.lane());
  }
  float p[kLaneElements], q[kLaneElements] = {};
  here.z().load_target(w.first(), p);
  if (!here.past_drafts()) {
    here.z().load_draft(w.first(), q);
  }
  cluster_wait();  // all blocks run
  w.read_parity(shared);
  if (w.tests()) {
    proposed.keep(shared);
  }
  if (here.by_softmax()) {
    keep_chunk(shared.cluster, 0, weigh_round<T>(p, w.first(), a.scale));
    keep_chunk(shared.cluster, 1,
               here.past_drafts() ? empty_stat() : weigh_round<T>(q, w.first(), a.scale));
  }
  float2 logits = {};  // near by now, and needed only after the exchange
  if (w.tests() && !here.past_drafts()) {
    const Proposal x(shared, a.s.samples);
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
    const Proposal x(shared, a.s.samples);
    drawing = test_sample(here, x, logits, shared.rows, w.reports());
    tell_drawing<kBeside>(drawing, shared);
    if (!kSigmoid && w.votes()) {
      vote(*here.results.votes, here.parity, w.lane(), here.c, !drawing);
    }
  }
  if constexpr (!kBeside) {
    __syncthreads();
  }
  const DrawRange<float> tile = await_sums(w.place, shared.cluster);
  if (kSigmoid && w.votes()) {  // only now have all blocks of the cluster read the parity
    vote(*here.results.votes, here.parity, w.lane(), here.c, !drawing);
  }
  draw_samples<kBeside>(w, tile, p, shared);
}

// Voting: statistics alone, then the votes; who is a sample's first rejection reads its rows again.
// REQUIRES: votes; so at most 32 samples.
template <class T, bool kSigmoid>
__device__ void run_voting(Worker<T, kSigmoid>& w, ChainShared& shared) {
  Position<T, kSigmoid>& here = w.here;
  const ChainSetting<T>& a = here.a;
  Proposal proposed;
  if (w.tests()) {
    proposed = Proposal(a.s, here.c, w.lane());
  }
  float z[kLaneElements];
  if (here.by_softmax()) {
    if (!here.past_drafts()) {
      call_for_round(here.z().draft, w.first(), a.cut.vocab);
    }
    here.z().load_target(w.first(), z);
    keep_chunk(shared.cluster, 0, weigh_round<T>(z, w.first(), a.scale));
    if (!here.past_drafts()) {
      here.z().load_draft(w.first(), z);
    }
    keep_chunk(shared.cluster, 1,
               here.past_drafts() ? empty_stat() : weigh_round<T>(z, w.first(), a.scale));
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
    const Proposal x(shared, a.s.samples);
    const float2 logits = x.any && !here.past_drafts() ? x.gather(here.z()) : float2{};
    bool drawing = test_sample(here, x, logits, shared.rows, w.reports());
    if (w.votes()) {
      vote(*here.results.votes, here.parity, w.lane(), here.c, !drawing);
    }
    drawing = drawing && all_accepted_before(*here.results.votes, here.parity, w.lane(), here.c);
    tell_drawing<false>(drawing, shared);
  }
  __syncthreads();
  if (shared.drawing == 0) {
    return;  // the whole cluster alike
  }
  if (threadIdx.x == 0) {
    expect_sums(w.place, shared.cluster);
  }
  here.z().load_target(w.first(), z);
  float q[kLaneElements] = {};
  if (!here.past_drafts()) {
    here.z().load_draft(w.first(), q);
  }
  if (here.by_softmax()) {
    weigh_again<T>(z, w.first(), shared.cluster.chunk[0][w.warp()], a.scale);
    weigh_again<T>(q, w.first(), shared.cluster.chunk[1][w.warp()], a.scale);
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
