#include "engine/sim/simulate_point.h"

#include "engine/sim/attention_traces.h"
#include "model/draft_tree.h"
#include "model/error.h"
#include "model/strategy.h"

namespace versieve::engine {
namespace {

AttentionCase attention_of(const PointKey& key) {
  const Strategy strategy = Strategy::parse(key.strategy);
  const LlmShape shape = named_llm_shape(key.model);
  if (const std::string reason = illegal_because(strategy, shape); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, reason);
  }
  if (strategy.attention != AttentionMethod::kNsa) {
    throw Error(ExitCode::kAnswerNo, "the simulator has traces of NSA's launches only");
  }
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

PointMeasurement simulate_point(const PointKey& key, const KnownBlocks& known,
                                const SimulationPlan& plan) {
  PointMeasurement point{.key = key};
  point.key.backend = "sim";
  point.adjacent_overlap = known.adjacent_overlap;
  point.unique_blocks = known.unique_blocks;
  try {
    if (key.workload != WorkloadKind::kAttention) {
      throw Error(ExitCode::kAnswerNo,
                  std::string("workload '") + name_of(key.workload) + "' is not simulated");
    }
    fill_ranges(collect(plan.machine, plan.protocol,
                        attention_sequences(key, known, plan.seed, plan.protocol.repetitions)),
                point);
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
