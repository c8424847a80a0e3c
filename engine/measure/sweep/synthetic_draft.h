// The attention of a draft that nobody ran: what SpecAttn's decode points choose tokens by,
// measured or simulated.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::engine {

inline constexpr std::int64_t kTokensTogether =
    16;  // that SpecAttn reads, and a cluster of weights

// Weights of `steps` draft steps over the context, [steps, L]; of the sweep's seed. They come in
// clusters and fall off as a log-normal's do: a share p of the mass lies in a share
// Phi(Phi^-1(p) - sigma) of the clusters, 24 % at p = 0.9, 2 % at p = 0.5. Steps agree but for a
// tenth of the variance.
std::vector<float> synthetic_draft_weights(std::uint64_t seed, std::int64_t steps,
                                           std::int64_t context_len);

}  // namespace versieve::engine
