#include "engine/measure/sweep/pair_source.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/io/input_file.h"
#include "engine/io/model_config.h"
#include "engine/io/strict_json.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/error.h"
#include "model/words/strategy.h"

namespace versieve::engine {

std::string pair_configuration(const PairSource& pair) {
  nlohmann::json kept = {{"name", pair.id.name},
                         {"sha256", pair.id.sha256},
                         {"config", read_json_object(pair.model / "config.json")}};
  if (const std::filesystem::path draft = pair.model / "draft"; is_there(draft)) {
    kept["draft_config"] = read_json_object(draft / "config.json");
  }
  return kept.dump();
}

std::string other_pair_because(const PointKey& key, const PairSource& pair) {
  return key.model == pair.id.name && key.pair == pair.id.sha256
             ? std::string()
             : "the point is of the trained pair " + text_of(PairId{key.model, key.pair}) +
                   ", and the one at hand is " + text_of(pair.id);
}

std::string no_text_because(const PointKey& key) {
  return "no " + key.split + " prompt of regime '" + key.regime + "' is as long as " +
         std::to_string(key.context_len) + " tokens and a continuation";
}

std::optional<DraftCheckpoint> head_of(const std::filesystem::path& model, const LlmShape& target) {
  const std::filesystem::path draft = model / "draft";
  if (target.attention == AttentionKind::kDense && (!is_there(draft) || is_draft_model(draft))) {
    return {};
  }
  return load_draft(draft, target);
}

void require_walkable(const SweepPlan& plan, const PairSource& pair) {
  const LlmShape target = read_target_config(pair.model).shape;
  const bool is_dense = target.attention == AttentionKind::kDense;
  std::optional<PromptTexts> texts;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::string illegal, no_text;
  for (const PointKey& key : plan.points) {
    if (key.workload != WorkloadKind::kAcceptance) {
      return;
    }
    std::string reason = illegal_because(Strategy::parse(key.strategy), target);
    if (!reason.empty()) {
      illegal = illegal.empty() ? std::move(reason) : illegal;
      continue;
    }
    if (!texts) {
      tokenizer = load_tokenizer(pair.model, target);
      texts.emplace(pair.prompts, *tokenizer, pair.model);
    }
    if (!texts
             ->windows({.regime = key.regime,
                        .split = key.split,
                        .context_len = key.context_len,
                        .continuation_len = kContinuation,
                        .count = 1,
                        .as_prompts = !is_dense})
             .empty()) {
      return;
    }
    no_text = no_text.empty() ? no_text_because(key) : no_text;
  }
  if (illegal.empty() && no_text.empty()) {
    return;
  }
  throw Error(no_text.empty() ? ExitCode::kUsage : ExitCode::kBadInput,
              pair.model.string() + ": the sweep " + plan.name +
                  " has no point of it: " + (no_text.empty() ? illegal : no_text));
}

}  // namespace versieve::engine
