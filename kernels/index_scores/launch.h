// index_scores on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/index_scores/params.h"

namespace versieve::kernels {

// Whether tensor cores compute it: bf16, 8 to 64 heads by eights, of 64 or 128, rows on multiples
// of 16 bytes. Others take a warp a position.
bool index_scores_streams(const IndexScoresParams<Bf16>& p);

// T = float or Bf16. Enqueues, never waits, needs no scratch.
template <class T>
void launch_index_scores(const IndexScoresParams<T>& p, const LaunchContext& context);
// Those of several sequences, of which none reads what another writes: one launch for up to 64 of
// one form and one number of heads. Each has the bits that it has alone.
template <class T>
void launch_index_scores_together(std::span<const IndexScoresParams<T>> calls,
                                  const LaunchContext& context);

}  // namespace versieve::kernels
#endif
