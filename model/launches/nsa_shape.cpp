#include "model/launches/nsa_shape.h"

#include <algorithm>
#include <cmath>

#include "model/launches/distinct_blocks.h"
#include "model/launches/launch_parts.h"

namespace versieve {
namespace {

// Of a query's distance: how fast the overlap of routed selections decays. Fits 53 approximate
// groups of C = 8 on an H200.
constexpr double kDecayPower = 0.42;
// Representatives (greatest position, lowest row) lie in places closer than C rows.
constexpr double kMeanDistance = 0.75;

// Of two queries side by side in a group.
double neighbours_overlap(const StepShape& s) {
  return s.group_size > 1 && s.group_overlap > 0.0 ? s.group_overlap : s.overlap;
}

// Distinct blocks of `queries` neighbours in blocks of one, between the measured sizes by
// logarithms; 0 where a size it lies between was not measured.
double measured_share(const StepShape& s, double queries) {
  double size = 1.0;
  double share = 1.0;
  for (std::size_t i = 0; i < kSharingGroups.size() && queries > size; ++i) {
    const double next_size = number(kSharingGroups[i]);
    const double next = s.group_share[i];
    if (next <= 0.0) {
      return 0.0;
    }
    if (queries <= next_size) {
      const double part = std::log(queries / size) / std::log(next_size / size);
      return share * std::pow(next / share, part);
    }
    size = next_size;
    share = next;
  }
  return queries > size ? 0.0 : share;
}

// Overlap of the selections of two representatives, C queries apart. What every query selects and
// what two meet by chance is shared at any distance; of the rest, a chain of sets loses the same
// share at each step, routed queries less and less.
double representatives_overlap(const StepShape& s, double chosen, double blocks) {
  const double c = number(s.group_size);
  const double forced =
      std::min(chosen, number(s.target.nsa.init_blocks + s.target.nsa.local_blocks));
  const double chance =
      s.imposed_chain || blocks <= forced ? 0.0 : (chosen - forced) / (blocks - forced);
  const double always = (forced + (chosen - forced) * std::min(1.0, chance)) / chosen;
  if (always >= 1.0) {
    return 1.0;
  }
  const double own = std::clamp((neighbours_overlap(s) - always) / (1.0 - always), 0.0, 1.0);
  const double left = s.imposed_chain ? std::pow(own, kMeanDistance * c)
                                      : std::max(0.0, 1.0 - (1.0 - own) * std::pow(c, kDecayPower));
  return always + (1.0 - always) * left;
}

}  // namespace

namespace traffic {

double NsaVerifyShape::block_count() const {
  return static_cast<double>(context_len / nsa.sel_block + 1);
}

double NsaVerifyShape::group_count() const {
  return std::ceil(static_cast<double>(num_queries) / static_cast<double>(group_size));
}

double NsaVerifyShape::chosen_blocks() const {
  const double blocks = block_count();
  return std::min(static_cast<double>(nsa.sel_count), blocks);
}

double NsaVerifyShape::blocks_of_group() const {
  if (group_mode == GroupMode::kApprox || group_size == 1) {
    return chosen_blocks();
  }
  const double blocks = block_count();
  const double queries = static_cast<double>(std::min(group_size, num_queries));
  const double most = std::min(queries * chosen_blocks(), blocks);
  return group_blocks > 0.0 ? std::min(group_blocks, most) : most;
}

std::int64_t NsaVerifyShape::row_tile_queries() const {
  const double heads =
      std::exp2(std::ceil(std::log2(static_cast<double>(num_heads / num_kv_heads))));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMmaRows / heads));
}

double NsaVerifyShape::kv_bytes() const {
  return static_cast<double>(2 * num_kv_heads * head_dim * element_bytes);
}

double NsaVerifyShape::query_bytes() const {
  return static_cast<double>(num_queries * num_heads * head_dim * element_bytes);
}

double NsaVerifyShape::branch_bytes() const {
  return static_cast<double>(num_queries * num_heads * head_dim) * 4.0;
}

