// A target that reads true text as a strategy would verify it. What comes before a place is held
// exactly, as a prompt is, and shared by all that is read behind it; from there on every block is
// verified by the strategy and committed, so that what it changes in keys and values adds up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/run/quality/held_prefix.h"
#include "engine/run/quality/token_law.h"
#include "engine/run/speculate/drafter.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct ReadScores {
  std::vector<TokenScore> tokens;
  std::vector<Law> laws;  // empty unless kept
};

// What is verified together. kBlocks: chains of any length, whose bits are those of single tokens.
// kTrees: the draft's trees, of which each token is scored where it stands. kChains: true tokens as
// deep as the draft's trees. kTokens: one by one.
enum class ReadForm { kBlocks, kTrees, kChains, kTokens };
const char* name_of(ReadForm form);  // "blocks", "trees", "chains", "tokens"

template <class T>
class TextReader {
 public:
  // `draft`: what drafts, needed where loses_by_draft. `layer_map`: SpecAttn's, or empty. All
  // outlive this. `threads`: of the CPU, for laws.
  TextReader(kernels::Ops<T>& ops, Target<T>& target, const TextDraft<T>& draft,
             std::vector<std::int32_t> layer_map, int threads);

  // Why that strategy cannot be read with, or an empty text.
  std::string refusal(const Strategy& strategy) const;
  ReadForm form_of(const Strategy& strategy) const;
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
  std::int64_t tokens_run() const { return tokens_run_ + prefix_.tokens_run(); }

 private:
  class Scorer;

  // Verifies text[begin, end), scores what follows each token, and commits.
  void read_block(const Part& part, std::int64_t begin, std::int64_t end,
                  const VerifyOptions& options, std::span<const T> drafted, Scorer& scorer);
  void read_blocks(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_trees(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_rectified(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_drafted(const Strategy& strategy, const Part& part, Scorer& scorer);
  void read_chains(const Strategy& strategy, const Part& part, Drafter<T>& drafter, Scorer& scorer);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  TextDraft<T> draft_;
  std::vector<std::int32_t> layer_map_;
  int threads_;
  HeldPrefix<T> prefix_;
  std::int64_t tokens_run_ = 0;
};

// Whether what a strategy loses depends on what is drafted.
bool loses_by_draft(const Strategy& strategy);

}  // namespace versieve::engine
