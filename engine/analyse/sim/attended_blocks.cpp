#include "engine/analyse/sim/attended_blocks.h"

#include <algorithm>
#include <cmath>

#include "engine/measure/sweep/imposed_blocks.h"
#include "engine/run/speculate/block_statistics.h"

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

  // What routing in approximate groups leaves: representatives' blocks, each for its whole group.
  // `overlap` is of neighbouring representatives.
  std::vector<std::int32_t> choose_for_groups(double overlap, std::int64_t pool) const {
    std::vector<std::int32_t> own;
    for (std::int64_t first = 0; first < a_.num_queries(); first += a_.group_size) {
      const std::int64_t end = std::min(a_.num_queries(), first + a_.group_size);
      own.push_back(*std::max_element(own_.begin() + first, own_.begin() + end));
    }
    SyntheticRandom random(seed_ + kImposedStream);
    const std::vector<std::int32_t> chosen =
        imposed_blocks(a_.shape.nsa, a_.shape.num_kv_heads, own, overlap, random, pool);
    const std::ptrdiff_t row = a_.shape.num_kv_heads * a_.shape.nsa.sel_count;
    std::vector<std::int32_t> blocks;
    for (std::int64_t node = 0; node < a_.num_queries(); ++node) {
      const auto from = chosen.begin() + node / a_.group_size * row;
      blocks.insert(blocks.end(), from, from + row);
    }
    return blocks;
  }

  // As routing left them: overlap of neighbouring rows, rows of a group counted.
  std::vector<std::int32_t> routed(double measured, std::int64_t pool) const {
    if (!shares()) {
      return choose(measured, pool);
    }
    const std::int64_t groups = (a_.num_queries() + a_.group_size - 1) / a_.group_size;
    const double pairs = static_cast<double>(a_.num_queries() - 1);
    const double apart =
        groups > 1 ? (1.0 - measured) * pairs / static_cast<double>(groups - 1) : 0.0;
    return choose_for_groups(std::clamp(1.0 - apart, 0.0, 1.0), pool);
  }

  // The pool that leaves `unique` distinct blocks: more blocks come of a larger pool.
  std::int64_t pool_for(double overlap, double unique) const {
    std::int64_t low = 1;
    std::int64_t high = *std::max_element(own_.begin(), own_.end()) + 1;
    if (statistics(routed(overlap, 0)).unique_blocks <= unique) {
      return 0;
    }
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (statistics(routed(overlap, middle)).unique_blocks < unique) {
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
  const double measured = *known.adjacent_overlap;
  return chooser.routed(measured,
                        known.unique_blocks ? chooser.pool_for(measured, *known.unique_blocks) : 0);
}

}  // namespace versieve::engine
