#include "engine/analyse/sim/simulate_point.h"

#include <algorithm>
#include <limits>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/decode_sequences.h"
#include "engine/analyse/sim/kernel_sequences.h"
#include "engine/analyse/sim/simulated_shape.h"
#include "engine/analyse/sim/specattn_sequence.h"
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

DraftTree tree_of(const Strategy& strategy) {
  const DraftTree grown = synthetic_tree(strategy.draft);
  return reordered(grown, traversal_order(grown, strategy.order));
}

// Of the head that the target's streams feed; SpecAttn's chain is a model's of its own.
std::optional<DraftCase> draft_of(const Strategy& strategy, const LlmShape& target,
                                  const PointKey& key, const PairSource* pair) {
  if (!strategy.draft.speculates() || strategy.attention == AttentionMethod::kSpecAttn) {
    return std::nullopt;
  }
  const DraftShape draft = simulated_draft(key, target, pair);
  return DraftCase{.shape = draft,
                   .choice = strategy.draft,
                   .context_len = key.context_len,
                   .element_bytes = bytes_of(key.dtype),
                   .one_launch = key.dtype == Dtype::kBf16 &&
                                 drafts_in_one_launch(draft, target.vocab, strategy.draft)};
}

AttentionCase attention_of(const PointKey& key, const PairSource* pair) {
  const Strategy strategy = Strategy::parse(key.strategy);
  const LlmShape shape = simulated_shape(key, strategy, pair);
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

// Layers over a dense cache. ReSA's choose each their own blocks; SpecAttn's first ones read all,
// the others the one list that its draft's layer chose.
std::vector<DenseCase> layers_of(const Strategy& strategy, const LlmShape& shape,
                                 const PointKey& key, std::uint64_t seed,
                                 const MeasuredChoice* choice) {
  std::vector<DenseCase> layers;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const bool chooses = strategy.attention == AttentionMethod::kSpecAttn;
    const std::int64_t whole = SpecAttnOptions{}.dense_layers;
    if (chooses && layer > whole) {
      layers.push_back(layers.back());
      continue;
    }
    Strategy own = strategy;
    own.attention = chooses && layer < whole ? AttentionMethod::kDense : strategy.attention;
    layers.push_back(attended_case(shape, own, key.context_len, bytes_of(key.dtype),
                                   chooses ? seed : seed + static_cast<std::uint64_t>(layer),
                                   choice));
    layers.back().counted_later = layers.back().listed && chooses;
  }
  return layers;
}

// What counters of a period watch: the pass that ends it, over its tokens, of which the last one's
// logits are wanted.
LaunchSequence pass_sequence(const PointKey& key, const PairSource* pair) {
  const Strategy strategy = Strategy::parse(key.strategy);
  const LlmShape shape = simulated_shape(key, strategy, pair);
  const std::int64_t tokens = strategy.resa_rectify_every;
  if (strategy.attention != AttentionMethod::kResa || tokens < 1) {
    throw Error(ExitCode::kAnswerNo, kNoPass);
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
                          const SimulationPlan& plan) {
  const LlmShape shape = simulated_shape(key, Strategy::parse(key.strategy), plan.pair);
  const traffic::NsaVerifyShape touched{.nsa = shape.nsa,
                                        .num_heads = shape.num_heads,
                                        .num_kv_heads = shape.num_kv_heads,
                                        .head_dim = shape.head_dim,
                                        .context_len = key.context_len,
                                        .num_queries = key.num_queries,
                                        .element_bytes = bytes_of(key.dtype),
                                        .unique_blocks = known.unique_blocks.value_or(0.0)};
  return cold_sets(kColdPasses * static_cast<double>(plan.machine.l2_bytes),
                   touched_bytes(touched));
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
      return attention_sequences(key, known, plan.seed,
                                 std::min(most, rotates ? rotated_sets(key, known, plan) : 1),
                                 plan.pair);
    case WorkloadKind::kDecode:
    case WorkloadKind::kRectify:
      return decode_sequences(key, plan.seed, cold_bytes, most, plan.pair, plan.choice);
    case WorkloadKind::kStep: {
      if (key.temperature > 0.0) {
        throw Error(ExitCode::kAnswerNo,
                    "steps that draw their tokens are not traced: simulate them greedily");
      }
      std::vector<LaunchSequence> one;
      one.push_back(step_point_sequence(key, known, plan.seed, true, plan.pair, plan.choice));
      return one;
    }
    case WorkloadKind::kRectifiedStep: {
      std::vector<LaunchSequence> one;
      one.push_back(pass_sequence(key, plan.pair));
      return one;
    }
    case WorkloadKind::kTopk:
    case WorkloadKind::kSampling:
    case WorkloadKind::kMachine:
      return kernel_sequences(key, cold_bytes, most);
    case WorkloadKind::kBatch:
      throw Error(ExitCode::kAnswerNo, "steps of many requests are not traced: simulate one");
    case WorkloadKind::kAcceptance:
      break;
  }
  throw Error(
      ExitCode::kAnswerNo,
      "acceptance is of a pair's weights on texts: the simulator counts what launches move");
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
                                                std::uint64_t seed, std::int64_t sets,
                                                const PairSource* pair) {
  AttentionCase a = attention_of(key, pair);
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
                                   std::uint64_t seed, bool one_launch, const PairSource* pair,
                                   const MeasuredChoice* choice) {
  const Strategy strategy = Strategy::parse(key.strategy);
  const LlmShape shape = simulated_shape(key, strategy, pair);
  const std::int64_t element_bytes = bytes_of(key.dtype);
  const bool plain = !strategy.draft.speculates() && strategy.form == NsaForm::kFused;
  LaunchSequence launches;
  StepCase step{.shape = shape,
                .form = strategy.form,
                .group_size = strategy.group_size,
                .group_mode = strategy.group_mode,
                .tree = tree_of(strategy),
                .context_len = key.context_len,
                .element_bytes = element_bytes,
                .overlap = key.overlap,
                .known = known,
                .seed = seed,
                .draft = draft_of(strategy, shape, key, pair),
                .committed = strategy.draft.speculates() ? kCommittedNodes : 1};
  if (strategy.attention == AttentionMethod::kNsa) {
    step.schedule = strategy.schedule_for(shape.layers);
    step.one_launch = one_launch && plain && key.dtype == Dtype::kBf16 &&
                      decodes_in_one_launch(shape, key.context_len);
  } else {
    step.dense = layers_of(strategy, shape, key, seed, choice);
  }
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    step.listed_at = append_specattn({.target = shape,
                                      .steps = strategy.draft.levels(),
                                      .context_len = key.context_len,
                                      .element_bytes = element_bytes,
                                      .tokens = step.dense.back().tokens},
                                     launches);
  }
  for (std::unique_ptr<LaunchTrace>& launch : step_sequence(step)) {
    launches.push_back(std::move(launch));
  }
  return launches;
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
