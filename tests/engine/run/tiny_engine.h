// A random target and draft small enough that every rule of the attention bites within a hundred
// tokens, and tree sources whose proposals the target accepts as often as a test wants.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/run/model/synthetic.h"
#include "engine/run/speculate/generate.h"
#include "kernels/ops.h"

namespace versieve::engine::tiny {

inline LlmShape shape(AttentionKind attention = AttentionKind::kNsa) {
  return {.name = "tiny",
          .attention = attention,
          .layers = 3,
          .hidden = 32,
          .intermediate = 48,
          .vocab = 40,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 16,
          .max_position = 4096,
          .tied_embeddings = false,
          .nsa = {.cmp_block = 8,
                  .cmp_stride = 4,
                  .sel_block = 16,
                  .sel_count = 4,
                  .init_blocks = 1,
                  .local_blocks = 2,
                  .window = 24}};
}

inline DraftShape draft_shape(const LlmShape& target) {
  DraftShape draft = draft_shape_for(target);
  draft.window = 20;
  draft.capture_layers[0] = 0;
  draft.capture_layers[1] = 2;
  draft.capture_layers[2] = 3;
  return draft;
}

template <class T>
struct Engine {
  explicit Engine(const LlmShape& llm = shape(), std::uint64_t seed = 11)
      : Engine(kernels::make_cpu_ops<T>(1), llm, seed) {}
  explicit Engine(std::unique_ptr<kernels::Ops<T>> device, const LlmShape& llm = shape(),
                  std::uint64_t seed = 11)
      : Engine(std::move(device), llm, draft_shape(llm), seed) {}
  Engine(std::unique_ptr<kernels::Ops<T>> device, const LlmShape& llm, const DraftShape& drafts,
         std::uint64_t seed)
      : ops(std::move(device)),
        target(make_synthetic_target(*ops, llm, drafts, seed)),
        draft(make_synthetic_draft(*ops, drafts, target, seed + 1)),
        generator(*ops, target, &draft) {}

  std::unique_ptr<kernels::Ops<T>> ops;
  Target<T> target;
  Draft<T> draft;
  Generator<T> generator;
};

// A tiny dense target with a dense draft of other (or the same) weights.
template <class T>
struct DenseEngine {
  explicit DenseEngine(std::uint64_t draft_seed, std::int64_t draft_layers = 3)
      : ops(kernels::make_cpu_ops<T>(1)),
        target(make(shape(AttentionKind::kDense), 11)),
        draft(make(draft_shape(draft_layers), draft_seed)),
        generator(*ops, target, nullptr, &draft) {}

  static LlmShape draft_shape(std::int64_t layers) {
    LlmShape llm = shape(AttentionKind::kDense);
    llm.layers = layers;
    return llm;
  }
  Target<T> make(const LlmShape& llm, std::uint64_t seed) {
    return make_synthetic_target<T>(*ops, llm, tiny::draft_shape(tiny::shape()), seed);
  }

  std::unique_ptr<kernels::Ops<T>> ops;
  Target<T> target;
  Target<T> draft;
  Generator<T> generator;
};

inline std::vector<std::int32_t> prompt(std::int64_t length, std::uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random() % 40));
  }
  return tokens;
}

inline GenerateOptions options(const std::string& strategy, std::int64_t max_new_tokens = 64) {
  return {.strategy = Strategy::parse(strategy), .max_new_tokens = max_new_tokens};
}

// Plain decoding, and the same under a guard that takes every step for a low one: it moves after
// each that it weighs until it settles. `records`: through recorded steps.
struct GuardedRuns {
  Generation plain, guarded;
  bool has_settled = false;
};

template <class T>
GuardedRuns impatient_runs(Engine<T>& engine, std::int64_t max_new_tokens, bool records,
                           const std::vector<std::string>& ranked = {"nsa/d4k3n12/bfs/c1/F*",
                                                                     "nsa/d2k2n5/dfs/c4e/F*",
                                                                     "nsa/d5k1n6/bfs/c2e/F*"}) {
  std::vector<Strategy> strategies;
  for (const std::string& text : ranked) {
    strategies.push_back(Strategy::parse(text));
  }
  RuntimeGuard guard({.drop_ratio = 100.0, .warmup = 0, .hysteresis = 1}, GuardRule::kNextRanked,
                     std::vector<GuardedTuple>(ranked.size(), {.expected_accepted = 4.0}));
  GenerateOptions choice = options("nsa/ar", max_new_tokens);
  engine.generator.prefill(prompt(61));
  GuardedRuns runs;
  runs.plain = engine.generator.run(choice);
  choice.records_steps = records;
  runs.guarded = engine.generator.run_guarded(choice, strategies, guard);
  runs.has_settled = guard.has_settled();
  return runs;
}

