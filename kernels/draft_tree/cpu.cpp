#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "model/words/assert.h"
#include "model/words/draft_tree.h"

namespace versieve::kernels {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

struct Candidate {
  std::int32_t parent = -1;  // index of the old pool, or -1
  std::int32_t depth = 1;
  std::int32_t token = 0;
  float score = 0.0F;
  std::int32_t slot = 0;  // of the parent; of a new child only
};

// A log-probability rounded above zero must not lift a child over its parent; NaN ranks last.
float child_score(const GrowTreeParams& p, float parent_score, std::int64_t i) {
  const float by_rank = -static_cast<float>(i % p.branch + 1) * std::log(2.0F);
  const float own = p.scores_by_rank ? by_rank : p.log_probability[i];
  const float score = parent_score + std::min(own, 0.0F);
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

std::vector<Candidate> old_candidates(const TreePool& pool) {
  std::vector<Candidate> out;
  for (std::int32_t i = 0; i < pool.count; ++i) {
    out.push_back({pool.parent[i], pool.depth[i], pool.token[i], pool.log_probability[i]});
  }
  return out;
}

void append_children(const GrowTreeParams& p, std::vector<Candidate>& pool) {
  const TreePool& old = p.state->pool;
  const std::int64_t expanded = p.level == 0 ? 1 : old.frontier_count;
  for (std::int64_t i = 0; i < expanded * p.branch; ++i) {
    const std::int64_t place = i / p.branch;
    Candidate child;
    child.parent = p.level == 0 ? -1 : old.frontier[place];
    child.depth = static_cast<std::int32_t>(p.level + 1);
    child.token = p.target_token == nullptr ? p.index[i] : p.target_token[p.index[i]];
    child.score = child_score(p, child.parent < 0 ? 0.0F : pool[at(child.parent)].score, i);
    child.slot =
        static_cast<std::int32_t>(p.level == 0 ? 0 : 1 + (p.level - 1) * p.choice.width + place);
    pool.push_back(child);
  }
}

// Pool indices, best first: higher score, then the earlier candidate.
std::vector<std::int32_t> ranking(const std::vector<Candidate>& pool) {
  std::vector<std::int32_t> order(pool.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return pool[at(a)].score > pool[at(b)].score;
  });
  return order;
}

// The next level's slots: the given children of this level, then padding.
void write_frontier(const GrowTreeParams& p, const std::vector<Candidate>& pool,
                    const std::vector<std::int32_t>& nodes) {
  const std::int64_t first = 1 + p.level * p.choice.width;
  const std::int32_t root = p.state->counts.context_len;
  if (p.level == 0) {
    p.slot_parent[0] = -1;
    p.slot_position[0] = root;
  }
  for (std::int64_t i = 0; i < p.choice.width; ++i) {
    const bool real = at(i) < nodes.size();
    const Candidate node = real ? pool[at(nodes[at(i)])] : Candidate{};
    p.node_token[i] = node.token;
    p.slot_parent[first + i] = node.slot;
    p.slot_position[first + i] = root + node.depth;
  }
  if (p.passes.counts != nullptr) {
    p.passes.counts[p.level + 1].context_len = static_cast<std::int32_t>(root + p.level + 1);
  }
}

}  // namespace

void grow_tree_cpu(const GrowTreeParams& p) {
  VERSIEVE_ASSERT(p.choice.nodes <= kMaxTreeNodes && p.choice.width <= kMaxTreeWidth,
                  "the pool holds the tree");
  TreePool& out = p.state->pool;
  if (p.level == 0) {
    out.count = 0;
  }
  std::vector<Candidate> pool = old_candidates(out);
  append_children(p, pool);
  const std::vector<std::int32_t> order = ranking(pool);
  const std::size_t wanted = at(p.choice.nodes - 1);
  const std::size_t kept_count = std::min(wanted, pool.size());
  const float bar = pool.size() < wanted ? -std::numeric_limits<float>::infinity()
                                         : pool[at(order[wanted - 1])].score;
  std::vector<std::int32_t> frontier;
  const bool grows = p.level + 1 < p.choice.levels();
  for (const std::int32_t i : order) {
    if (grows && i >= out.count && pool[at(i)].score > bar &&
        static_cast<std::int64_t>(frontier.size()) < p.choice.width) {
      frontier.push_back(i);
    }
  }
  std::vector<std::int32_t> kept(order.begin(),
                                 order.begin() + static_cast<std::ptrdiff_t>(kept_count));
  std::sort(kept.begin(), kept.end());
  std::vector<std::int32_t> place(pool.size(), -1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Candidate& node = pool[at(kept[i])];
    place[at(kept[i])] = static_cast<std::int32_t>(i);
    out.parent[i] = node.parent < 0 ? -1 : place[at(node.parent)];
    out.depth[i] = node.depth;
    out.token[i] = node.token;
    out.log_probability[i] = node.score;
  }
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    out.frontier[i] = place[at(frontier[i])];
  }
  out.count = static_cast<std::int32_t>(kept_count);
  out.frontier_count = static_cast<std::int32_t>(frontier.size());
  if (grows) {
    write_frontier(p, pool, frontier);
  }
}

