#include "engine/analyse/sim/simulate_point.h"

#include <algorithm>
#include <limits>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/decode_sequences.h"
#include "engine/analyse/sim/kernel_sequences.h"
#include "engine/analyse/sim/step_sequence.h"
#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/step_point.h"
#include "engine/run/speculate/draft_choice.h"
#include "model/launches/decode_layers.h"
#include "model/launches/draft_levels.h"
#include "model/launches/nsa_shape.h"
#include "model/words/cache_passes.h"
#include "model/words/draft_tree.h"
#include "model/words/error.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

// Throws Error(kAnswerNo) for what the engine would refuse.
Strategy simulated_strategy(const PointKey& key, const LlmShape& shape) {
  const Strategy strategy = Strategy::parse(key.strategy);
  if (const std::string reason = illegal_because(strategy, shape); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, reason);
  }
  return strategy;
}

DraftTree tree_of(const Strategy& strategy) {
  const DraftTree grown = synthetic_tree(strategy.draft);
  return reordered(grown, traversal_order(grown, strategy.order));
}

std::optional<DraftCase> draft_of(const Strategy& strategy, const LlmShape& target,
                                  const PointKey& key) {
  if (!strategy.draft.speculates()) {
    return std::nullopt;
  }
  const DraftShape draft = draft_shape_for(target);
  return DraftCase{.shape = draft,
                   .choice = strategy.draft,
                   .context_len = key.context_len,
                   .element_bytes = bytes_of(key.dtype),
                   .one_launch = key.dtype == Dtype::kBf16 &&
                                 drafts_in_one_launch(draft, target.vocab, strategy.draft)};
}

AttentionCase attention_of(const PointKey& key) {
  const LlmShape shape = named_llm_shape(key.model);
  const Strategy strategy = simulated_strategy(key, shape);
  if (strategy.attention != AttentionMethod::kNsa) {
    throw Error(ExitCode::kAnswerNo,
                "attention points are of nsa; decode points read a dense cache");
  }
  const DraftTree grown = synthetic_tree(strategy.draft);
  AttentionCase a = attention_case(shape, reordered(grown, traversal_order(grown, strategy.order)),
                                   key.context_len);
  a.form = strategy.form;
  a.group_size = strategy.group_size;
  a.group_mode = strategy.group_mode;
  a.reuse = strategy.schedule.find('R') != std::string::npos;
  a.element_bytes = bytes_of(key.dtype);
  return a;
}

// What counters of a period watch: the pass that ends it, over its tokens, of which the last one's
// logits are wanted.
LaunchSequence pass_sequence(const PointKey& key) {
  const LlmShape shape = named_llm_shape(key.model);
  const Strategy strategy = simulated_strategy(key, shape);
  const std::int64_t tokens = strategy.resa_rectify_every;
  if (strategy.attention != AttentionMethod::kResa || tokens < 1) {
    throw Error(ExitCode::kAnswerNo, "a strategy that never rectifies has no period");
  }
  const std::int64_t element_bytes = bytes_of(key.dtype);
  const std::vector<DenseCase> dense(static_cast<std::size_t>(shape.layers),
                                     rewritten_case(shape, tokens, key.context_len, element_bytes));
  DraftTree chain;
  chain.parent = dense.front().parent;
  chain.depth = dense.front().depth;
  return step_sequence({.shape = shape,
                        .tree = std::move(chain),
                        .context_len = key.context_len,
                        .element_bytes = element_bytes,
                        .committed = tokens,
                        .last_logits_only = true,
                        .dense = dense});
}

// Copies of the cache that the sweep rotates through: so many that each is cold again.
std::int64_t rotated_sets(const PointKey& key, const KnownBlocks& known,
                          const MemoryMachine& machine) {
  const LlmShape shape = named_llm_shape(key.model);
  const traffic::NsaVerifyShape touched{.nsa = shape.nsa,
                                        .num_heads = shape.num_heads,
                                        .num_kv_heads = shape.num_kv_heads,
                                        .head_dim = shape.head_dim,
                                        .context_len = key.context_len,
                                        .num_queries = key.num_queries,
                                        .element_bytes = bytes_of(key.dtype),
                                        .unique_blocks = known.unique_blocks.value_or(0.0)};
  return cold_sets(kColdPasses * static_cast<double>(machine.l2_bytes), touched_bytes(touched));
}

