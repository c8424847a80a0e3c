// A target that reads true text as a strategy would verify it. What comes before a place is held
// exactly, as a prompt is, and shared by all that is read behind it; from there on every block is
// verified by the strategy and committed, so that what it changes in keys and values adds up.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/run/quality/held_prefix.h"
#include "engine/run/quality/intervals.h"
#include "engine/run/quality/token_law.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/drafter.h"
#include "model/words/loss_price.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct ReadScores {
  std::vector<TokenScore> tokens;
  std::vector<Law> laws;  // empty unless kept
};

// Texts that begin alike and end in a choice each. Which of them a strategy finds likeliest, each
// by its own measure, and what it says of the true one.
struct ReadChoices {
  ReadScores truth;
  std::size_t likeliest = 0;
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

  struct Choices {
    std::span<const std::vector<std::int32_t>> texts;  // the same tokens before `scored`
    std::span<const double> measures;                  // what a text's log-likelihood is divided by
    std::size_t truth = 0;                             // of this one all tokens are scored
    Part part;                                         // of all of them; its text is left empty
  };
  // As read() of each text, but what they share is run once, and a text that can no longer be the
  // likeliest is not read on in trees. REQUIRES: as read() of each.
  ReadChoices read_choices(const Strategy& strategy, const Choices& choices);
  // Of strategies that were read in chains of a draft what ChainShare says, in stretches of one
  // text or block, by the strategy's text.
  const std::map<std::string, std::vector<Stretch>>& chain_shares() const { return chain_shares_; }
  // Tokens that the target has run so far.
  std::int64_t tokens_run() const { return tokens_run_ + prefix_.tokens_run(); }

 private:
  class Scorer;
  class Ballot;

  // One text or several, each behind what it shares with the first.
  void read_all(const Strategy& strategy, Ballot& ballot);
  // Verifies text[begin, end) and commits; the rows from `first` on are then in rows_.
  void run_block(std::span<const std::int32_t> text, std::int64_t begin, std::int64_t end,
                 std::int64_t first, const VerifyOptions& options);
  // The same, and scores what follows each token.
  void read_block(std::int64_t begin, std::int64_t end, const VerifyOptions& options,
                  std::span<const T> drafted, Scorer& scorer);
  void read_blocks(const Strategy& strategy, Ballot& ballot);
  void read_trees(const Strategy& strategy, Ballot& ballot);
  void walk_trees(std::int64_t at, DraftTree tree, const VerifyOptions& options,
                  DraftSource<T>& source, Scorer& scorer);
  void go_on(std::int64_t at, std::span<const std::int32_t> path,
             std::span<const std::int32_t> rest, DraftSource<T>& source);
  void score_path(std::int64_t at, std::span<const std::int32_t> path, Scorer& scorer);
  void read_tokens(const Strategy& strategy, Scorer& scorer);
  void read_drafted(const Strategy& strategy, Scorer& scorer);
  void add_shares(const Strategy& strategy, const std::vector<Stretch>& more);
  void add_drafted(const Drafter<T>& drafter, std::span<const std::int32_t> proposed,
                   std::vector<T>& drafted) const;
  void read_chains(const Strategy& strategy, Drafter<T>& drafter, Scorer& scorer);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  TextDraft<T> draft_;
  std::vector<std::int32_t> layer_map_;
  int threads_;
  HeldPrefix<T> prefix_;
  std::vector<T> rows_;  // logits on the host
  std::map<std::string, std::vector<Stretch>> chain_shares_;
  std::int64_t tokens_run_ = 0;
};

}  // namespace versieve::engine
