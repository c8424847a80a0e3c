#include "engine/analyse/sim/trace_tree_attention.h"

#include <algorithm>

#include "model/launches/tree_attention.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4, kInt = 4;
constexpr std::int64_t kChunk = 64;     // positions that a team takes at once
constexpr std::int64_t kTileWarps = 4;  // of a tile of query heads

// Teams that share a CTA's chunks, and its threads (kernels/common/warp_attention.cuh).
std::int64_t head_tiles(std::int64_t group_heads) {
  return (group_heads + kTreeTileHeads - 1) / kTreeTileHeads;
}
std::int64_t teams_of(std::int64_t group_heads) {
  return std::max<std::int64_t>(1, 4 / head_tiles(group_heads));
}

class TreeAttentionTrace final : public LaunchTrace {
 public:
  TreeAttentionTrace(const TreeAttentionLaunch& launch, const TreeAttentionCut& cut)
      : LaunchTrace({.path = "tree_attention",
                     .ctas = queries(launch) * launch.num_kv_heads * cut.parts,
                     .threads = head_tiles(group_heads(launch)) * kTileWarps * 32 *
                                teams_of(group_heads(launch)),
                     .registers = 64,
                     .shared_bytes = 16 * 1024,
                     .step_cycles = 600.0}),
        p_(launch),
        cut_(cut) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  static std::int64_t queries(const TreeAttentionLaunch& p) {
    return static_cast<std::int64_t>(p.query.size());
  }
  static std::int64_t group_heads(const TreeAttentionLaunch& p) {
    return p.num_heads / p.num_kv_heads;
  }
  std::int64_t row_bytes() const { return p_.head_dim * p_.element_bytes; }
  std::uint64_t row_at(std::uint64_t cache, std::int64_t row, std::int64_t g) const {
    return cache + static_cast<std::uint64_t>((row * p_.num_kv_heads + g) * row_bytes());
  }
  // Heads of a KV head that a part has, and the first of them.
  std::int64_t first_head(std::int64_t part) const {
    return cut_.parts > 1 ? part * cut_.heads : 0;
  }
  std::int64_t heads_of(std::int64_t part) const {
    return cut_.parts > 1 ? std::min(cut_.heads, group_heads(p_) - first_head(part))
                          : group_heads(p_);
  }
  void append_rows(std::uint64_t cache, std::int64_t first, std::int64_t count, std::int64_t g,
                   std::vector<Access>& out) const;
  void append_path(std::int32_t slot, std::int64_t g, std::int64_t from, std::int64_t to,
                   std::vector<Access>& out) const;
  void append_start(std::int64_t query, std::int64_t g, std::int64_t part,
                    std::vector<Access>& out) const;

  TreeAttentionLaunch p_;
  TreeAttentionCut cut_;
};

void TreeAttentionTrace::append_rows(std::uint64_t cache, std::int64_t first, std::int64_t count,
                                     std::int64_t g, std::vector<Access>& out) const {
  if (count > 0) {
    out.push_back({.address = row_at(cache, first, g),
                   .bytes = static_cast<std::uint32_t>(row_bytes()),
                   .count = static_cast<std::uint32_t>(count),
                   .stride = static_cast<std::uint64_t>(p_.num_kv_heads * row_bytes())});
  }
}

// Keys and values of the slot's ancestors at positions [from, to) behind the committed rows. Its
// own are at hand where the launch takes rows apart.
void TreeAttentionTrace::append_path(std::int32_t slot, std::int64_t g, std::int64_t from,
                                     std::int64_t to, std::vector<Access>& out) const {
  const std::int32_t own = slot;
  for (; slot >= 0; slot = p_.parent[static_cast<std::size_t>(slot)]) {
    const std::int64_t depth = p_.depth[static_cast<std::size_t>(slot)];
    if (depth >= from && depth < to && (p_.joint == 0 || slot != own)) {
      append_rows(p_.k_tree, slot, 1, g, out);
      append_rows(p_.v_tree, slot, 1, g, out);
    }
  }
}