namespace {

// The kept candidates and the root, in the order asked for.
DraftTree kept_tree(const FinishTreeParams& p) {
  const TreePool& pool = p.state->pool;
  DraftTree tree{
      .parent = {-1}, .depth = {0}, .token = {p.state->root_token}, .log_probability = {0.0F}};
  for (std::int32_t i = 0; i < pool.count; ++i) {
    tree.parent.push_back(pool.parent[i] + 1);
    tree.depth.push_back(pool.depth[i]);
    tree.token.push_back(pool.token[i]);
    tree.log_probability.push_back(pool.log_probability[i]);
  }
  return reordered(tree, traversal_order(tree, p.order));
}

// The l tokens that end with `node`, oldest first: a committed position, or -1 - node.
void write_sources(const FinishTreeParams& p, std::int32_t node, std::int32_t* source) {
  std::int32_t t = p.position[node];
  for (std::int64_t j = p.cmp_block - 1; j >= 0; --j, --t) {
    source[j] = t < p.state->counts.context_len ? t : -1 - node;
    node = t < p.state->counts.context_len ? node : p.parent[node];
  }
}

}  // namespace

void finish_tree_cpu(const FinishTreeParams& p) {
  const DraftTree tree = kept_tree(p);
  VERSIEVE_ASSERT(tree.size() <= p.nodes, "the static tree holds the grown one");
  p.state->tree_nodes = static_cast<std::int32_t>(tree.size());
  std::int32_t owners = 0;
  for (std::int64_t i = 0; i < p.nodes; ++i) {
    const bool real = i < tree.size();
    p.token[i] = real ? tree.token[at(i)] : p.state->root_token;
    p.parent[i] = real ? tree.parent[at(i)] : 0;
    p.position[i] = p.state->counts.context_len + (real ? tree.depth[at(i)] : 1);
    const std::int64_t start = p.position[i] + 1 - p.cmp_block;
    if (p.sparse && start >= 0 && start % p.cmp_stride == 0) {
      p.owner[owners] = static_cast<std::int32_t>(i);
      p.block[owners] = static_cast<std::int32_t>(start / p.cmp_stride);
      write_sources(p, p.owner[owners], p.source + owners * p.cmp_block);
      ++owners;
    }
  }
  p.state->counts.tree_compressed = owners;
}

