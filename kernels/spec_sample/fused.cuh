// spec_sample, variants `exact` and `sigmoid`: one pass over the logits.
// Grid: a cluster of 16 blocks for each position of the chain (x), slices of the samples (y),
// sequences (z); a tile of the vocabulary a block, a chunk of one or two rounds of 512 elements of
// target and draft a warp. 1. Chunks give their largest logit and sum, blocks exchange those of
// their tiles (exact). 2. The weights max(0, p - q), p after the last draft, are summed, blocks
// exchange the sums, and meanwhile one warp tests the position. 3. The warp whose chunk holds the
// draw finds the token.
// Forms. Held: all positions fit on the chip at once, logits stay in registers as weights, and
// every position draws as if it were the first rejected; roomy, where they fit with twice the
// registers. Voting: more positions, fewer registers a thread; a position keeps nothing but its
// statistics, waits for the votes of those before it, and only a sample's first rejection reads its
// rows again, from the second-level cache. Two rounds: roomy or voting. Streamed: chain_stream.cuh.
// Bits are those of baseline.cu, whose order of sums is the same. Moves (2 gamma + 1) V logits once
// (traffic::spec_chain); bound by latencies: MEASURED.md.
#pragma once

#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/spec_sample/chain_pick.cuh"
#include "kernels/spec_sample/chain_stream.cuh"
#include "model/launches/spec_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kPickThreads = 128;

// Blocks of 512 threads of an SM, and so registers.
constexpr int chain_blocks(ChainForm form, int rounds) {
  return rounds > 1 && form == ChainForm::kVoting ? 2 : static_cast<int>(form);
}

template <class T, bool kSigmoid, ChainForm kForm, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, chain_blocks(kForm, kRounds))
    spec_chain_kernel(const __grid_constant__ ChainSetting<T> a,
                      const __grid_constant__ ChainResults results) {
  __shared__ ChainShared shared;
  release_successors();
  constexpr bool kBeside = kTellsBeside<kSigmoid, kForm>;
  const Place place = cluster_place();
  const int position = static_cast<int>(blockIdx.x) / place.blocks;
  if (kBeside && threadIdx.x == 0) {
    barrier_init(shared_address(&shared.tested), 1);
  }
  init_pushes(shared.cluster);  // publishes that barrier, too
  if (threadIdx.x == 0) {
    if (!kSigmoid || position == a.s.gamma) {
      expect_law(place, shared.cluster);
    }
    if (kForm != ChainForm::kVoting) {
      expect_sums(place, shared.cluster);
    }
  }
  __syncwarp();
  cluster_arrive_relaxed();
  wait_for_predecessors();
  Worker<T, kSigmoid, kRounds> w{.here = {a, results, position}, .place = place};
  if constexpr (kForm == ChainForm::kVoting) {
    run_voting(w, shared);
  } else {
    run_held<kBeside>(w, shared);
  }
  if (w.here.past_drafts() && w.reports() && results.votes != nullptr) {
    if (w.here.sequence() == a.s.batch - 1) {
      close_votes(*results.votes, w.here.parity, static_cast<int>(a.s.samples),
                  static_cast<int>(a.s.batch), static_cast<int>(a.s.gamma));
    } else if (w.lane() < a.s.samples) {
      w.cast_vote(true);
    }
  }
}

