// What every engine's draft_tree kernels must do, against the host's own tree code.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/run/model/tree_layout.h"
#include "engine/run/speculate/tree_growth.h"
#include "tests/support/draft_tree_case.h"

namespace versieve::test {

inline constexpr NsaGeometry kSmallNsa{.cmp_block = 8, .cmp_stride = 4, .sel_block = 16};

inline DraftTree grown_on_host(const DraftChoice& choice, std::int32_t root, std::uint64_t seed) {
  engine::TreeGrowth growth(choice, root);
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    for (const std::int32_t node : nodes) {
      std::vector<std::int32_t> path;
      for (const std::int32_t i : path_to(growth.candidates(), node)) {
        path.push_back(growth.candidates().token[static_cast<std::size_t>(i)]);
      }
      const ScoredChildren children = children_of(path, choice.width, seed);
      for (std::size_t j = 0; j < children.token.size(); ++j) {
        growth.add_child(node, children.token[j], children.log_probability[j]);
      }
    }
  }
  return growth.finish();
}

inline std::vector<std::int32_t> head(const std::vector<std::int32_t>& values, std::int64_t count) {
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)};
}

// One grown tree, in both orders, with and without padding.
template <class T>
void check_growth(kernels::Ops<T>& ops, const DraftChoice& choice, std::int64_t context_len,
                  std::uint64_t seed) {
  INFO("seed " << seed << ", d" << choice.depth << "k" << choice.width << "n" << choice.nodes
               << ", L " << context_len);
  DeviceGrowth<T> growth(ops, choice, 3, context_len);
  growth.grow(seed);
  const DraftTree grown = grown_on_host(choice, 3, seed);
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    const DraftTree tree = reordered(grown, traversal_order(grown, order));
    const engine::TreeLayout layout = engine::tree_layout(tree, context_len, kSmallNsa, true);
    const FinishedTree made = growth.finish(choice.nodes, order, kSmallNsa);
    CHECK(made.nodes == tree.size());
    CHECK(head(made.token, made.nodes) == tree.token);
    CHECK(head(made.parent, made.nodes) == tree.parent);
    CHECK(head(made.position, made.nodes) == layout.position);
    REQUIRE(made.owners == layout.compressed_rows());
    CHECK(head(made.owner, made.owners) == layout.owner);
    CHECK(head(made.block, made.owners) == layout.block);
    CHECK(head(made.source, made.owners * kSmallNsa.cmp_block) == layout.source);
    const std::int64_t padded = std::min<std::int64_t>(choice.nodes + 5, kernels::kMaxTreeNodes);
    const FinishedTree wide = growth.finish(padded, order, kSmallNsa);
    CHECK(wide.nodes == tree.size());
    CHECK(head(wide.parent, wide.nodes) == tree.parent);
    for (std::int64_t i = wide.nodes; i < padded; ++i) {
      CHECK(wide.parent[static_cast<std::size_t>(i)] == 0);
      CHECK(wide.position[static_cast<std::size_t>(i)] == context_len + 1);
    }
  }
}

// A random tree and random choices of the target that often follow it.
struct AcceptCase {
  DraftTree tree;
  std::vector<std::int32_t> choice;
  std::int64_t padded = 1;
  std::int64_t max_path = 1;
};

inline AcceptCase random_accept_case(std::mt19937_64& random) {
  AcceptCase out{.tree = {.parent = {-1}, .depth = {0}, .token = {9}, .log_probability = {0.0F}}};
  const std::int64_t nodes = 1 + static_cast<std::int64_t>(random() % 60);
  const std::int32_t depth = 1 + static_cast<std::int32_t>(random() % 12);
  while (out.tree.size() < nodes) {
    const std::size_t parent = random() % out.tree.parent.size();
    if (out.tree.depth[parent] < depth) {
      out.tree.parent.push_back(static_cast<std::int32_t>(parent));
      out.tree.depth.push_back(out.tree.depth[parent] + 1);
      out.tree.token.push_back(static_cast<std::int32_t>(random() % 4));  // siblings may repeat
    }
  }
  out.padded = nodes + static_cast<std::int64_t>(random() % 4);
  out.max_path = depth + 1;
  for (std::int64_t i = 0; i < out.padded; ++i) {
    out.choice.push_back(static_cast<std::int32_t>(random() % 5));
  }
  return out;
}

inline std::vector<std::int32_t> greedy_path(const AcceptCase& c) {
  std::vector<std::int32_t> path = {0};
  for (std::size_t i = 1; i < c.tree.parent.size(); ++i) {
    const std::int32_t end = path.back();
    if (c.tree.parent[i] == end && c.tree.token[i] == c.choice[static_cast<std::size_t>(end)]) {
      path.push_back(static_cast<std::int32_t>(i));
    }
  }
  return path;
}

// The first node of that depth, from the root; the deepest if none is as deep.
inline std::vector<std::int32_t> forced_path(const AcceptCase& c, std::int64_t yield) {
  const std::int32_t deepest = *std::max_element(c.tree.depth.begin(), c.tree.depth.end());
  const std::int32_t wanted = std::min(static_cast<std::int32_t>(yield) - 1, deepest);
  const auto end = std::find(c.tree.depth.begin(), c.tree.depth.end(), wanted);
  return path_to(c.tree, static_cast<std::int32_t>(end - c.tree.depth.begin()));
}