// The launches on each set of buffers that a timed sample rotates through; of a run that nobody
// watches, on those of its repetitions.
std::vector<LaunchSequence> sets_of(const PointKey& key, const KnownBlocks& known,
                                    const SimulationPlan& plan) {
  const bool rotates = key.cache_state == CacheState::kColdRotate;
  const double cold_bytes = kColdPasses * static_cast<double>(plan.machine.l2_bytes);
  const std::int64_t most =
      plan.protocol.warm_up ? std::numeric_limits<std::int64_t>::max() : plan.protocol.repetitions;
  switch (key.workload) {
    case WorkloadKind::kAttention:
      return attention_sequences(
          key, known, plan.seed,
          std::min(most, rotates ? rotated_sets(key, known, plan.machine) : 1));
    case WorkloadKind::kDecode:
    case WorkloadKind::kRectify:
      return decode_sequences(key, plan.seed, cold_bytes, most);
    case WorkloadKind::kStep: {
      std::vector<LaunchSequence> one;
      one.push_back(step_point_sequence(key, known, plan.seed, true));
      return one;
    }
    case WorkloadKind::kRectifiedStep: {
      std::vector<LaunchSequence> one;
      one.push_back(pass_sequence(key));
      return one;
    }
    case WorkloadKind::kTopk:
    case WorkloadKind::kSampling:
    case WorkloadKind::kMachine:
      return kernel_sequences(key, cold_bytes, most);
    case WorkloadKind::kAcceptance:
      break;
  }
  throw Error(ExitCode::kAnswerNo,
              std::string("the simulator has no launches of ") + name_of(key.workload) + " points");
}

// What a sweep's collection runs: uncounted runs on all sets of a timed sample, then the counted.
CollectedRuns runs_of(const PointKey& key, const KnownBlocks& known, const SimulationPlan& plan) {
  const std::int64_t repetitions = plan.protocol.repetitions;
  CollectedRuns runs{.sets = sets_of(key, known, plan)};
  const std::int64_t sets = static_cast<std::int64_t>(runs.sets.size());
  const std::int64_t uncounted = key.cache_state == CacheState::kWarm ? kWarmRuns : sets;
  for (std::int64_t i = 0; plan.protocol.warm_up && i < uncounted; ++i) {
    runs.uncounted.push_back(static_cast<std::size_t>(i % sets));
  }
  for (std::int64_t i = 0; i < repetitions; ++i) {
    runs.counted.push_back(static_cast<std::size_t>(i % sets));
  }
  return runs;
}

}  // namespace

std::vector<LaunchSequence> attention_sequences(const PointKey& key, const KnownBlocks& known,
                                                std::uint64_t seed, std::int64_t sets) {
  AttentionCase a = attention_of(key);
  a.indices = attended_blocks(a, key.overlap, known, seed);
  AddressSpace space;
  place_shared(space, a);
  std::vector<LaunchSequence> sequences;
  for (std::int64_t set = 0; set < sets; ++set) {
    if (set == 0 || key.cache_state != CacheState::kWarm) {
      place_cache(space, a);
    }
    sequences.push_back(attention_traces(a));
  }
  return sequences;
}

LaunchSequence step_point_sequence(const PointKey& key, const KnownBlocks& known,
                                   std::uint64_t seed, bool one_launch) {
  const LlmShape shape = named_llm_shape(key.model);
  const Strategy strategy = simulated_strategy(key, shape);
  const bool plain = !strategy.draft.speculates() && strategy.form == NsaForm::kFused;
  std::vector<DenseCase> dense;
  for (std::int64_t layer = 0; strategy.attention != AttentionMethod::kNsa && layer < shape.layers;
       ++layer) {
    const bool reads_all =
        strategy.attention == AttentionMethod::kSpecAttn && layer < SpecAttnOptions{}.dense_layers;
    Strategy own = strategy;
    own.attention = reads_all ? AttentionMethod::kDense : strategy.attention;
    dense.push_back(attended_case(shape, own, key.context_len, bytes_of(key.dtype),
                                  seed + static_cast<std::uint64_t>(layer)));
  }
  const bool one = one_launch && plain && dense.empty() && key.dtype == Dtype::kBf16 &&
                   decodes_in_one_launch(shape, key.context_len);
  return step_sequence(
      {.shape = shape,
       .form = strategy.form,
       .group_size = strategy.group_size,
       .group_mode = strategy.group_mode,
       .schedule = dense.empty() ? strategy.schedule_for(shape.layers) : std::string(),
       .tree = tree_of(strategy),
       .context_len = key.context_len,
       .element_bytes = bytes_of(key.dtype),
       .overlap = key.overlap,
       .known = known,
       .seed = seed,
       .draft = draft_of(strategy, shape, key),
       .committed = strategy.draft.speculates() ? kCommittedNodes : 1,
       .one_launch = one,
       .dense = std::move(dense)});
}

PointMeasurement simulate_point(const PointKey& key, const KnownBlocks& known,
                                const SimulationPlan& plan) {
  PointMeasurement point{.key = key};
  point.key.backend = Backend::kSimulator;
  point.adjacent_overlap = known.adjacent_overlap;
  point.unique_blocks = known.unique_blocks;
  try {
    fill_ranges(collect(plan.machine, plan.protocol, runs_of(key, known, plan)), point);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAnswerNo) {
      throw;
    }
    point.status = PointStatus::kRefused;
    point.reason = error.what();
  }
  return point;
}

}  // namespace versieve::engine
