// Growth from a level's logits against growth from lists that top_logits made: the same trees.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/ops.h"

namespace versieve::test {

// What one way of growing leaves.
template <class T>
struct GrownState {
  kernels::OpsBuffer<T, kernels::StepState> state;
  kernels::OpsBuffer<T, std::int32_t> node_token, slot_parent, slot_position;

  GrownState(kernels::Ops<T>& ops, std::int64_t width, std::int64_t slots)
      : state(ops, 1),
        node_token(ops, std::vector<std::int32_t>(static_cast<std::size_t>(width), -9)),
        slot_parent(ops, std::vector<std::int32_t>(static_cast<std::size_t>(slots), -9)),
        slot_position(ops, std::vector<std::int32_t>(static_cast<std::size_t>(slots), -9)) {
    kernels::StepState begin;
    begin.counts.context_len = 100;
    ops.upload(state.data(), &begin, sizeof begin);
  }
};

// Logits of few distinct values, so that ties are common. Returns how many nodes were kept.
template <class T>
std::int32_t check_growth_from_logits(kernels::Ops<T>& ops, const DraftChoice& choice,
                                      std::int64_t vocab, bool by_rank, std::uint64_t seed) {
  const std::int64_t width = choice.width;
  const std::int64_t branch = std::min(width, vocab);
  const std::int64_t levels = choice.levels();
  const std::int64_t slots = 1 + levels * width;
  GrownState<T> apart(ops, width, slots);
  GrownState<T> at_once(ops, width, slots);
  const kernels::OpsBuffer<T, std::int32_t> index(ops, width * branch);
  const kernels::OpsBuffer<T, float> score(ops, width * branch);
  std::mt19937_64 random(seed);
  for (std::int64_t level = 0; level < levels; ++level) {
    CAPTURE(choice.depth, width, choice.nodes, vocab, by_rank, level);
    const std::int64_t rows = level == 0 ? 1 : width;
    std::vector<T> values(static_cast<std::size_t>(rows * vocab));
    for (T& value : values) {
      value = static_cast<T>(0.25F * static_cast<float>(random() % 40));
    }
    const kernels::OpsBuffer<T> logits(ops, values);
    const kernels::TopLogitsParams<T> top{.rows = rows,
                                          .vocab = vocab,
                                          .k = branch,
                                          .logits = logits.data(),
                                          .index = index.data(),
                                          .log_probability = score.data()};
    const auto growth = [&](GrownState<T>& of) {
      return kernels::GrowTreeParams{.choice = choice,
                                     .branch = branch,
                                     .level = level,
                                     .scores_by_rank = by_rank,
                                     .index = index.data(),
                                     .log_probability = score.data(),
                                     .state = of.state.data(),
                                     .node_token = of.node_token.data(),
                                     .slot_parent = of.slot_parent.data(),
                                     .slot_position = of.slot_position.data()};
    };
    ops.grow_tree_from(top, growth(at_once));
    ops.top_logits(top);
    ops.grow_tree(growth(apart));
    REQUIRE(at_once.node_token.read() == apart.node_token.read());
    REQUIRE(at_once.slot_parent.read() == apart.slot_parent.read());
    REQUIRE(at_once.slot_position.read() == apart.slot_position.read());
    const kernels::StepState one = at_once.state.read()[0];
    const kernels::StepState other = apart.state.read()[0];
    REQUIRE(std::memcmp(&one, &other, sizeof one) == 0);
  }
  return apart.state.read()[0].pool.count;
}

// Shapes that one launch takes and shapes that it does not.
template <class T>
void check_growth_from_logits(kernels::Ops<T>& ops) {
  std::uint64_t seed = 1;
  for (const std::int64_t vocab : {3, 50, 272, 320, 321, 1000, 1024, 2000}) {
    for (const DraftChoice& choice :
         {DraftChoice{7, 1, 8}, DraftChoice{6, 8, 64}, DraftChoice{4, 16, 64},
          DraftChoice{3, 20, 256}, DraftChoice{10, 4, 32}}) {
      const std::int32_t kept = check_growth_from_logits(ops, choice, vocab, seed % 3 == 0, seed);
      CHECK(kept > 0);
      CHECK(kept < choice.nodes);
      ++seed;
    }
  }
}

}  // namespace versieve::test
