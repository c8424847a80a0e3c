// spec_sample, variants `exact` and `sigmoid`: one pass over the logits.
// Grid: a cluster of 16 blocks for each position of the chain (x), slices of the samples (y); a
// tile of the vocabulary a block, a chunk of 512 elements of target and draft a warp. 1. Chunks
// give their largest logit and sum, blocks exchange those of their tiles (exact). 2. The weights
// max(0, p - q), p after the last draft, are summed, blocks exchange the sums, and meanwhile one
// warp tests the position. 3. The warp whose chunk holds the draw finds the token.
// Forms. Held: all positions fit on the chip at once, logits stay in registers as weights, and
// every position draws as if it were the first rejected; roomy, where they fit with twice the
// registers. Voting: more positions, fewer registers a thread; a position keeps nothing but its
// statistics, waits for the votes of those before it, and only a sample's first rejection reads its
// rows again, from the second-level cache.
// Bits are those of baseline.cu, whose order of sums is the same. Moves (2 gamma + 1) V logits once
// (traffic::spec_chain); bound by latencies: MEASURED.md.
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/spec_sample/chain_forms.cuh"
#include "model/launches/spec_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kPickThreads = 128;

template <class T, bool kSigmoid, ChainForm kForm>
__global__ void __launch_bounds__(kClusterLawThreads, static_cast<int>(kForm))
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
  Worker<T, kSigmoid> w{.here = {a, results, position}, .place = place};
  if constexpr (kForm == ChainForm::kVoting) {
    run_voting(w, shared);
  } else {
    run_held<kBeside>(w, shared);
  }
  if (w.here.past_drafts() && w.reports() && results.votes != nullptr) {
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

ChainGrid grid_of(std::int64_t gamma, std::int64_t samples, const LawCut& cut) {
  return {gamma, samples, std::int64_t{cluster_blocks(cut)} * cut.tile_chunks * 32};
}

template <class T, bool kSigmoid, ChainForm kForm>
void launch_chain(const ChainSetting<T>& a, const ChainGrid& grid, const ChainResults& results,
                  const LaunchContext& context) {
  const LaunchRange range("spec_chain",
                          chain_traffic(kForm, kSigmoid, a.s.gamma, a.s.vocab, sizeof(T)),
                          context.observer);
  const unsigned blocks = cluster_blocks(a.cut);
  check(cudaFuncSetAttribute(spec_chain_kernel<T, kSigmoid, kForm>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent({.grid = dim3(blocks * static_cast<unsigned>(a.s.gamma + 1),
                                 static_cast<unsigned>(grid.slices())),
                    .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
                    .cluster = blocks,
                    .stream = context.stream},
                   spec_chain_kernel<T, kSigmoid, kForm>, a, results);
}

template <class T, bool kSigmoid>
void launch_chain(const ChainSetting<T>& a, const ChainGrid& grid, const ChainResults& results,
                  const LaunchContext& context) {
  switch (chain_form(grid, results.votes != nullptr)) {
    case ChainForm::kRoomy:
      launch_chain<T, kSigmoid, ChainForm::kRoomy>(a, grid, results, context);
      return;
    case ChainForm::kHeld:
      launch_chain<T, kSigmoid, ChainForm::kHeld>(a, grid, results, context);
      return;
    case ChainForm::kVoting:
      launch_chain<T, kSigmoid, ChainForm::kVoting>(a, grid, results, context);
      return;
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
  const ChainGrid grid = grid_of(p.gamma, p.samples, a.cut);
  if (context.tickets != nullptr && grid.votes()) {
    results.votes = static_cast<ChainVotes*>(context.tickets);
  }
  a.by_sigmoid() ? launch_chain<T, true>(a, grid, results, context)
                 : launch_chain<T, false>(a, grid, results, context);
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
