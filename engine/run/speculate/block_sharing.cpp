#include "engine/run/speculate/block_sharing.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <span>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWordBits = 64;

// The selections of one layer as sets of bits, a row a query and KV head.
class Selections {
 public:
  Selections(const std::vector<std::int32_t>& indices, std::int64_t num_queries,
             std::int64_t num_kv_heads, std::int64_t sel_count)
      : queries_(num_queries), heads_(num_kv_heads) {
    VERSIEVE_ASSERT(
        static_cast<std::int64_t>(indices.size()) == num_queries * num_kv_heads * sel_count,
        "one row of blocks a query and KV head");
    const std::int32_t last = *std::max_element(indices.begin(), indices.end());
    words_ = last / kWordBits + 1;
    bits_.resize(static_cast<std::size_t>(num_queries * num_kv_heads * words_));
    sizes_.resize(static_cast<std::size_t>(num_queries * num_kv_heads));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] >= 0) {
        const std::int64_t row = static_cast<std::int64_t>(i) / sel_count;
        bits_[static_cast<std::size_t>(row * words_ + indices[i] / kWordBits)] |=
            std::uint64_t{1} << (indices[i] % kWordBits);
        sizes_[static_cast<std::size_t>(row)] += 1;
      }
    }
  }

  std::int64_t queries() const { return queries_; }
  std::int64_t heads() const { return heads_; }
  std::int64_t words() const { return words_; }
  std::span<const std::uint64_t> row(std::int64_t query, std::int64_t head) const {
    return {bits_.data() + (query * heads_ + head) * words_, static_cast<std::size_t>(words_)};
  }
  std::int64_t size(std::int64_t query, std::int64_t head) const {
    return sizes_[static_cast<std::size_t>(query * heads_ + head)];
  }

 private:
  std::int64_t queries_, heads_, words_ = 1;
  std::vector<std::uint64_t> bits_;  // [N, G, words]
  std::vector<std::int64_t> sizes_;  // [N, G]
};

// Mean over KV heads of |A and B| / max(|A|, |B|).
double overlap(const Selections& a, std::int64_t p, const Selections& b, std::int64_t q) {
  double sum = 0.0;
  for (std::int64_t head = 0; head < a.heads(); ++head) {
    const std::span<const std::uint64_t> one = a.row(p, head);
    const std::span<const std::uint64_t> other = b.row(q, head);
    std::int64_t shared = 0;
    for (std::size_t w = 0; w < std::min(one.size(), other.size()); ++w) {
      shared += std::popcount(one[w] & other[w]);
    }
    sum += static_cast<double>(shared) /
           static_cast<double>(std::max({a.size(p, head), b.size(q, head), std::int64_t{1}}));
  }
  return sum / static_cast<double>(a.heads());
}

// Mean over pairs of rows `distance` places apart; none: the tree has no such pair.
std::optional<double> overlap_in_order(const Selections& rows,
                                       const std::vector<std::int32_t>& order,
                                       std::size_t distance) {
  if (order.size() <= distance) {
    return {};
  }
  double sum = 0.0;
  for (std::size_t i = 0; i + distance < order.size(); ++i) {
    sum += overlap(rows, order[i], rows, order[i + distance]);
  }
  return sum / static_cast<double>(order.size() - distance);
}

// Loads of all groups of `size` rows, and of all rows apart; summed over KV heads.
struct Loads {
  double grouped = 0.0;
  double apart = 0.0;
  double groups = 0.0;  // times KV heads
};

Loads loads_of(const Selections& rows, const std::vector<std::int32_t>& order, std::size_t size) {
  Loads loads;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(rows.words()));
  for (std::size_t first = 0; first < order.size(); first += size) {
    for (std::int64_t head = 0; head < rows.heads(); ++head) {
      std::fill(all.begin(), all.end(), 0);
      for (std::size_t i = first; i < std::min(order.size(), first + size); ++i) {
        const std::span<const std::uint64_t> row = rows.row(order[i], head);
        std::transform(all.begin(), all.end(), row.begin(), all.begin(), std::bit_or<>());
        loads.apart += static_cast<double>(rows.size(order[i], head));
      }
      for (const std::uint64_t word : all) {
        loads.grouped += static_cast<double>(std::popcount(word));
      }
      loads.groups += 1.0;
    }
  }
  return loads;
}

