// A dense target, its dense draft model and their tokenizer, from one model directory.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/load.h"
#include "model/words/error.h"

namespace versieve::engine {

inline Checkpoint load_dense_target(const std::filesystem::path& model) {
  Checkpoint checkpoint = load_target(model);
  std::error_code ignored;
  if (checkpoint.shape.attention != AttentionKind::kDense ||
      !std::filesystem::exists(model / "draft", ignored) || !is_draft_model(model / "draft")) {
    throw Error(ExitCode::kAnswerNo,
                model.string() +
                    ": this needs a dense target with a dense draft model in draft/, "
                    "whose attention chooses the tokens");
  }
  if (checkpoint.shape.has_windows()) {
    throw Error(ExitCode::kAnswerNo,
                model.string() +
                    ": this chooses from all tokens, and the target has layers that "
                    "see a window of them");
  }
  return checkpoint;
}

// The same of its draft, whose attention is looked at.
inline Checkpoint load_choosing_draft(const std::filesystem::path& folder, const LlmShape& target) {
  Checkpoint draft = load_draft_model(folder, target);
  if (draft.shape.has_windows()) {
    throw Error(ExitCode::kAnswerNo,
                folder.string() +
                    ": the draft has layers that see a window of the tokens, so they "
                    "choose none before it");
  }
  return draft;
}

template <class T>
struct DensePair {
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model)
      : DensePair(ops, model, load_dense_target(model)) {}
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model, const Checkpoint& checkpoint)
      : DensePair(ops, model, checkpoint, load_choosing_draft(model / "draft", checkpoint.shape)) {}
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model, const Checkpoint& checkpoint,
            const Checkpoint& draft_checkpoint)
      : target(make_target<T>(ops, checkpoint, nullptr)),
        draft(make_target<T>(ops, draft_checkpoint, nullptr)),
        tokenizer(load_tokenizer(model, checkpoint.shape)),
        remarks(checkpoint.remarks) {
    remarks.insert(remarks.end(), draft_checkpoint.remarks.begin(), draft_checkpoint.remarks.end());
  }

  // The file's bytes with BOS. Throws Error(kBadInput) for one longer than the model takes.
  std::vector<std::int32_t> read_text(const std::filesystem::path& path) const {
    std::vector<std::int32_t> tokens = tokenizer->encode(read_prompt(path));
    const std::int64_t most = std::min(target.shape().max_position, draft.shape().max_position);
    if (static_cast<std::int64_t>(tokens.size()) > most) {
      throw Error(ExitCode::kBadInput, path.string() + ": the text has " +
                                           std::to_string(tokens.size()) +
                                           " tokens, the model takes " + std::to_string(most));
    }
    return tokens;
  }

  Target<T> target;
  Target<T> draft;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> remarks;  // what was odd in both models' files and did no harm
};

}  // namespace versieve::engine
