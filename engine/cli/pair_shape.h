// The geometry that a prediction is for: one by name, a trained pair's as its folder has it, or as
// a database keeps it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/words/llm_shape.h"
#include "model/words/pair_id.h"

namespace versieve::cli {

struct PairShape {
  LlmShape target;   // its name is the text that asked for it, less what that says of the draft
  DraftShape draft;  // the pair's own, or what usual_draft says
  std::filesystem::path folder;  // empty: a geometry by its name, or a pair of a database
  std::optional<PairId> kept;    // of a pair of a database

  bool is_pair() const { return kept.has_value() || !folder.empty(); }
};

// A name of named_llm_shape; a folder with a config.json and, in draft/, a draft head's; or a pair
// of `database` (empty: none), by its name or by eight or more digits of its hash, if a run there
// keeps its configuration. `draft_vocab`: tokens that the draft proposes, in the place of what the
// pair or usual_draft says; a name that says itself must agree. Throws Error(kUsage) for a text
// that is none of these or several pairs, a dense target, a draft that is a model of its own and a
// draft of no tokens, more than the target's or others than the name's; Error(kBadInput) for a
// configuration that the engine does not read.
PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab = {},
                     const std::string& database = {});

// What a plan from `database` (may be empty) is for where nobody says: the pair whose own steps
// were timed there on `device` (part of its name) most, by its hash; without one, the geometry
// nsa-1b.
std::string usual_model(const std::string& database, const std::string& device);

}  // namespace versieve::cli
