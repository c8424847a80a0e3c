#include "engine/sim/simulate_point.h"

#include "engine/sim/attention_traces.h"
#include "engine/sim/step_sequence.h"
#include "model/draft_tree.h"
#include "model/error.h"
#include "model/strategy.h"

namespace versieve::engine {
namespace {

// Throws Error(kAnswerNo) for what the engine would refuse or the simulator has no traces of.
Strategy simulated_strategy(const PointKey& key, const LlmShape& shape) {
  const Strategy strategy = Strategy::parse(key.strategy);
  if (const std::string reason = illegal_because(strategy, shape); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, reason);
  }
  if (strategy.attention != AttentionMethod::kNsa) {
    throw Error(ExitCode::kAnswerNo, "the simulator has traces of NSA's launches only");
  }
  return strategy;
}

DraftTree tree_of(const Strategy& strategy) {
  const DraftTree grown = synthetic_tree(strategy.draft);
  return reordered(grown, traversal_order(grown, strategy.order));
}

AttentionCase attention_of(const PointKey& key) {
  const LlmShape shape = named_llm_shape(key.model);
  const Strategy strategy = simulated_strategy(key, shape);
  const DraftTree grown = synthetic_tree(strategy.draft);
  AttentionCase a = attention_case(shape, reordered(grown, traversal_order(grown, strategy.order)),
                                   key.context_len);
  a.form = strategy.form;
  a.group_size = strategy.group_size;
  a.group_mode = strategy.group_mode;
  a.reuse = strategy.schedule.find('R') != std::string::npos;
  a.element_bytes = key.dtype == "f32" ? 4 : 2;
  return a;
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
    if (set == 0 || key.cache_state != "warm") {
      place_cache(space, a);
    }
    sequences.push_back(attention_traces(a));
  }
  return sequences;
}

LaunchSequence verification_sequence(const PointKey& key, const KnownBlocks& known,
                                     std::uint64_t seed) {
  const LlmShape shape = named_llm_shape(key.model);
  const Strategy strategy = simulated_strategy(key, shape);
  return step_sequence({.shape = shape,
                        .form = strategy.form,
                        .group_size = strategy.group_size,
                        .group_mode = strategy.group_mode,
                        .schedule = strategy.schedule_for(shape.layers),
                        .tree = tree_of(strategy),
                        .context_len = key.context_len,
                        .element_bytes = key.dtype == "f32" ? 4 : 2,
                        .overlap = key.overlap,
                        .known = known,
                        .seed = seed,
                        .captures = strategy.draft.speculates() ? 3 : 0});
}

PointMeasurement simulate_point(const PointKey& key, const KnownBlocks& known,
                                const SimulationPlan& plan) {
  PointMeasurement point{.key = key};
  point.key.backend = "sim";
  point.adjacent_overlap = known.adjacent_overlap;
  point.unique_blocks = known.unique_blocks;
  try {
    std::vector<LaunchSequence> repetitions;
    switch (key.workload) {
      case WorkloadKind::kAttention:
        repetitions = attention_sequences(key, known, plan.seed, plan.protocol.repetitions);
        break;
      case WorkloadKind::kStep:
        for (std::int64_t i = 0; i < plan.protocol.repetitions; ++i) {
          repetitions.push_back(verification_sequence(key, known, plan.seed));
        }
        break;
      case WorkloadKind::kAcceptance:
        throw Error(ExitCode::kAnswerNo, "the simulator moves bytes; it accepts no tokens");
      case WorkloadKind::kDecode:
      case WorkloadKind::kTopk:
      case WorkloadKind::kSampling:
        throw Error(ExitCode::kAnswerNo, "the simulator knows the launches of attention and step");
    }
    fill_ranges(collect(plan.machine, plan.protocol, repetitions), point);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAnswerNo) {
      throw;
    }
    point.status = "refused";
    point.reason = error.what();
  }
  return point;
}

}  // namespace versieve::engine
