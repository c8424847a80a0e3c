// Which blocks a simulated layer attends: those of the sweep's reuse layers, number by number, or,
// where routing chose them on a device, block sets of the statistics that were measured there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/analyse/sim/attention_case.h"

namespace versieve::engine {

// Of what a measured layer attended (engine/run/speculate/block_statistics.h); what is not known
// stays empty.
struct KnownBlocks {
  std::optional<double> adjacent_overlap;
  std::optional<double> unique_blocks;
};

// [N, G, n]. A reuse layer inherits imposed blocks of `overlap` from the sweep's seed: the same
// that the measured layer got. A refresh layer's have the overlap and the count of distinct blocks
// of `known`, or `overlap` where nothing is known.
std::vector<std::int32_t> attended_blocks(const AttentionCase& a, std::optional<double> overlap,
                                          const KnownBlocks& known, std::uint64_t seed);

}  // namespace versieve::engine
