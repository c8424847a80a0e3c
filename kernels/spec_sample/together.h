// Chains of several requests, each with its own length, temperature and cuts, in two launches on
// CUDA: every position of every chain as if it were its chain's first rejection (the held form of
// fused.cuh, whose bits these are), then the pick of that.
#pragma once

#include <span>

#include "kernels/samplers_together.h"
#include "model/launches/spec_sample.h"
#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/launch.h"
#endif

namespace versieve::kernels {

inline constexpr std::size_t kMostSampled = 128;  // calls of a launch

// Whether a launch takes that call beside others of its variant.
template <class T>
bool goes_together(const SpecSampleParams<T>& p) {
  return p.variant != SpecSampleVariant::kBaseline && p.samples == 1 && p.batch == 1 &&
         chain_in_one_launch(p.vocab);
}

#ifdef VERSIEVE_HAS_CUDA
// T = float or Bf16. REQUIRES: goes_together of each, one variant and vocabulary, at most
// kMostSampled. Enqueues, never waits.
template <class T>
std::size_t spec_together_scratch_bytes(std::span<const SpecSampleParams<T>> calls);
template <class T>
void launch_spec_together(std::span<const SpecSampleParams<T>> calls, const LaunchContext& context);

// launch_row_cuts of several calls in one launch. REQUIRES: as that; one vocabulary.
template <class T>
void launch_row_cuts_of_calls(std::span<const RowCutsParams<T>> calls,
                              const LaunchContext& context);
#endif

}  // namespace versieve::kernels
