// Votes of a chain's positions, in memory that launches of one stream hand on: which have been
// tested and which accept, a word a sample. There are two sets of words; launches take turns by the
// parity of `launches`. The last sequence's position after all drafts closes a launch: once all
// have voted it clears the other set, which nobody uses any more, and counts the launch.
#pragma once

#include <cuda/atomic>

#include "kernels/common/launch_context.h"
#include "model/launches/spec_sample.h"

namespace versieve::kernels {

struct ChainVotes {
  std::uint64_t word[2][kVoteSamples];  // bit c: position c voted; bit 32 + c: it accepts
  std::uint32_t launches;
};
static_assert(sizeof(ChainVotes) <= kTicketBytes);
static_assert(kVoteSamples == 32, "a lane clears a sample's word");

using VoteWord = cuda::atomic_ref<std::uint64_t, cuda::thread_scope_device>;

__device__ inline unsigned vote_parity(ChainVotes& votes) {
  return *static_cast<volatile std::uint32_t*>(&votes.launches) & 1U;
}

__device__ inline void vote(ChainVotes& votes, unsigned parity, int sample, int position,
                            bool accepts) {
  const std::uint64_t bit = std::uint64_t{1} << position;
  VoteWord(votes.word[parity][sample])
      .fetch_or(bit | (accepts ? bit << 32 : 0), cuda::memory_order_relaxed);
}

// Waits until positions before `position` voted; returns whether all of them accept. Clusters start
// in order, so those waited for run.
__device__ inline bool all_accepted_before(ChainVotes& votes, unsigned parity, int sample,
                                           int position) {
  const std::uint64_t before = (std::uint64_t{1} << position) - 1;
  std::uint64_t word = 0;
  do {
    word = VoteWord(votes.word[parity][sample]).load(cuda::memory_order_relaxed);
  } while ((word & before) != before);
  return (word >> 32 & before) == before;
}

// By one warp of the position after all drafts of the last sequence. The same position of the
// others votes, too, so that everyone has read the parity.
__device__ inline void close_votes(ChainVotes& votes, unsigned parity, int samples, int batch,
                                   int gamma) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < samples * batch) {
    all_accepted_before(votes, parity, lane, lane < samples * (batch - 1) ? gamma + 1 : gamma);
  }
  votes.word[parity ^ 1U][lane] = 0;  // the launch before may have had more samples
  __syncwarp();
  if (lane == 0) {
    votes.launches = votes.launches + 1;
  }
}

}  // namespace versieve::kernels