namespace {

std::int32_t child_with(const AcceptTreeParams& p, std::int32_t node, std::int32_t token) {
  for (std::int32_t i = node + 1; i < p.state->tree_nodes; ++i) {
    if (p.parent[i] == node && p.token[i] == token) {
      return i;
    }
  }
  return -1;
}

std::int64_t forced_yield_of(const AcceptTreeParams& p) {
  return p.forced_at != nullptr ? p.forced_at[p.state->counts.context_len] : p.forced_yield;
}

// The first node as deep as the forced path ends.
std::int32_t forced_end(const AcceptTreeParams& p, std::int64_t yield) {
  const std::int32_t* end = p.position + p.state->tree_nodes;
  const std::int64_t deepest = *std::max_element(p.position, end);
  const std::int64_t wanted = std::min(p.position[0] + yield - 1, deepest);
  return static_cast<std::int32_t>(std::find(p.position, end, wanted) - p.position);
}

std::vector<std::int32_t> path_to_node(const AcceptTreeParams& p, std::int32_t node) {
  std::vector<std::int32_t> path;
  for (; node >= 0; node = p.parent[node]) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

void write_entries(const AcceptTreeParams& p, const StepYield& yield) {
  const StepState& s = *p.state;
  for (std::int32_t i = 0; i < p.max_path; ++i) {
    const bool newest = i == 0;
    const bool real = i < yield.count;
    const std::int32_t from = newest ? yield.count - 1 : i - 1;  // of the path
    p.entry_token[i] = real ? yield.token[from] : 0;
    p.entry_row[i] = real ? s.path[from] : 0;
    p.entry_position[i] =
        real && !newest ? s.first_position + i : s.first_position + yield.count + i;
  }
}

// REQUIRES: the state still holds the step's root.
void write_first_pass(const AcceptTreeParams& p, const StepYield& yield) {
  const StepState& s = *p.state;
  const std::int32_t newest = s.first_position + yield.count;
  p.passes.counts[0].context_len = newest - 1;
  p.passes.position[0] = newest - 1;
  p.passes.position[1] = newest;
  p.passes.token[0] = yield.count > 1 ? yield.token[yield.count - 2] : s.root_token;
  p.passes.token[1] = yield.token[yield.count - 1];
}

}  // namespace

void accept_tree_cpu(const AcceptTreeParams& p) {
  StepState& s = *p.state;
  std::int32_t last = 0;
  for (std::int32_t node = 0; node >= 0; node = child_with(p, node, p.choice[node])) {
    last = node;
  }
  const std::int32_t next_token = p.choice[last];
  const std::int64_t forced = forced_yield_of(p);
  const std::vector<std::int32_t> path = path_to_node(p, forced > 0 ? forced_end(p, forced) : last);
  VERSIEVE_ASSERT(static_cast<std::int64_t>(path.size()) <= p.max_path, "P is the longest path");
  StepYield& yield = p.yield[s.steps % kYieldSlots];
  yield.count = s.path_count = static_cast<std::int32_t>(path.size());
  s.compressed_count = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    s.path[i] = path[i];
    yield.token[i] = i + 1 < path.size() ? p.token[path[i + 1]] : next_token;
    const std::int32_t* end = p.owner + s.counts.tree_compressed;
    const std::int32_t* owner = p.sparse ? std::find(p.owner, end, path[i]) : end;
    if (owner != end) {
      s.compressed[s.compressed_count++] = static_cast<std::int32_t>(owner - p.owner);
    }
  }
  const NsaGeometry nsa{.cmp_block = p.cmp_block, .cmp_stride = p.cmp_stride};
  s.first_position = s.counts.context_len;
  s.first_compressed =
      static_cast<std::int32_t>(p.sparse ? compressed_count(nsa, s.counts.context_len) : 0);
  write_entries(p, yield);
  if (p.passes.counts != nullptr) {
    write_first_pass(p, yield);
  }
  s.root_token = next_token;
  s.counts.context_len += yield.count;
  ++s.steps;
}

template <class T>
void commit_path_cpu(const CommitPathParams<T>& p) {
  const StepState& s = *p.state;
  const auto copy = [&](const T* from, T* to, const std::int32_t* rows, std::int64_t count,
                        std::int64_t first, std::int64_t layer_rows) {
    for (std::int64_t layer = 0; layer < p.layers && from != nullptr; ++layer) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::copy_n(from + (layer * p.tree_rows + rows[i]) * p.width, p.width,
                    to + (layer * layer_rows + first + i) * p.width);
      }
    }
  };
  copy(p.k_tree, p.k, s.path, s.path_count, s.first_position, p.cache_rows);
  copy(p.v_tree, p.v, s.path, s.path_count, s.first_position, p.cache_rows);
  copy(p.k_raw_tree, p.k_raw, s.path, s.path_count, s.first_position, p.cache_rows);
  copy(p.k_cmp_tree, p.k_cmp, s.compressed, s.compressed_count, s.first_compressed,
       p.compressed_rows);
  copy(p.v_cmp_tree, p.v_cmp, s.compressed, s.compressed_count, s.first_compressed,
       p.compressed_rows);
}

template void commit_path_cpu<double>(const CommitPathParams<double>&);
template void commit_path_cpu<float>(const CommitPathParams<float>&);
template void commit_path_cpu<Bf16>(const CommitPathParams<Bf16>&);

}  // namespace versieve::kernels
