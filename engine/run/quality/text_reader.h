// A target that reads true text as a strategy would verify it. What comes before a place is held
// exactly, as a prompt is, and shared by all that is read behind it; from there on every block is
// verified by the strategy and committed, so that what it changes in keys and values adds up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model/target.h"
#include "engine/run/quality/token_law.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct ReadScores {
  std::vector<TokenScore> tokens;
  std::vector<Law> laws;  // empty unless kept
};

template <class T>
class TextReader {
 public:
  // `draft_model`: or null; `layer_map`: or empty. All outlive this. `threads`: of the CPU, for
  // laws.
  TextReader(kernels::Ops<T>& ops, Target<T>& target, Target<T>* draft_model,
             std::vector<std::int32_t> layer_map, int threads);

  // Why that strategy cannot be read with, or an empty text.
  std::string refusal(const Strategy& strategy) const;
  // Longest text that all strategies of this target can read.
  std::int64_t most_tokens() const;

  struct Part {
    std::span<const std::int32_t> text;
    std::int64_t start = 1;   // tokens that are held exactly
    std::int64_t scored = 1;  // the first that is scored
    bool keeps_laws = false;
    const std::vector<Law>* exact = nullptr;  // laws to compare with, of the same tokens
  };
  // REQUIRES: 1 <= start < scored < text.size() <= most_tokens(), no refusal.
  // Throws Error(kAnswerNo) where a law is not finite.
  ReadScores read(const Strategy& strategy, const Part& part);
  // Tokens that the target has run so far.
  std::int64_t tokens_run() const { return tokens_run_; }

 private:
  struct Block {
    std::int64_t begin = 0, end = 0;  // of the text: read, each with the next one predicted
  };
  class Scorer;

  void hold(Target<T>& model, std::vector<std::int32_t>& held,
            std::span<const std::int32_t> tokens);
  void verify(const Part& part, const Block& block, const VerifyOptions& options);
  void read_blocks(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_rectified(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_drafted(const Strategy& strategy, const Part& part, Scorer& scorer);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Target<T>* draft_model_;
  std::vector<std::int32_t> layer_map_;
  int threads_;
  std::vector<std::int32_t> held_, draft_held_;  // what the caches hold exactly
  std::int64_t tokens_run_ = 0;
};

// Tokens of one block as that strategy verifies them: a chain of its draft's deepest path, where it
// matters for what is read together.
std::int64_t block_tokens(const Strategy& strategy);

}  // namespace versieve::engine
