// The geometry that a prediction is for: one by name, a trained pair's as its folder has it, or as
// a database keeps it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/words/llm_shape.h"
#include "model/words/pair_id.h"

namespace versieve::engine {

struct PairShape {
  LlmShape target;       // its name is the text that asked for it, less what that says of the draft
  DraftShape draft;      // that is planned with: the pair's own, or what usual_draft says
  DraftShape own_draft;  // that its steps were timed with, whatever is planned with
  // Of a dense target: its draft where that is a model of its own, and whether there is any.
  std::optional<LlmShape> draft_model;
  bool drafts = true;
  std::filesystem::path folder;  // empty: a geometry by its name, or a pair of a database
  std::optional<PairId> kept;    // of a pair of a database

  bool is_pair() const { return kept.has_value() || !folder.empty(); }
};

// A pair whose configuration a run of a database keeps (engine::pair_configuration).
struct KeptPair {
  PairId id;
  std::string configuration;  // JSON
};
// Out of the configurations of a database's runs, in the order in which they were stored: of each
// hash the last one's. Sorted by hash.
std::vector<KeptPair> kept_pairs(const std::vector<std::string>& run_configurations);

// A name of named_llm_shape; a folder with a config.json and, in draft/, a draft head's or, of a
// dense target, a draft model's; or one of
// `kept`, by its name or by eight or more digits of its hash. `draft_vocab`: tokens that the draft
// proposes, in the place of what the pair or usual_draft says; a name that says itself must agree.
// `database`, which `kept` are of, is named in sentences; empty: there is none. Throws
// Error(kUsage) for a text that is none of these or several pairs, a dense geometry's name, a draft
// model of an NSA target, a draft of tokens where the pair has none to choose, and a draft of no
// tokens, more than the target's or others than the name's; Error(kBadInput) for a configuration
// that the engine does not read.
PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab = {},
                     const std::vector<KeptPair>& kept = {}, const std::string& database = {});

// What a plan is for where nobody says: the first of these pairs (hashes) whose configuration is
// kept, by its hash; else the geometry nsa-1b.
std::string usual_model(const std::vector<std::string>& timed_most_first,
                        const std::vector<KeptPair>& kept);

}  // namespace versieve::engine
