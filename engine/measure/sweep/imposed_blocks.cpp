#include "engine/measure/sweep/imposed_blocks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Sets that a fresh block must be new to: those of a group of eight.
constexpr std::size_t kMemory = 7;

using Blocks = std::set<std::int32_t>;

Blocks forced_blocks(const NsaGeometry& nsa, std::int32_t own) {
  Blocks forced;
  for (std::int64_t i = 0; i < nsa.init_blocks && i <= own; ++i) {
    forced.insert(static_cast<std::int32_t>(i));
  }
  for (std::int64_t i = 0; i < nsa.local_blocks && i <= own; ++i) {
    forced.insert(own - static_cast<std::int32_t>(i));
  }
  return forced;
}

// One KV head's chain.
class Chain {
 public:
  Chain(const NsaGeometry& nsa, double overlap, SyntheticRandom& random, std::int64_t pool)
      : nsa_(nsa), overlap_(overlap), random_(random), pool_(pool) {}

  const Blocks& next(std::int32_t own) {
    const std::size_t wanted = static_cast<std::size_t>(
        std::min<std::int64_t>(nsa_.sel_count, static_cast<std::int64_t>(own) + 1));
    Blocks blocks = forced_blocks(nsa_, own);
    VERSIEVE_ASSERT(blocks.size() <= wanted, "forced blocks are counted within n");
    keep_shared(own, wanted, blocks);
    if (pool_ > 0) {
      fill(own, wanted, true, true, blocks);
      fill(own, wanted, false, true, blocks);
    }
    fill(own, wanted, true, false, blocks);
    fill(own, wanted, false, false, blocks);
    past_.insert(past_.begin(), std::move(blocks));
    past_.resize(std::min(past_.size(), kMemory));
    return past_.front();
  }

 private:
  // Takes over as many of the predecessor's blocks as make n rho shared ones, forced ones counted.
  void keep_shared(std::int32_t own, std::size_t wanted, Blocks& blocks) {
    if (past_.empty()) {
      return;
    }
    std::vector<std::int32_t> candidates;
    double shared = 0.0;
    for (const std::int32_t block : past_.front()) {
      if (blocks.count(block) != 0) {
        shared += 1.0;
      } else if (block <= own) {
        candidates.push_back(block);
      }
    }
    const double target = overlap_ * static_cast<double>(wanted);
    std::int64_t keep = static_cast<std::int64_t>(std::floor(std::max(0.0, target - shared)));
    const double part = std::max(0.0, target - shared) - static_cast<double>(keep);
    keep += random_.uniform() < part ? 1 : 0;
    while (keep-- > 0 && !candidates.empty() && blocks.size() < wanted) {
      const std::size_t pick =
          static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(candidates.size())));
      blocks.insert(candidates[pick]);
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }

  // Fills up from blocks that no remembered set holds, or from any; of the pool, or of all.
  void fill(std::int32_t own, std::size_t wanted, bool only_fresh, bool only_pool, Blocks& blocks) {
    std::vector<char> taken(static_cast<std::size_t>(own) + 1, 0);
    const auto take = [&](const Blocks& set) {
      for (const std::int32_t block : set) {
        if (block <= own) {
          taken[static_cast<std::size_t>(block)] = 1;
        }
      }
    };
    take(blocks);
    if (only_fresh) {
      std::for_each(past_.begin(), past_.end(), take);
    }
    std::vector<std::int32_t> candidates;
    for (std::int32_t block = 0; block <= own; ++block) {
      if (taken[static_cast<std::size_t>(block)] == 0 && (!only_pool || in_pool(block, own))) {
        candidates.push_back(block);
      }
    }
    while (blocks.size() < wanted && !candidates.empty()) {
      const std::size_t pick =
          static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(candidates.size())));
      blocks.insert(candidates[pick]);
      candidates[pick] = candidates.back();
      candidates.pop_back();
    }
  }

  // `pool_` of the blocks 0 ... own, evenly.
  bool in_pool(std::int64_t block, std::int64_t own) const {
    return block * pool_ / (own + 1) != (block + 1) * pool_ / (own + 1);
  }

  const NsaGeometry& nsa_;
  double overlap_;
  SyntheticRandom& random_;
  std::int64_t pool_;
  std::vector<Blocks> past_;  // newest first
};

}  // namespace

std::vector<std::int32_t> imposed_blocks(const NsaGeometry& nsa, std::int64_t num_kv_heads,
                                         const std::vector<std::int32_t>& own_block, double overlap,
                                         SyntheticRandom& random, std::int64_t pool) {
  VERSIEVE_ASSERT(overlap >= 0.0 && overlap <= 1.0, "an overlap is a share");
  const std::int64_t queries = static_cast<std::int64_t>(own_block.size());
  std::vector<std::int32_t> indices(
      static_cast<std::size_t>(queries * num_kv_heads * nsa.sel_count), -1);
  for (std::int64_t g = 0; g < num_kv_heads; ++g) {
    Chain chain(nsa, overlap, random, pool);
    for (std::int64_t i = 0; i < queries; ++i) {
      const Blocks& blocks = chain.next(own_block[static_cast<std::size_t>(i)]);
      std::copy(blocks.begin(), blocks.end(),
                indices.begin() + (i * num_kv_heads + g) * nsa.sel_count);
    }
  }
  return indices;
}

void share_in_groups(const std::vector<std::int32_t>& position, std::int64_t group_size,
                     std::vector<std::int32_t>& indices) {
  const std::int64_t queries = static_cast<std::int64_t>(position.size());
  VERSIEVE_ASSERT(group_size >= 1 && queries > 0, "a group has queries");
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(indices.size()) / queries;
  for (std::int64_t first = 0; first < queries; first += group_size) {
    const std::int64_t end = std::min(queries, first + group_size);
    const auto last = position.begin() + end;
    const std::ptrdiff_t leader =
        std::max_element(position.begin() + first, last) - position.begin();
    const std::vector<std::int32_t> blocks(indices.begin() + leader * row,
                                           indices.begin() + (leader + 1) * row);
    for (std::int64_t i = first; i < end; ++i) {
      std::copy(blocks.begin(), blocks.end(), indices.begin() + i * row);
    }
  }
}

}  // namespace versieve::engine
