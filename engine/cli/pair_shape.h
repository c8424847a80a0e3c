// The geometry that a prediction is for: one by name, or a trained pair's as its folder has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/words/llm_shape.h"

namespace versieve::cli {

struct PairShape {
  LlmShape target;   // its name is the text that asked for it, less what that says of the draft
  DraftShape draft;  // the folder's, or what draft_shape_for says
  std::filesystem::path folder;  // empty: a geometry by its name
};

// A name of named_llm_shape, or a folder with a config.json and, in draft/, a draft head's.
// `draft_vocab`: tokens that the draft proposes, in the place of what the folder or draft_shape_for
// says; a name that says itself must agree. Throws Error(kUsage) for a text that is neither, a
// dense target, a draft that is a model of its own and a draft of no tokens, more than the target's
// or others than the name's; Error(kBadInput) for a configuration that the engine does not read.
PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab = {});

}  // namespace versieve::cli
