// A draft without a model: the children of a node are a function of its path, with few distinct
// scores so that ties are common. Grows trees through an engine's draft_tree kernels, in that
// engine's memory, as a recorded step does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/ops.h"
#include "model/words/draft_tree.h"

namespace versieve::test {

struct ScoredChildren {
  std::vector<std::int32_t> token;
  std::vector<float> log_probability;  // descending
};

// `count` children of the node at the end of a path of tokens.
inline ScoredChildren children_of(const std::vector<std::int32_t>& path, std::int64_t count,
                                  std::uint64_t seed) {
  std::uint64_t key = seed;
  for (const std::int32_t token : path) {
    key = key * 1000003 + static_cast<std::uint64_t>(token);
  }
  std::mt19937_64 random(key);
  ScoredChildren children;
  for (std::int64_t j = 0; j < count; ++j) {
    children.token.push_back(static_cast<std::int32_t>(7 * j + static_cast<std::int64_t>(key % 5)));
    children.log_probability.push_back(0.125F - 0.25F * static_cast<float>(random() % 12));
  }
  std::sort(children.log_probability.rbegin(), children.log_probability.rend());
  return children;
}

// The verifier's arrays of a grown tree, E its compressed tokens.
struct FinishedTree {
  std::int32_t nodes = 0, owners = 0;
  std::vector<std::int32_t> token, parent, position, owner, block, source;
};

struct KernelTimes {
  double grow_us = 0.0, finish_bfs_us = 0.0, finish_dfs_us = 0.0, accept_us = 0.0;
};

// Of one piece of work among `count` in a recording.
template <class T, class Work>
double us_each(kernels::Ops<T>& ops, std::int64_t count, const Work& work) {
  work();
  const std::unique_ptr<kernels::Recording> recording = ops.record([&] {
    for (std::int64_t i = 0; i < count; ++i) {
      work();
    }
  });
  recording->launch();
  ops.synchronize();
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  recording->launch();
  ops.synchronize();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return 1e6 * taken.count() / static_cast<double>(count);
}

template <class T>
class DeviceGrowth {
 public:
  DeviceGrowth(kernels::Ops<T>& ops, const DraftChoice& choice, std::int32_t root_token,
               std::int64_t context_len)
      : ops_(ops),
        choice_(choice),
        slots_(1 + (choice.levels() - 1) * choice.width),
        index_(ops, choice.width * choice.width),
        score_(ops, choice.width * choice.width),
        node_token_(ops, choice.width),
        slot_parent_(ops, std::vector<std::int32_t>(static_cast<std::size_t>(slots_), -77)),
        slot_position_(ops, std::vector<std::int32_t>(static_cast<std::size_t>(slots_), -77)),
        state_(ops, 1) {
    kernels::StepState state;
    state.counts.context_len = static_cast<std::int32_t>(context_len);
    state.root_token = root_token;
    state_.write({state});
    paths_ = {{root_token}};
  }

  // All levels; the children of each frontier slot by its path.
  void grow(std::uint64_t seed) {
    const std::int64_t width = choice_.width;
    for (std::int64_t level = 0; level < choice_.levels(); ++level) {
      const std::int64_t rows = level == 0 ? 1 : width;
      std::vector<std::int32_t> index;
      std::vector<float> score;
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::size_t slot =
            static_cast<std::size_t>(level == 0 ? 0 : 1 + (level - 1) * width + i);
        const ScoredChildren children = children_of(paths_[slot], width, seed);
        index.insert(index.end(), children.token.begin(), children.token.end());
        score.insert(score.end(), children.log_probability.begin(), children.log_probability.end());
      }
      ops_.upload(index_.data(), index.data(), index.size() * sizeof(std::int32_t));
      ops_.upload(score_.data(), score.data(), score.size() * sizeof(float));
      grow_level(level);
      follow_frontier(level);
    }
  }

