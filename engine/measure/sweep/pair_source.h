// A trained pair and the texts that it is measured on, as a campaign is given them; and what the
// runners of its points share of them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "engine/io/checkpoint.h"
#include "engine/io/prompt/stop_tokens.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/prompt_list.h"
#include "engine/measure/sweep/text_windows.h"
#include "model/words/measurement.h"
#include "model/words/pair_id.h"

namespace versieve::engine {

struct SweepPlan;  // engine/measure/sweep/sweep.h

struct PairSource {
  PairId id = byte_pair();
  std::filesystem::path model;  // target, draft/, tokenizer
  PromptList prompts;
};

// The draft head in a pair's folder; of a dense target none where there is none, or a draft model.
std::optional<DraftCheckpoint> head_of(const std::filesystem::path& model, const LlmShape& target);

// Loaded: weights in memory, prompts as tokens.
struct LoadedPair {
  explicit LoadedPair(const PairSource& source)
      : target(load_target(source.model)),
        draft(head_of(source.model, target.shape)),
        eos(stop_tokens(source.model, target.special.eos)),
        tokenizer(load_tokenizer(source.model, target.shape)),
        texts(source.prompts, *tokenizer, source.model) {}

  Checkpoint target;
  std::optional<DraftCheckpoint> draft;  // a head; of a dense target none or a model may be there
  std::vector<std::int32_t> eos;         // any of them ends what is generated
  std::unique_ptr<const Tokenizer> tokenizer;
  PromptTexts texts;
};

// What a run keeps of the pair, as JSON: name, sha256, and the configurations of target and draft
// ("config", "draft_config"), so that a database's pair can be planned for without its folder.
std::string pair_configuration(const PairSource& pair);

// Why the point is not of that pair, or an empty text.
std::string other_pair_because(const PointKey& key, const PairSource& pair);
// That the point's text is too short.
std::string no_text_because(const PointKey& key);
// Of a plan all of whose points walk texts: throws Error(kUsage) where the pair can run none of
// them, Error(kBadInput) where no text is long enough for one that it can run.
void require_walkable(const SweepPlan& plan, const PairSource& pair);

}  // namespace versieve::engine
