#include "engine/cli/pair_shape.h"

#include <filesystem>

#include "engine/io/model_config.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

namespace fs = std::filesystem;

// As the folder has it, without its weights.
PairShape pair_in(const fs::path& folder) {
  const LlmShape target = engine::read_target_config(folder).shape;
  const fs::path draft = folder / "draft";
  std::error_code none;
  if (!fs::exists(draft, none)) {
    return {target, draft_shape_for(target), {}};
  }
  if (engine::is_draft_model(draft)) {
    throw Error(ExitCode::kUsage, draft.string() +
                                      ": a draft that is a model of its own has no price; a draft "
                                      "head on the target's streams has");
  }
  return {target, engine::read_draft_config(draft, target).shape, {}};
}

PairShape find_pair(const std::string& model) {
  try {
    LlmShape target = named_llm_shape(model);
    target.name = target_name(model);
    return {target, draft_shape_for(target), {}};
  } catch (const Error& error) {
    std::error_code none;
    if (!fs::is_directory(model, none)) {
      const bool names_draft = target_name(model) != model;
      throw Error(error.code(),
                  error.what() + std::string(names_draft ? "" : ", and there is no such folder"));
    }
  }
  PairShape pair = pair_in(model);
  pair.target.name = model;
  pair.folder = model;
  return pair;
}

}  // namespace

PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab) {
  PairShape pair = find_pair(model);
  if (pair.target.attention != AttentionKind::kNsa) {
    throw Error(ExitCode::kUsage, "--model is a sparse geometry's, " + model +
                                      " is none; a strategy over a dense cache asks for its dense "
                                      "form by itself");
  }
  if (draft_vocab) {
    if (*draft_vocab < 1 || *draft_vocab > pair.target.vocab) {
      throw Error(ExitCode::kUsage, "--draft-vocab is from 1 to the target's vocabulary, " +
                                        std::to_string(pair.target.vocab));
    }
    if (pair.target.draft_vocab > 0 && *draft_vocab != pair.target.draft_vocab) {
      throw Error(ExitCode::kUsage, "--model " + model + " and --draft-vocab " +
                                        std::to_string(*draft_vocab) +
                                        " say different drafts: leave one out");
    }
    pair.draft.vocab = *draft_vocab;
  }
  return pair;
}

}  // namespace versieve::cli