  // Padded to `nodes`.
  FinishedTree finish(std::int64_t nodes, Traversal order, const NsaGeometry& nsa) {
    const auto ints = [&](std::int64_t count) {
      return kernels::OpsBuffer<T, std::int32_t>(
          ops_, std::vector<std::int32_t>(static_cast<std::size_t>(count), -99));
    };
    const auto token = ints(nodes), parent = ints(nodes), position = ints(nodes),
               owner = ints(nodes), block = ints(nodes), source = ints(nodes * nsa.cmp_block);
    ops_.finish_tree({.nodes = nodes,
                      .order = order,
                      .cmp_block = nsa.cmp_block,
                      .cmp_stride = nsa.cmp_stride,
                      .state = state_.data(),
                      .token = token.data(),
                      .parent = parent.data(),
                      .position = position.data(),
                      .owner = owner.data(),
                      .block = block.data(),
                      .source = source.data()});
    const kernels::StepState done = state();
    return {.nodes = done.tree_nodes,
            .owners = done.counts.tree_compressed,
            .token = token.read(),
            .parent = parent.read(),
            .position = position.read(),
            .owner = owner.read(),
            .block = block.read(),
            .source = source.read()};
  }

  // Of one launch among `count` in a recording, the last level's growth again and again.
  KernelTimes times(std::int64_t count) {
    const NsaGeometry nsa;
    const std::int64_t nodes = choice_.nodes, path = kernels::longest_path(choice_);
    const kernels::OpsBuffer<T, std::int32_t> lists(ops_, (7 + nsa.cmp_block) * nodes + 3 * path);
    std::int32_t* list = lists.data();
    kernels::FinishTreeParams finish{.nodes = nodes,
                                     .state = state_.data(),
                                     .token = list,
                                     .parent = list + nodes,
                                     .position = list + 2 * nodes,
                                     .owner = list + 3 * nodes,
                                     .block = list + 4 * nodes,
                                     .source = list + 6 * nodes};
    const auto finish_tree = [&] { ops_.finish_tree(finish); };
    KernelTimes times;
    times.grow_us = us_each(ops_, count, [&] { grow_level(choice_.levels() - 1); });
    times.finish_bfs_us = us_each(ops_, count, finish_tree);
    finish.order = Traversal::kDfs;
    times.finish_dfs_us = us_each(ops_, count, finish_tree);
    kernels::StepYield* yields = static_cast<kernels::StepYield*>(
        ops_.allocate_host(kernels::kYieldSlots * sizeof(kernels::StepYield)));
    std::int32_t* entries = list + (7 + nsa.cmp_block) * nodes;
    times.accept_us = us_each(ops_, count, [&] {
      ops_.accept_tree({.nodes = nodes,
                        .max_path = path,
                        .choice = finish.token,
                        .token = finish.token,
                        .parent = finish.parent,
                        .position = finish.position,
                        .owner = finish.owner,
                        .state = state_.data(),
                        .yield = yields,
                        .entry_token = entries,
                        .entry_row = entries + path,
                        .entry_position = entries + 2 * path});
    });
    ops_.release_host(yields);
    return times;
  }

  kernels::StepState state() const { return state_.read()[0]; }

 private:
  void grow_level(std::int64_t level) {
    ops_.grow_tree({.choice = choice_,
                    .branch = choice_.width,
                    .level = level,
                    .index = index_.data(),
                    .log_probability = score_.data(),
                    .state = state_.data(),
                    .node_token = node_token_.data(),
                    .slot_parent = slot_parent_.data(),
                    .slot_position = slot_position_.data()});
  }

  // The paths of the slots that the kernel named; padding gets the root's and no child of it
  // counts.
  void follow_frontier(std::int64_t level) {
    const std::int64_t first = 1 + level * choice_.width;
    if (first >= slots_) {
      return;
    }
    const std::vector<std::int32_t> token = node_token_.read();
    const std::vector<std::int32_t> parent = slot_parent_.read();
    for (std::int64_t i = 0; i < choice_.width; ++i) {
      std::vector<std::int32_t> path =
          paths_[static_cast<std::size_t>(parent[static_cast<std::size_t>(first + i)])];
      path.push_back(token[static_cast<std::size_t>(i)]);
      paths_.push_back(path);
    }
  }

  kernels::Ops<T>& ops_;
  DraftChoice choice_;
  std::int64_t slots_;
  std::vector<std::vector<std::int32_t>> paths_;  // of each slot
  kernels::OpsBuffer<T, std::int32_t> index_;
  kernels::OpsBuffer<T, float> score_;
  kernels::OpsBuffer<T, std::int32_t> node_token_;
  kernels::OpsBuffer<T, std::int32_t> slot_parent_;
  kernels::OpsBuffer<T, std::int32_t> slot_position_;
  kernels::OpsBuffer<T, kernels::StepState> state_;
};

}  // namespace versieve::test