// The lists of nodes; queries, or the node's joint row, whose key and value the first part keeps.
void TreeAttentionTrace::append_start(std::int64_t query, std::int64_t g, std::int64_t part,
                                      std::vector<Access>& out) const {
  const std::int64_t slots = static_cast<std::int64_t>(p_.parent.size());
  out.push_back({.address = p_.lists, .bytes = static_cast<std::uint32_t>(2 * slots * kInt)});
  const std::int64_t head = g * group_heads(p_) + first_head(part);
  const std::uint32_t bytes = static_cast<std::uint32_t>(heads_of(part) * row_bytes());
  if (p_.joint == 0) {
    const std::int64_t at = (query * p_.num_heads + head) * row_bytes();
    out.push_back({.address = p_.q + static_cast<std::uint64_t>(at), .bytes = bytes});
    return;
  }
  const std::int64_t width = p_.num_heads + 2 * p_.num_kv_heads;
  const auto joint_row = [&](std::int64_t first) {
    return p_.joint + static_cast<std::uint64_t>((query * width + first) * row_bytes());
  };
  out.push_back({.address = p_.table + static_cast<std::uint64_t>(query * p_.head_dim * kFloat),
                 .bytes = static_cast<std::uint32_t>(p_.head_dim * kFloat)});
  out.push_back({.address = joint_row(head), .bytes = bytes});
  const std::int32_t slot = p_.query[static_cast<std::size_t>(query)];
  for (const bool value : {false, true}) {
    const std::int64_t from = p_.num_heads + (value ? p_.num_kv_heads : 0) + g;
    out.push_back({.address = joint_row(from), .bytes = static_cast<std::uint32_t>(row_bytes())});
    if (part == 0) {
      out.push_back({.address = row_at(value ? p_.v_tree : p_.k_tree, slot, g),
                     .bytes = static_cast<std::uint32_t>(row_bytes()),
                     .kind = AccessKind::kWrite});
    }
  }
}

bool TreeAttentionTrace::append_step(std::int64_t cta, std::int64_t step,
                                     std::vector<Access>& out) const {
  const std::int64_t query = cta % queries(p_);
  const std::int64_t g = cta / queries(p_) % p_.num_kv_heads;
  const std::int64_t part = cta / queries(p_) / p_.num_kv_heads;
  const std::int32_t slot = p_.query[static_cast<std::size_t>(query)];
  const std::int64_t last = p_.context_len + p_.depth[static_cast<std::size_t>(slot)];
  const std::int64_t oldest =
      std::max(p_.first_position, p_.window > 0 ? last - p_.window + 1 : std::int64_t{0});
  const std::int64_t stride =
      kChunk * (cut_.heads < kTreeTileHeads ? 4 : teams_of(group_heads(p_)));
  const std::int64_t begin = oldest / kChunk * kChunk + (step - 1) * stride;
  if (step == 0) {
    append_start(query, g, part, out);
    return true;
  }
  if (begin <= last) {
    const std::int64_t from = std::max(begin, oldest);
    const std::int64_t to = std::min(begin + stride, last + 1);
    const std::int64_t committed = std::min(to, p_.context_len) - from;
    append_rows(p_.k, from, committed, g, out);
    append_rows(p_.v, from, committed, g, out);
    append_path(slot, g, from - p_.context_len, to - p_.context_len, out);
    return true;
  }
  if (begin - stride > last) {
    return false;
  }
  const std::int64_t head = g * group_heads(p_) + first_head(part);
  const std::int64_t at = (query * p_.num_heads + head) * row_bytes();
  out.push_back({.address = p_.out + static_cast<std::uint64_t>(at),
                 .bytes = static_cast<std::uint32_t>(heads_of(part) * row_bytes()),
                 .kind = AccessKind::kWrite});
  return true;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_tree_attention(const TreeAttentionLaunch& launch) {
  VERSIEVE_ASSERT(!launch.query.empty() && launch.parent.size() == launch.depth.size(),
                  "slots ask, each with its place");
  const std::int64_t pairs = static_cast<std::int64_t>(launch.query.size()) * launch.num_kv_heads;
  return std::make_unique<TreeAttentionTrace>(
      launch, tree_attention_cut(launch.num_heads / launch.num_kv_heads, pairs));
}

}  // namespace versieve::engine
