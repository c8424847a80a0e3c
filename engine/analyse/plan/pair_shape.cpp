#include "engine/analyse/plan/pair_shape.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/io/model_config.h"
#include "model/words/error.h"
#include "model/words/lower_case.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualGeometry = "nsa-1b";

// What is planned with: the pair's head, or its draft model; a head that goes with an NSA target
// where there is neither.
struct OwnDraft {
  std::optional<DraftShape> head;
  std::optional<LlmShape> model;
};

PairShape shape_with(const LlmShape& target, const OwnDraft& draft, const std::string& origin) {
  const bool dense = target.attention == AttentionKind::kDense;
  if (draft.model && !dense) {
    throw Error(ExitCode::kUsage, origin +
                                      ": a draft that is a model of its own is priced beside a "
                                      "dense target, and this one has Native Sparse Attention");
  }
  PairShape out;
  out.target = target;
  out.draft = draft.head.value_or(draft_shape_for(target));
  out.draft_model = draft.model;
  out.drafts = !dense || draft.head || draft.model;
  return out;
}

// As the folder has it, without its weights.
PairShape pair_in(const fs::path& folder) {
  const LlmShape target = read_target_config(folder).shape;
  const fs::path draft = folder / "draft";
  OwnDraft own;
  std::error_code none;
  if (fs::exists(draft, none)) {
    if (is_draft_model(draft)) {
      own.model = read_draft_model(draft, target);
    } else {
      own.head = read_draft_config(draft, target).shape;
    }
  }
  return shape_with(target, own, draft.string());
}

PairShape shape_of(const KeptPair& pair, const std::string& database) {
  const nlohmann::json configuration = nlohmann::json::parse(pair.configuration);
  const std::string origin = database + ": the configuration of " + text_of(pair.id);
  LlmShape target = target_config_of(configuration.at("config"), origin).shape;
  target.name = pair.id.name;
  OwnDraft own;
  if (configuration.contains("draft_config")) {
    const nlohmann::json& draft = configuration.at("draft_config");
    if (is_draft_model_config(draft, origin)) {
      own.model = draft_model_of(draft, origin, target);
    } else {
      own.head = draft_config_of(draft, origin, target).shape;
    }
  }
  PairShape out = shape_with(target, own, origin);
  out.kept = pair.id;
  return out;
}

std::optional<PairShape> find_kept(const std::string& model, std::vector<KeptPair> named,
                                   const std::string& database) {
  std::erase_if(named, [&model](const KeptPair& pair) { return !names_pair(model, pair.id); });
  if (named.size() > 1) {
    std::string hashes;
    for (const KeptPair& pair : named) {
      hashes += (hashes.empty() ? "" : ", ") + short_hash(pair.id.sha256);
    }
    throw Error(ExitCode::kUsage, database + " holds " + std::to_string(named.size()) +
                                      " pairs that '" + model + "' may mean: say which by its " +
                                      "hash, one of " + hashes);
  }
  return named.empty() ? std::nullopt : std::optional(shape_of(named.front(), database));
}

PairShape find_pair(const std::string& model, const std::vector<KeptPair>& kept,
                    const std::string& database) {
  try {
    LlmShape target = named_llm_shape(model);
    target.name = target_name(model);
    PairShape pair;
    pair.target = target;
    pair.draft = usual_draft(target);
    return pair;
  } catch (const Error& error) {
    std::error_code none;
    if (!fs::is_directory(model, none)) {
      if (std::optional<PairShape> found = find_kept(model, kept, database)) {
        return *found;
      }
      const bool names_draft = target_name(model) != model;
      throw Error(
          error.code(),
          error.what() + std::string(names_draft ? "" : ", and there is no such folder") +
              (names_draft || database.empty()
                   ? ""
                   : " and no pair of that name whose configuration " + database + " keeps"));
    }
  }
  PairShape pair = pair_in(model);
  pair.target.name = model;
  pair.folder = model;
  return pair;
}

}  // namespace

std::vector<KeptPair> kept_pairs(const std::vector<std::string>& run_configurations) {
  std::map<std::string, KeptPair> kept;  // by hash: the newest run's
  for (const std::string& text : run_configurations) {
    const nlohmann::json document =
        nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("pair") || !document["pair"].is_object()) {
      continue;
    }
    const nlohmann::json& pair = document["pair"];
    const std::string sha256 = pair.value("sha256", "");
    if (!sha256.empty() && pair.contains("config")) {
      kept[sha256] = {{pair.value("name", ""), sha256}, pair.dump()};
    }
  }
  std::vector<KeptPair> out;
  for (auto& [sha256, pair] : kept) {
    out.push_back(std::move(pair));
  }
  return out;
}

PairShape pair_shape(const std::string& model, std::optional<std::int64_t> draft_vocab,
                     const std::vector<KeptPair>& kept, const std::string& database) {
  PairShape pair = find_pair(model, kept, database);
  pair.own_draft = pair.draft;
  if (pair.target.attention != AttentionKind::kNsa && !pair.is_pair()) {
    throw Error(ExitCode::kUsage, "--model is a sparse geometry's, " + model +
                                      " is none; a strategy over a dense cache asks for its dense "
                                      "form by itself");
  }
  if (draft_vocab) {
    if (pair.draft_model || !pair.drafts) {
      throw Error(ExitCode::kUsage,
                  pair.draft_model
                      ? "--draft-vocab is of a draft head, and this pair's draft is a model of its "
                        "own, which proposes all tokens"
                      : "--draft-vocab is of a draft head, and this pair has no draft");
    }
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

std::string usual_model(const std::vector<std::string>& timed_most_first,
                        const std::vector<KeptPair>& kept) {
  for (const std::string& pair : timed_most_first) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&pair](const KeptPair& own) { return own.id.sha256 == pair; })) {
      return pair;
    }
  }
  return kUsualGeometry;
}

}  // namespace versieve::engine
