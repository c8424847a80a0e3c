#include "kernels/spec_sample/together.h"

#include <algorithm>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/chain_forms.cuh"
#include "kernels/spec_sample/chain_pick.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// One a request. Which row of `drawn` is a call's: its number times the positions of the longest.
template <class T>
struct ChainCalls {
  ChainSetting<T> call[kMostSampled];
};
static_assert(sizeof(ChainCalls<float>) + 16 <= 32764);  // of a kernel's parameters

// Blocks of an SM, and so registers: two rounds of logits take twice as many.
constexpr int held_blocks(int rounds) {
  return rounds == 1 ? static_cast<int>(ChainForm::kHeld) : static_cast<int>(ChainForm::kRoomy);
}

// Grid: clusters, one a position of the longest chain, call after call.
template <class T, bool kSigmoid, int kRounds>
__global__ void __launch_bounds__(kClusterLawThreads, held_blocks(kRounds))
    spec_chains_kernel(const __grid_constant__ ChainCalls<T> calls, int positions,
                       std::int32_t* drawn /* [calls, positions] */) {
  __shared__ ChainShared shared;
  release_successors();
  constexpr bool kBeside = kTellsBeside<kSigmoid, ChainForm::kHeld>;
  const Place place = cluster_place();
  const int cluster = static_cast<int>(blockIdx.x) / place.blocks;
  const int call = cluster / positions;
  const int position = cluster - call * positions;
  const ChainSetting<T>& a = calls.call[call];
  if (position > a.s.gamma) {
    return;  // the whole cluster
  }
  if (kBeside && threadIdx.x == 0) {
    barrier_init(shared_address(&shared.tested), 1);
  }
  init_pushes(shared.cluster);  // publishes that barrier, too
  if (threadIdx.x == 0) {
    if (!kSigmoid || position == a.s.gamma) {
      expect_law(place, shared.cluster);
    }
    expect_sums(place, shared.cluster);
  }
  __syncwarp();
  cluster_arrive_relaxed();
  wait_for_predecessors();
  const ChainResults results{.drawn = drawn + call * positions};
  Worker<T, kSigmoid, kRounds> w{.here = {a, results, position}, .place = place};
  run_held<kBeside>(w, shared);
}

// Grid: call, a warp.
template <class T>
__global__ void __launch_bounds__(32) spec_picks_kernel(const __grid_constant__ ChainCalls<T> calls,
                                                        int positions, const std::int32_t* drawn) {
  release_successors();
  wait_for_predecessors();
  pick_end(calls.call[blockIdx.x].s, 0, drawn + static_cast<int>(blockIdx.x) * positions);
}

template <class T>
bool cuts_rows(const SpecSampleParams<T>& p) {
  return p.truncation.cuts() && p.temperature > 0.0;
}

template <class T>
int positions_of(std::span<const SpecSampleParams<T>> calls) {
  std::int64_t most = 0;
  for (const SpecSampleParams<T>& p : calls) {
    most = std::max(most, p.gamma + 1);
  }
  return static_cast<int>(most);
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Least logits of the calls' rows that are kept, one after the other.
template <class T>
std::size_t cut_bytes(std::span<const SpecSampleParams<T>> calls) {
  std::size_t rows = 0;
  for (const SpecSampleParams<T>& p : calls) {
    rows += cuts_rows(p) ? static_cast<std::size_t>(2 * p.gamma + 1) : 0;
  }
  return aligned(rows * sizeof(float));
}

// Calls that cut nothing have no part in the launch.
template <class T>
ChainCalls<T> settings_of(std::span<const SpecSampleParams<T>> calls,
                          const LaunchContext& context) {
  ChainCalls<T> all{};
  std::vector<RowCutsParams<T>> cuts;
  float* next = static_cast<float*>(context.scratch);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const SpecSampleParams<T>& p = calls[i];
    const bool cut = cuts_rows(p);
    all.call[i] = chain_setting(p, cut ? next : nullptr);
    if (cut) {
      cuts.push_back({.first = p.target_logits,
                      .second = p.draft_logits,
                      .rows = p.gamma + 1,
                      .more = p.gamma,
                      .vocab = p.vocab,
                      .temperature = p.temperature,
                      .truncation = p.truncation,
                      .cuts = next});
      next += 2 * p.gamma + 1;
    }
  }
  if (!cuts.empty()) {
    launch_row_cuts_of_calls(std::span<const RowCutsParams<T>>(cuts), context);
  }
  return all;
}