inline void add_node(DraftTree& tree, std::int32_t parent, std::int32_t token) {
  tree.parent.push_back(parent);
  tree.depth.push_back(tree.depth[static_cast<std::size_t>(parent)] + 1);
  tree.token.push_back(token);
  tree.log_probability.push_back(0.0F);
}

// A random tree of `nodes` nodes, with random tokens, at most `depth` deep.
inline DraftTree random_tree(std::int64_t nodes, std::int32_t depth, std::int32_t root,
                             std::mt19937_64& random) {
  DraftTree tree{.parent = {-1}, .depth = {0}, .token = {root}, .log_probability = {0.0F}};
  while (tree.size() < nodes) {
    const std::int32_t parent =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(tree.size()));
    if (tree.depth[static_cast<std::size_t>(parent)] < depth) {
      add_node(tree, parent, static_cast<std::int32_t>(random() % 40));
    }
  }
  return tree;
}

// Trees that follow a known continuation for a random number of levels, among decoys.
template <class T>
class ScriptedSource final : public TreeSource<T> {
 public:
  // `text`: the token at position first + i.
  ScriptedSource(std::int64_t first, std::vector<std::int32_t> text, Traversal order,
                 std::int64_t deepest, bool chain)
      : first_(first), text_(std::move(text)), order_(order), deepest_(deepest), chain_(chain) {}

  DraftTree propose(std::int64_t position, std::int32_t token) override {
    DraftTree tree{.parent = {-1}, .depth = {0}, .token = {token}, .log_probability = {0.0F}};
    std::int32_t node = 0;
    const std::int64_t right =
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(deepest_ + 1));
    for (std::int64_t level = 1; level <= deepest_; ++level) {
      const std::int64_t at = position + level - first_;
      const bool known = at < static_cast<std::int64_t>(text_.size());
      const std::int32_t truth = known ? text_[static_cast<std::size_t>(at)] : 0;
      if (!chain_) {
        add_decoys(tree, node, truth);
      }
      add_node(tree, node, level <= right ? truth : (truth + 1) % 40);
      node = static_cast<std::int32_t>(tree.size()) - 1;
    }
    // DFS order by construction; BFS sorts by level.
    return reordered(tree, traversal_order(tree, order_));
  }

 private:
  // Up to two wrong children, the first with a child of its own.
  void add_decoys(DraftTree& tree, std::int32_t node, std::int32_t truth) {
    const std::uint64_t count = random_() % 3;
    for (std::uint64_t i = 0; i < count; ++i) {
      add_node(tree, node, (truth + 2 + static_cast<std::int32_t>(i)) % 40);
      if (i == 0) {
        add_node(tree, static_cast<std::int32_t>(tree.size()) - 1, truth);
      }
    }
  }

  std::int64_t first_;
  std::vector<std::int32_t> text_;
  Traversal order_;
  std::int64_t deepest_;
  bool chain_;
  std::mt19937_64 random_{3};
};

// An autoregressive run and one along trees that are right for random depths, from one prompt.
struct TwoRuns {
  Generation plain;
  Generation tree;
};

// `rest`: group and schedule of the strategy, "/c1/F*".
template <class T>
TwoRuns scripted_runs(Engine<T>& engine, std::int64_t prompt_len, const std::string& rest,
                      Traversal order, bool chain, std::int64_t tokens) {
  engine.generator.prefill(prompt(prompt_len));
  const std::string schedule = rest.substr(rest.rfind('/') + 1);
  const std::string kind = engine.target.shape().attention == AttentionKind::kNsa ? "nsa" : "dense";
  TwoRuns runs;
  GenerateOptions plain =
      options(kind + (schedule == "F*" ? "/ar" : "/ar/bfs/c1/" + schedule), tokens);
  plain.measures_gaps = true;
  runs.plain = engine.generator.run(plain);
  ScriptedSource<T> source(prompt_len, runs.plain.tokens, order, 11, chain);
  runs.tree =
      engine.generator.run(options(kind + "/d5k3n12/" + name_of(order) + rest, tokens), source);
  return runs;
}

}  // namespace versieve::engine::tiny
