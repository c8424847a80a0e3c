// The sweep of the steps that a played table rests on.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/measure/bench/planner_cells.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

void add_once(const Strategy& strategy, std::vector<Strategy>& out) {
  const bool steps_as_the_target = strategy.attention == AttentionMethod::kNsa &&
                                   strategy.sampling != SamplingAlgorithm::kSigmoid &&
                                   !strategy.adapts_length;
  if (steps_as_the_target && std::find(out.begin(), out.end(), strategy) == out.end()) {
    out.push_back(strategy);
  }
}

std::vector<Strategy> steps_of(const PlanTable& table, std::int64_t bucket,
                               const std::vector<PrecisionClass>& classes,
                               std::int64_t candidates) {
  std::vector<Strategy> out;
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.role == "autoregressive") {
      add_once(b.evaluation.strategy, out);
    }
  }
  for (const std::optional<Strategy>& base :
       {coarsened_base(table, bucket), single_base(table, bucket)}) {
    if (base) {
      add_once(*base, out);
    }
  }
  for (const PrecisionClass precision : classes) {
    const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
    const std::size_t most = std::min(entries.size(), static_cast<std::size_t>(candidates));
    for (std::size_t i = 0; i < most; ++i) {
      add_once(entries[i]->evaluation.strategy, out);
    }
  }
  return out;
}

// A canonical text is nsa/draft/order/group/schedule[/option...]; plain decoding leaves out what is
// usual.
ordered_json grid_of(const Strategy& s) {
  std::vector<std::string> parts;
  const std::string text = s.text();
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('/', begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  ordered_json grid = {{"workload", "step"}, {"draft", parts.at(1)}, {"schedule", s.schedule}};
  if (s.draft.speculates()) {
    grid["order"] = parts.at(2);
    grid["group"] = parts.at(3);
  }
  if (s.form == NsaForm::kVanilla) {
    grid["form"] = name_of(s.form);
  }
  return grid;
}

// A sweep's word for who steps: the pair at hand, or a geometry with its draft's tokens.
std::string stepping_model(const PlanTable& table) {
  if (table.sources && table.sources->pair) {
    return kPairModel;
  }
  const std::int64_t vocab = named_llm_shape(table.model).vocab;
  const bool some = table.draft_vocab > 0 && table.draft_vocab < vocab;
  return some ? target_name(table.model) + ":v" + std::to_string(table.draft_vocab) : table.model;
}

}  // namespace

std::string sweep_of_steps(const PlanTable& table, const std::vector<PrecisionClass>& classes,
                           std::int64_t candidates, const std::string& regime,
                           const std::string& split) {
  const std::string model = stepping_model(table);
  const bool of_pair = model == kPairModel;
  ordered_json grids = ordered_json::array();
  for (std::size_t bucket = 0; bucket < table.buckets.size(); ++bucket) {
    const ContextBucket& range = table.buckets[bucket];
    for (const Strategy& strategy :
         steps_of(table, static_cast<std::int64_t>(bucket), classes, candidates)) {
      ordered_json grid = grid_of(strategy);
      grid["model"] = model;
      grid["context_len"] = (range.low + range.high) / 2;
      grid["dtype"] = table.dtype;
      grid["launch"] = table.launch;
      if (table.temperature > 0.0) {
        grid["temperature"] = table.temperature;
      }
      if (of_pair) {
        grid["regime"] = regime;
        grid["split"] = split;
      }
      grids.push_back(std::move(grid));
    }
  }
  if (grids.empty()) {
    return {};
  }
  const ordered_json sweep = {
      {"name", "planned-steps"},
      {"trace_repetitions", 1},
      {"counter_repetitions", 0},
      {"timing",
       {{"warm_up_s", 0.01}, {"min_samples", 20}, {"max_samples", 200}, {"time_limit_s", 0.2}}},
      {"grids", grids}};
  return sweep.dump(1) + "\n";
}

}  // namespace versieve::engine