template <class T, bool kSigmoid, int kRounds>
void launch_chains(const ChainCalls<T>& all, std::span<const SpecSampleParams<T>> calls,
                   std::int32_t* drawn, const LaunchContext& context) {
  const LawCut& cut = all.call[0].cut;
  const int positions = positions_of(calls);
  const unsigned blocks = cluster_blocks(cut);
  Traffic traffic;
  for (const SpecSampleParams<T>& p : calls) {
    traffic += chain_traffic(ChainForm::kHeld, kSigmoid, p.gamma, p.vocab, sizeof(T));
  }
  const auto kernel = spec_chains_kernel<T, kSigmoid, kRounds>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const LaunchRange range("spec_chain", traffic, context.observer);
  const unsigned clusters = static_cast<unsigned>(calls.size()) * static_cast<unsigned>(positions);
  launch_dependent({.grid = dim3(blocks * clusters),
                    .threads = static_cast<unsigned>(cut.tile_chunks) * 32,
                    .cluster = blocks,
                    .stream = context.stream},
                   kernel, all, positions, drawn);
}

template <class T>
void launch_picks(const ChainCalls<T>& all, std::span<const SpecSampleParams<T>> calls,
                  const std::int32_t* drawn, const LaunchContext& context) {
  const int positions = positions_of(calls);
  const LaunchRange range(
      "spec_pick", traffic::spec_pick(static_cast<std::int64_t>(calls.size()), positions - 1),
      context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(calls.size())), .threads = 32, .stream = context.stream},
      spec_picks_kernel<T>, all, positions, drawn);
}

}  // namespace

template <class T>
std::size_t spec_together_scratch_bytes(std::span<const SpecSampleParams<T>> calls) {
  const std::size_t drawn = calls.size() * static_cast<std::size_t>(positions_of(calls));
  return cut_bytes(calls) + drawn * sizeof(std::int32_t);
}

template <class T>
void launch_spec_together(std::span<const SpecSampleParams<T>> calls,
                          const LaunchContext& context) {
  VERSIEVE_ASSERT(!calls.empty() && calls.size() <= kMostSampled, "a launch has so many calls");
  VERSIEVE_ASSERT(context.scratch_bytes >= spec_together_scratch_bytes(calls),
                  "scratch is reserved before");
  const bool sigmoid = calls[0].variant == SpecSampleVariant::kSigmoid;
  for (const SpecSampleParams<T>& p : calls) {
    VERSIEVE_ASSERT(goes_together(p) && p.variant == calls[0].variant &&
                        p.vocab == calls[0].vocab && p.gamma >= 0 && p.gamma < (1 << 16),
                    "calls of a launch are alike");
    VERSIEVE_ASSERT(!sigmoid || (p.temperature > 0.0 && p.alpha < p.beta),
                    "sigmoids need a temperature and alpha below beta");
  }
  const ChainCalls<T> all = settings_of(calls, context);
  VERSIEVE_ASSERT(all.call[0].cut.rounds <= 2, "a row lies in a cluster's registers");
  std::int32_t* const drawn =
      reinterpret_cast<std::int32_t*>(static_cast<char*>(context.scratch) + cut_bytes(calls));
  if (all.call[0].cut.rounds == 1) {
    sigmoid ? launch_chains<T, true, 1>(all, calls, drawn, context)
            : launch_chains<T, false, 1>(all, calls, drawn, context);
  } else {
    sigmoid ? launch_chains<T, true, 2>(all, calls, drawn, context)
            : launch_chains<T, false, 2>(all, calls, drawn, context);
  }
  launch_picks(all, calls, drawn, context);
}

template std::size_t spec_together_scratch_bytes<float>(std::span<const SpecSampleParams<float>>);
template std::size_t spec_together_scratch_bytes<Bf16>(std::span<const SpecSampleParams<Bf16>>);
template void launch_spec_together<float>(std::span<const SpecSampleParams<float>>,
                                          const LaunchContext&);
template void launch_spec_together<Bf16>(std::span<const SpecSampleParams<Bf16>>,
                                         const LaunchContext&);

}  // namespace versieve::kernels