// [d]: sum and number of pairs of nodes whose depths differ by d.
struct Pairs {
  std::array<double, kSharingDistances> sum{}, count{};
};

Pairs pairs_by_position(const Selections& rows, const std::vector<std::int32_t>& depth) {
  Pairs pairs;
  for (std::int64_t p = 0; p < rows.queries(); ++p) {
    for (std::int64_t q = p + 1; q < rows.queries(); ++q) {
      const std::size_t apart = static_cast<std::size_t>(
          std::abs(depth[static_cast<std::size_t>(p)] - depth[static_cast<std::size_t>(q)]));
      if (apart < kSharingDistances) {
        pairs.sum[apart] += overlap(rows, p, rows, q);
        pairs.count[apart] += 1.0;
      }
    }
  }
  return pairs;
}

double overlap_of_layers(const Selections& here, const Selections& next) {
  double sum = 0.0;
  for (std::int64_t query = 0; query < here.queries(); ++query) {
    sum += overlap(here, query, next, query);
  }
  return sum / static_cast<double>(here.queries());
}

std::vector<SharingAlong> orders_of(const SharingStep& step) {
  if (step.order == Traversal::kDfs) {
    return {SharingAlong::kDfs};
  }
  return step.own_choices ? std::vector{SharingAlong::kBfs, SharingAlong::kDfs}
                          : std::vector{SharingAlong::kBfs};
}

}  // namespace

void SharingSum::Mean::add(double value) {
  sum += value;
  count += 1.0;
}

std::optional<double> SharingSum::Mean::value() const {
  return count > 0.0 ? std::optional(sum / count) : std::nullopt;
}

void SharingSum::add(const SharingStep& step) {
  const std::int64_t queries = step.tree->size();
  if (queries < 2) {
    return;
  }
  std::vector<Selections> layers;
  for (const std::vector<std::int32_t>& indices : *step.selected) {
    layers.emplace_back(indices, queries, step.num_kv_heads, step.sel_count);
  }
  for (const SharingAlong along : orders_of(step)) {
    const Traversal order = along == SharingAlong::kDfs ? Traversal::kDfs : Traversal::kBfs;
    std::vector<std::int32_t> nodes(static_cast<std::size_t>(queries));
    std::iota(nodes.begin(), nodes.end(), 0);
    if (order != step.order) {
      nodes = traversal_order(*step.tree, order);
    }
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      Sums& sums = sums_[{along, static_cast<std::int64_t>(layer)}];
      sums.steps += 1;
      for (std::size_t d = 1; d < kSharingDistances; ++d) {
        if (const auto shared = overlap_in_order(layers[layer], nodes, d)) {
          sums.overlap[d].add(*shared);
        }
      }
      for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
        if (queries >= kSharingGroups[g]) {
          const Loads loads =
              loads_of(layers[layer], nodes, static_cast<std::size_t>(kSharingGroups[g]));
          sums.group_blocks[g].add(loads.grouped / loads.groups);
          sums.loads_saved[g].add(1.0 - loads.grouped / std::max(1.0, loads.apart));
        }
      }
    }
  }
  for (std::size_t layer = 0; step.own_choices && layer < layers.size(); ++layer) {
    Sums& sums = sums_[{SharingAlong::kPosition, static_cast<std::int64_t>(layer)}];
    sums.steps += 1;
    const Pairs pairs = pairs_by_position(layers[layer], step.tree->depth);
    for (std::size_t d = 0; d < kSharingDistances; ++d) {
      if (pairs.count[d] > 0.0) {
        sums.overlap[d].add(pairs.sum[d] / pairs.count[d]);
      }
    }
    if (layer + 1 < layers.size()) {
      sums.next_layer.add(overlap_of_layers(layers[layer], layers[layer + 1]));
    }
  }
}

std::vector<BlockSharing> SharingSum::mean() const {
  std::vector<BlockSharing> out;
  for (const auto& [key, sums] : sums_) {
    BlockSharing& row = out.emplace_back();
    row.along = key.first;
    row.layer = key.second;
    row.steps = sums.steps;
    row.next_layer = sums.next_layer.value();
    for (std::size_t d = 0; d < kSharingDistances; ++d) {
      row.overlap[d] = sums.overlap[d].value();
    }
    for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
      row.group_blocks[g] = sums.group_blocks[g].value();
      row.loads_saved[g] = sums.loads_saved[g].value();
    }
  }
  return out;
}

}  // namespace versieve::engine
