#include "engine/analyse/sim/decode_sequences.h"

#include <algorithm>

#include "engine/analyse/sim/dense_traces.h"
#include "engine/analyse/sim/simulated_shape.h"
#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_draft.h"
#include "engine/measure/sweep/synthetic_random.h"
#include "engine/run/speculate/draft_choice.h"
#include "model/launches/dense_pass.h"
#include "model/launches/resa_decode.h"
#include "model/words/error.h"
#include "model/words/index_shape.h"

namespace versieve::engine {
namespace {

constexpr std::uint64_t kBlockStream = 5;  // of the seed, for ReSA's blocks
constexpr std::uint64_t kTokenStream = 9;  // and an indexer's tokens
constexpr double kMostCacheBytes = 8e9;    // of all copies, as the sweep takes them
constexpr std::int64_t kFloat = 4;

// Ascending, each KV head its own; the `n_local` newest blocks are always among them.
std::vector<std::int32_t> drawn_blocks(const DenseCase& a, std::int64_t active,
                                       std::int64_t n_local, std::uint64_t seed) {
  SyntheticRandom random(seed + kBlockStream);
  const std::int64_t local = std::min(n_local, active);
  const std::int64_t free = (a.context_len + a.key_block) / a.key_block - local;
  std::vector<std::int32_t> chosen;
  std::vector<std::int32_t> all(static_cast<std::size_t>(free));
  for (std::int64_t g = 0; g < a.shape.num_kv_heads; ++g) {
    for (std::int64_t i = 0; i < free; ++i) {
      all[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    }
    for (std::int64_t i = 0; i + local < active; ++i) {
      std::swap(all[static_cast<std::size_t>(i)],
                all[static_cast<std::size_t>(i + random.below(free - i))]);
    }
    std::sort(all.begin(), all.begin() + active - local);
    chosen.insert(chosen.end(), all.begin(), all.begin() + active - local);
    for (std::int64_t i = 0; i < local; ++i) {
      chosen.push_back(static_cast<std::int32_t>(free + i));
    }
  }
  return chosen;
}

// `k` of the tokens before the `newest` ones, which follow them; ascending.
std::vector<std::int32_t> drawn_tokens(std::int64_t context_len, std::int64_t k,
                                       std::int64_t newest, std::uint64_t seed) {
  SyntheticRandom random(seed + kTokenStream);
  std::vector<std::int32_t> tokens;
  const std::int64_t free = context_len - newest;
  // Each token with the probability that what is left to choose has of what is left.
  for (std::int64_t i = 0, left = k; i < free; ++i) {
    if (random.below(free - i) < left) {
      tokens.push_back(static_cast<std::int32_t>(i));
      --left;
    }
  }
  for (std::int64_t i = free; i < context_len; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i));
  }
  return tokens;
}

void set_index_choice(const Strategy& strategy, std::uint64_t seed, DenseCase& a) {
  if (a.context_len <= strategy.indexer_k + strategy.indexer_window) {
    throw Error(ExitCode::kAnswerNo,
                "an indexer that reads all tokens chooses nothing: a longer context");
  }
  a.listed = true;
  a.indexed = strategy.indexer_k;
  a.newest = strategy.indexer_window;
  a.topk = strategy.topk.value_or(TopkAlgorithm::kGvr);
  a.tokens = drawn_tokens(a.context_len, a.indexed, a.newest, seed);
}

// That a run reads of its copy of the cache.
double touched_of(const DenseCase& a) {
  double tokens = static_cast<double>(a.shared_keys());
  if (a.key_block > 0) {
    tokens = static_cast<double>(static_cast<std::int64_t>(a.blocks.size()) / a.shape.num_kv_heads *
                                     a.key_block +
                                 a.context_len / a.key_block + 1);
  }
  const double index_keys =
      a.indexed > 0
          ? static_cast<double>(a.context_len * index_shape(a.shape).dim * a.element_bytes)
          : 0.0;
  return 2.0 * tokens * static_cast<double>(a.token_bytes()) + index_keys;
}

}  // namespace

std::vector<std::int32_t> chosen_by_draft(const Strategy& strategy, std::int64_t context_len,
                                          std::uint64_t seed) {
  const std::unique_ptr<kernels::Ops<float>> ops = make_sweep_ops<float>(false, nullptr, 1);
  const std::int64_t gamma = strategy.draft.levels();
  const kernels::OpsBuffer<float, float> weights(*ops,
                                                 synthetic_draft_weights(seed, gamma, context_len));
  return chosen_tokens(*ops,
                       DraftAttention<float>{.steps = gamma,
                                             .context_len = context_len,
                                             .stride = context_len,
                                             .layer_stride = gamma * context_len,
                                             .weights = weights.data()},
                       1, {.p = strategy.specattn_p, .chunk = kTokensTogether})
      .front();
}

