#include "engine/sim/attended_blocks.h"

#include <algorithm>
#include <cmath>

#include "engine/speculate/block_statistics.h"
#include "engine/sweep/imposed_blocks.h"

namespace versieve::engine {
namespace {

constexpr std::uint64_t kImposedStream = 3;  // of the sweep's seed, as synthetic layers draw

class BlockChooser {
 public:
  BlockChooser(const AttentionCase& a, std::uint64_t seed) : a_(a), seed_(seed) {
    for (const std::int32_t t : a.position) {
      own_.push_back(t / static_cast<std::int32_t>(a.shape.nsa.sel_block));
    }
  }

  bool shares() const { return a_.group_mode == GroupMode::kApprox && a_.group_size > 1; }

  std::vector<std::int32_t> choose(double overlap, std::int64_t pool) const {
    SyntheticRandom random(seed_ + kImposedStream);
    std::vector<std::int32_t> blocks =
        imposed_blocks(a_.shape.nsa, a_.shape.num_kv_heads, own_, overlap, random, pool);
    if (shares()) {
      share_in_groups(a_.position, a_.group_size, blocks);
    }
    return blocks;
  }

  BlockStatistics statistics(const std::vector<std::int32_t>& blocks) const {
    return block_statistics(blocks, a_.num_queries(), a_.shape.num_kv_heads,
                            a_.shape.nsa.sel_count);
  }

  // The overlap to impose on queries so that what rows attend has that overlap on the mean: rows of
  // an approximate group agree, and representatives are C steps of the chain apart.
  double imposed_for(double measured) const {
    if (!shares()) {
      return measured;
    }
    const double c = static_cast<double>(a_.group_size);
    const double between = std::clamp(c * measured - (c - 1.0), 0.0, 1.0);
    return 1.0 - (1.0 - between) / c;
  }

  // The pool that leaves `unique` distinct blocks: more blocks come of a larger pool.
  std::int64_t pool_for(double overlap, double unique) const {
    std::int64_t low = 1;
    std::int64_t high = *std::max_element(own_.begin(), own_.end()) + 1;
    if (statistics(choose(overlap, 0)).unique_blocks <= unique) {
      return 0;
    }
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (statistics(choose(overlap, middle)).unique_blocks < unique) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  const AttentionCase& a_;
  std::uint64_t seed_;
  std::vector<std::int32_t> own_;
};

}  // namespace

std::vector<std::int32_t> attended_blocks(const AttentionCase& a, std::optional<double> overlap,
                                          const KnownBlocks& known, std::uint64_t seed) {
  const BlockChooser chooser(a, seed);
  const double declared = overlap.value_or(1.0);
  if (a.reuse || !known.adjacent_overlap) {
    return chooser.choose(declared, 0);
  }
  const double imposed = chooser.imposed_for(*known.adjacent_overlap);
  return chooser.choose(imposed,
                        known.unique_blocks ? chooser.pool_for(imposed, *known.unique_blocks) : 0);
}

}  // namespace versieve::engine