// One warp a sample.
template <class T>
__global__ void __launch_bounds__(kPickThreads)
    spec_pick_kernel(const __grid_constant__ SpecSampleParams<T> s, const std::int32_t* drawn) {
  release_successors();
  const std::int64_t sample =
      std::int64_t{blockIdx.x} * (kPickThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  wait_for_predecessors();
  if (sample < s.batch * s.samples) {
    pick_end(s, sample, drawn);
  }
}

template <class T, bool kSigmoid, ChainForm kForm, int kRounds>
void launch_form(const ChainSetting<T>& a, const ChainGrid& grid, const ChainResults& results,
                 const LaunchContext& context) {
  const LaunchRange range(
      "spec_chain", chain_traffic(kForm, kSigmoid, a.s.gamma, a.s.batch * a.s.vocab, sizeof(T)),
      context.observer);
  const unsigned blocks = cluster_blocks(a.cut);
  check(cudaFuncSetAttribute(spec_chain_kernel<T, kSigmoid, kForm, kRounds>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent(
      {.grid = dim3(blocks * static_cast<unsigned>(a.s.gamma + 1),
                    static_cast<unsigned>(grid.slices()), static_cast<unsigned>(a.s.batch)),
       .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
       .cluster = blocks,
       .stream = context.stream},
      spec_chain_kernel<T, kSigmoid, kForm, kRounds>, a, results);
}

template <class T>
std::int64_t stream_bytes(const SpecSampleParams<T>& p) {
  return p.batch * (2 * p.gamma + 1) * cut_law(p.vocab).chunks *
         static_cast<std::int64_t>(sizeof(LawStat));
}

template <class T, int kRounds>
void launch_stream(const ChainSetting<T>& a, const LaunchContext& context) {
  LawStat* const stats = static_cast<LawStat*>(context.scratch);
  const LaunchRange range("spec_chain",
                          traffic::spec_chain(a.s.gamma, a.s.batch * a.s.vocab, sizeof(T)),
                          context.observer);
  const std::int64_t rows = a.s.batch * (2 * a.s.gamma + 1);
  const std::int64_t blocks = (rows * a.cut.chunks + kMaxTiles - 1) / kMaxTiles;
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(std::min<std::int64_t>(blocks, multiprocessors()))),
       .threads = kClusterLawThreads,
       .shared_bytes = kStreamBytes,
       .stream = context.stream},
      spec_stats_kernel<T, kRounds>, a, stats);
  const unsigned cluster = cluster_blocks(a.cut);
  check(cudaFuncSetAttribute(spec_end_kernel<T, kRounds>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent({.grid = dim3(cluster, 1, static_cast<unsigned>(a.s.batch)),
                    .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
                    .cluster = cluster,
                    .stream = context.stream},
                   spec_end_kernel<T, kRounds>, a, ChainResults{.known = true},
                   static_cast<const LawStat*>(stats));
}

template <class T, bool kSigmoid>
void launch_chain(const ChainSetting<T>& a, const ChainGrid& grid, const ChainResults& results,
                  const LaunchContext& context) {
  const bool twice = a.cut.rounds == 2;
  switch (chain_form(grid, results.votes != nullptr, kSigmoid)) {
    case ChainForm::kRoomy:
      twice ? launch_form<T, kSigmoid, ChainForm::kRoomy, 2>(a, grid, results, context)
            : launch_form<T, kSigmoid, ChainForm::kRoomy, 1>(a, grid, results, context);
      return;
    case ChainForm::kHeld:
      VERSIEVE_ASSERT(!twice, "64 registers hold one round");
      launch_form<T, kSigmoid, ChainForm::kHeld, 1>(a, grid, results, context);
      return;
    case ChainForm::kVoting:
      twice ? launch_form<T, kSigmoid, ChainForm::kVoting, 2>(a, grid, results, context)
            : launch_form<T, kSigmoid, ChainForm::kVoting, 1>(a, grid, results, context);
      return;
    case ChainForm::kStreamed:
      break;
  }
}

}  // namespace

template <class T>
std::size_t spec_fused_scratch_bytes(const SpecSampleParams<T>& p) {
  const std::int64_t drawn = p.batch * p.samples * (p.gamma + 1) * 4;
  return static_cast<std::size_t>(p.samples == 1 ? std::max(drawn, stream_bytes(p)) : drawn);
}

template <class T>
void launch_spec_fused(const SpecSampleParams<T>& p, const float* cuts,
                       const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= spec_fused_scratch_bytes(p),
                  "spec_sample's scratch is reserved before");
  const ChainSetting<T> a = chain_setting(p, cuts);
  ChainResults results;
  results.drawn = static_cast<std::int32_t*>(context.scratch);
  const ChainGrid grid = chain_grid(p.gamma, p.samples, p.vocab, p.batch);
  VERSIEVE_ASSERT(
      a.cut.rounds == grid.rounds && a.cut.rounds <= 2 &&
          grid.position_threads == std::int64_t{cluster_blocks(a.cut)} * a.cut.tile_chunks * 32,
      "what is launched is what is priced");
  if (context.tickets != nullptr && grid.votes()) {
    results.votes = static_cast<ChainVotes*>(context.tickets);
  }
  if (chain_form(grid, results.votes != nullptr, a.by_sigmoid()) == ChainForm::kStreamed) {
    a.cut.rounds == 1 ? launch_stream<T, 1>(a, context) : launch_stream<T, 2>(a, context);
    return;
  }
  a.by_sigmoid() ? launch_chain<T, true>(a, grid, results, context)
                 : launch_chain<T, false>(a, grid, results, context);
  if (results.votes != nullptr) {
    return;
  }
  const std::int64_t samples = p.batch * p.samples;
  const LaunchRange range("spec_pick", traffic::spec_pick(samples, p.gamma), context.observer);
  constexpr std::int64_t kPicks = kPickThreads / 32;
  launch_dependent({.grid = dim3(static_cast<unsigned>((samples + kPicks - 1) / kPicks)),
                    .threads = kPickThreads,
                    .stream = context.stream},
                   spec_pick_kernel<T>, p, static_cast<const std::int32_t*>(results.drawn));
}

}  // namespace versieve::kernels