DenseCase attended_case(const LlmShape& shape, const Strategy& strategy, std::int64_t context_len,
                        std::int64_t element_bytes, std::uint64_t seed,
                        const MeasuredChoice* choice) {
  if (strategy.attention == AttentionMethod::kResa && strategy.draft.speculates()) {
    throw Error(ExitCode::kAnswerNo, "the simulator has traces of ReSA's plain steps only");
  }
  if (strategy.drafts_itself) {
    throw Error(ExitCode::kAnswerNo,
                "the simulator has traces of plain resa steps and of chains "
                "over a dense cache, not of both as one step");
  }
  const DraftTree grown = synthetic_tree(strategy.draft);
  DenseCase a =
      dense_case(shape, reordered(grown, traversal_order(grown, strategy.order)), context_len);
  a.element_bytes = element_bytes;
  switch (strategy.attention) {
    case AttentionMethod::kResa:
      a.key_block = strategy.resa_key_block;
      a.local_blocks = strategy.resa_n_local;
      a.launch_by_launch = strategy.form == NsaForm::kVanilla;
      a.blocks =
          drawn_blocks(a, resa_active_blocks(context_len, strategy), strategy.resa_n_local, seed);
      break;
    case AttentionMethod::kSpecAttn:
      a.listed = true;
      if (const std::optional<double> share =
              choice == nullptr ? std::nullopt : choice->share(strategy, context_len)) {
        a.tokens = tokens_of_share(*share, context_len, seed);
        break;
      }
      a.tokens = chosen_by_draft(strategy, context_len, seed);
      break;
    case AttentionMethod::kIndexer:
      set_index_choice(strategy, seed, a);
      break;
    case AttentionMethod::kDense:
    case AttentionMethod::kNsa:
      break;
  }
  return a;
}

DenseCase rewritten_case(const LlmShape& shape, std::int64_t tokens, std::int64_t context_len,
                         std::int64_t element_bytes) {
  DraftTree chain;
  for (std::int64_t i = 0; i < tokens; ++i) {
    chain.parent.push_back(static_cast<std::int32_t>(i) - 1);
    chain.depth.push_back(static_cast<std::int32_t>(i));
  }
  DenseCase a = dense_case(shape, chain, context_len);
  a.element_bytes = element_bytes;
  a.rewrites = true;
  return a;
}

void append_attention(const DenseCase& a, LaunchSequence& out) {
  if (a.rewrites && takes_dense_pass(a.shape.num_heads, a.shape.num_kv_heads, a.shape.head_dim,
                                     a.num_queries(), a.element_bytes)) {
    append_dense_pass(a, out);
  } else if (a.key_block > 0 && a.launch_by_launch) {
    append_resa_launches(a, out);
  } else if (a.key_block > 0) {
    out.push_back(trace_resa_decode(a));
  } else {
    if (a.indexed > 0) {
      append_index_choice(a, out);
    }
    append_flash_decode(a, out);
  }
}

std::vector<LaunchSequence> decode_sequences(const PointKey& key, std::uint64_t seed,
                                             double cold_bytes, std::int64_t most,
                                             const PairSource* pair, const MeasuredChoice* choice) {
  const Strategy strategy = Strategy::parse(key.strategy);
  const LlmShape shape = simulated_shape(key, strategy, pair);
  if (strategy.attention == AttentionMethod::kNsa) {
    throw Error(ExitCode::kAnswerNo, "decode points read a dense cache; nsa has attention points");
  }
  if (key.workload == WorkloadKind::kRectify && strategy.resa_rectify_every < 1) {
    throw Error(ExitCode::kAnswerNo, kNoPass);
  }
  DenseCase a =
      key.workload == WorkloadKind::kRectify
          ? rewritten_case(shape, strategy.resa_rectify_every, key.context_len, bytes_of(key.dtype))
          : attended_case(shape, strategy, key.context_len, bytes_of(key.dtype), seed, choice);
  const std::int64_t rows = strategy.draft.levels();
  AddressSpace space;
  place_dense_shared(space, a);
  const bool by_draft = a.listed && a.indexed == 0;
  if (by_draft) {
    a.at.weights = space.place(rows * a.context_len * kFloat);
    a.at.mask = space.place(a.context_len * 4);
    a.at.mass = space.place(rows * kFloat);
  }
  std::int64_t sets = 1;
  if (key.cache_state == CacheState::kColdRotate) {
    const double bytes = 2.0 * static_cast<double>(a.context_len * a.token_bytes());
    sets =
        std::min({cold_sets(cold_bytes, touched_of(a)), most,
                  std::max<std::int64_t>(2, static_cast<std::int64_t>(kMostCacheBytes / bytes))});
  }
  std::vector<LaunchSequence> sequences(static_cast<std::size_t>(sets));
  for (LaunchSequence& sequence : sequences) {
    place_dense_cache(space, a);
    if (by_draft) {
      append_top_p(a, rows, sequence);
    } else if (a.indexed > 0) {
      sequence.push_back(trace_index_keys(a));
    }
    append_attention(a, sequence);
    if (a.key_block > 0) {
      sequence.push_back(trace_block_keys(a));
    }
  }
  return sequences;
}

}  // namespace versieve::engine