// The walk, the yield, the draft's entries and the committed rows of one case.
template <class T>
void check_acceptance(kernels::Ops<T>& ops, std::uint64_t seed, std::int64_t forced_yield,
                      bool by_position = false) {
  std::mt19937_64 random(seed);
  const AcceptCase c = random_accept_case(random);
  const std::int64_t context_len = static_cast<std::int64_t>(random() % 40) + 1;
  INFO("seed " << seed << ", nodes " << c.tree.size() << ", L " << context_len << ", forced "
               << forced_yield << (by_position ? " by position" : ""));
  using Ints = kernels::OpsBuffer<T, std::int32_t>;
  const engine::TreeLayout layout = engine::tree_layout(c.tree, context_len, kSmallNsa, true);
  const auto padded = [&](std::vector<std::int32_t> values, std::int32_t filler) {
    values.resize(static_cast<std::size_t>(c.padded), filler);
    return Ints(ops, values);
  };
  const Ints token = padded(c.tree.token, c.choice[0]);  // padding that would match the root
  const Ints parent = padded(c.tree.parent, 0);
  const Ints position = padded(layout.position, static_cast<std::int32_t>(context_len) + 1);
  const Ints owner = padded(layout.owner, 0);
  const Ints choice(ops, c.choice);
  const Ints entries(ops, std::vector<std::int32_t>(static_cast<std::size_t>(3 * c.max_path), -1));
  kernels::StepState before;
  before.counts = {static_cast<std::int32_t>(context_len),
                   static_cast<std::int32_t>(layout.compressed_rows())};
  before.tree_nodes = static_cast<std::int32_t>(c.tree.size());
  before.steps = static_cast<std::int32_t>(seed % 7);
  const kernels::OpsBuffer<T, kernels::StepState> state(ops,
                                                        std::vector<kernels::StepState>{before});
  // Its own entry alone says something true.
  std::vector<std::int32_t> forced(static_cast<std::size_t>(context_len) + 2, 3);
  forced[static_cast<std::size_t>(context_len)] = static_cast<std::int32_t>(forced_yield);
  const Ints forced_at(ops, forced);
  kernels::StepYield* yields = static_cast<kernels::StepYield*>(
      ops.allocate_host(kernels::kYieldSlots * sizeof(kernels::StepYield)));
  ops.accept_tree({.nodes = c.padded,
                   .max_path = c.max_path,
                   .cmp_block = kSmallNsa.cmp_block,
                   .cmp_stride = kSmallNsa.cmp_stride,
                   .forced_yield = by_position ? 5 : forced_yield,
                   .forced_at = by_position ? forced_at.data() : nullptr,
                   .choice = choice.data(),
                   .token = token.data(),
                   .parent = parent.data(),
                   .position = position.data(),
                   .owner = owner.data(),
                   .state = state.data(),
                   .yield = yields,
                   .entry_token = entries.data(),
                   .entry_row = entries.data() + c.max_path,
                   .entry_position = entries.data() + 2 * c.max_path});
  const kernels::StepState after = state.read()[0];
  const kernels::StepYield yield = yields[before.steps % kernels::kYieldSlots];
  ops.release_host(yields);

  const std::vector<std::int32_t> walked = greedy_path(c);
  const std::vector<std::int32_t> path = forced_yield > 0 ? forced_path(c, forced_yield) : walked;
  const std::int32_t count = static_cast<std::int32_t>(path.size());
  const std::int32_t next = c.choice[static_cast<std::size_t>(walked.back())];
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 1; i < path.size(); ++i) {
    tokens.push_back(c.tree.token[static_cast<std::size_t>(path[i])]);
  }
  tokens.push_back(next);
  REQUIRE(yield.count == count);
  CHECK(std::vector<std::int32_t>(yield.token, yield.token + count) == tokens);
  CHECK(std::vector<std::int32_t>(after.path, after.path + after.path_count) == path);
  CHECK(after.counts.context_len == context_len + count);
  CHECK(after.root_token == next);
  CHECK(after.steps == before.steps + 1);
  CHECK(after.first_position == context_len);
  CHECK(after.first_compressed == compressed_count(kSmallNsa, context_len));
  std::vector<std::int32_t> compressed;
  for (const std::int32_t node : path) {
    const auto found = std::find(layout.owner.begin(), layout.owner.end(), node);
    if (found != layout.owner.end()) {
      compressed.push_back(static_cast<std::int32_t>(found - layout.owner.begin()));
    }
  }
  CHECK(std::vector<std::int32_t>(after.compressed, after.compressed + after.compressed_count) ==
        compressed);
  // Entries: the newest first, then the older ones, each with its predecessor's streams.
  const std::vector<std::int32_t> entry = entries.read();
  const auto at = [&](std::int64_t list, std::int64_t i) {
    return entry[static_cast<std::size_t>(list * c.max_path + i)];
  };
  for (std::int32_t i = 0; i < c.max_path; ++i) {
    const std::int32_t from = i == 0 ? count - 1 : i - 1;
    if (i < count) {
      CHECK(at(0, i) == tokens[static_cast<std::size_t>(from)]);
      CHECK(at(1, i) == path[static_cast<std::size_t>(from)]);
      CHECK(at(2, i) == context_len + from + 1);
    } else {
      CHECK(at(1, i) == 0);
      CHECK(at(2, i) == context_len + count + i);
    }
  }
}

}  // namespace versieve::test
