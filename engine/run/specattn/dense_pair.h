// A dense target, its dense draft model and their tokenizer, from one model directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer.h"
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
  return checkpoint;
}

template <class T>
struct DensePair {
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model)
      : DensePair(ops, model, load_dense_target(model)) {}
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model, const Checkpoint& checkpoint)
      : DensePair(ops, model, checkpoint, load_draft_model(model / "draft", checkpoint.shape)) {}
  DensePair(kernels::Ops<T>& ops, const std::filesystem::path& model, const Checkpoint& checkpoint,
            const Checkpoint& draft_checkpoint)
      : target(make_target<T>(ops, checkpoint, nullptr)),
        draft(make_target<T>(ops, draft_checkpoint, nullptr)),
        tokenizer(ByteTokenizer::load(model, checkpoint.shape)),
        remarks(checkpoint.remarks) {
    remarks.insert(remarks.end(), draft_checkpoint.remarks.begin(), draft_checkpoint.remarks.end());
  }

  // The file's bytes with BOS. Throws Error(kBadInput) for one longer than the model takes.
  std::vector<std::int32_t> read_text(const std::filesystem::path& path) const {
    std::vector<std::int32_t> tokens = tokenizer.encode(read_prompt(path));
    if (static_cast<std::int64_t>(tokens.size()) > target.shape().max_position) {
      throw Error(ExitCode::kBadInput,
                  path.string() + ": the text has " + std::to_string(tokens.size()) +
                      " tokens, the model takes " + std::to_string(target.shape().max_position));
    }
    return tokens;
  }

  Target<T> target;
  Target<T> draft;
  ByteTokenizer tokenizer;
  std::vector<std::string> remarks;  // what was odd in both models' files and did no harm
};

}  // namespace versieve::engine