double NsaVerifyShape::index_bytes() const {
  return static_cast<double>(num_queries * num_kv_heads * nsa.sel_count) * 4.0;
}

double NsaVerifyShape::attention_flops(double keys) const {
  return 4.0 * static_cast<double>(num_queries * num_heads * head_dim) * keys;
}

}  // namespace traffic

traffic::NsaVerifyShape attention_shape(const StepShape& s, double growth) {
  const LlmShape& t = s.target;
  const double blocks = std::floor(number(s.context_len) / number(t.nsa.sel_block)) + 1.0;
  const double chosen = std::min(number(t.nsa.sel_count), blocks);
  const auto neighbours = [&](double queries) {
    return s.imposed_chain ? remembering_chain_blocks(queries - 1.0, chosen, blocks, s.overlap)
                           : distinct_blocks(queries, chosen, blocks, s.overlap, growth);
  };
  const auto of_group = [&](double queries) {
    const double share = s.group_size > 1 ? measured_share(s, queries) : 0.0;
    if (share > 0.0) {
      return std::clamp(share * chosen, chosen, std::min(queries * chosen, blocks));
    }
    return s.imposed_chain
               ? remembering_chain_blocks(queries - 1.0, chosen, blocks, neighbours_overlap(s))
               : distinct_blocks(queries, chosen, blocks, neighbours_overlap(s), growth);
  };
  const auto distinct = [&] {
    if (s.group_mode != GroupMode::kApprox || s.group_size <= 1) {
      return neighbours(number(s.num_queries));
    }
    const double groups = std::ceil(number(s.num_queries) / number(s.group_size));
    const double shared = representatives_overlap(s, chosen, blocks);
    return s.imposed_chain ? chain_blocks(groups - 1.0, chosen, blocks, shared)
                           : distinct_blocks(groups, chosen, blocks, shared, growth);
  };
  const double unique = s.unique_blocks > 0.0 ? s.unique_blocks : distinct();
  const std::int64_t sharers = std::min(s.group_size, s.num_queries);
  traffic::NsaVerifyShape out = {.nsa = t.nsa,
                                 .num_heads = t.num_heads,
                                 .num_kv_heads = t.num_kv_heads,
                                 .head_dim = t.head_dim,
                                 .context_len = s.context_len,
                                 .num_queries = s.num_queries,
                                 .element_bytes = s.element_bytes,
                                 .unique_blocks = unique,
                                 .group_size = s.group_size,
                                 .group_mode = s.group_mode,
                                 .group_blocks = of_group(number(sharers)),
                                 .overlap = neighbours_overlap(s),
                                 .requests = s.ragged ? s.requests : 1};
  out.row_tile_blocks = of_group(number(std::min(sharers, out.row_tile_queries())));
  return out;
}

// The newest selected block lacks tokens; of the window some lie in selected blocks: the forced
// ones, of the others as many as of all blocks.
SparedTokens spared_tokens(const traffic::NsaVerifyShape& s) {
  const double block = number(s.nsa.sel_block);
  const double length = number(s.context_len);
  const double blocks = std::floor(length / block) + 1.0;
  const double newest = length - (blocks - 1.0) * block;
  const double unique = std::min(
      s.unique_blocks > 0.0 ? s.unique_blocks : number(s.num_queries) * s.chosen_blocks(), blocks);
  const double window = std::min(number(s.nsa.window), length);
  const double forced = number(s.nsa.init_blocks + s.nsa.local_blocks);
  const double forced_tokens = std::min(window, newest + block * number(s.nsa.local_blocks - 1));
  const double share =
      blocks > forced ? std::clamp((unique - forced) / (blocks - forced), 0.0, 1.0) : 1.0;
  return {.selected = std::max(0.0, std::min(unique * block, length) -
                                        std::min(unique * block - (block - newest), length)),
          .window = forced_tokens + (window - forced_tokens) * share};
}

}  // namespace versieve
