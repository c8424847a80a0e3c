// Which prompts play a bucket of a planner table: those whose length lies in it, then longer ones
// cut to the bucket's middle, then, if asked for, texts one after the other. Under synthetic
// acceptance: random tokens, of the lengths of the texts whose acceptance it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/prompt_list.h"
#include "engine/run/speculate/synthetic_acceptance.h"
#include "model/plan/planner.h"

namespace versieve::engine {

struct PromptTokens {
  std::string name;
  TokenIds tokens;
  bool is_chat = false;  // rendered messages, which nothing is put after
};
// Throws Error(kBadInput) for a file that is no prompt.
std::vector<PromptTokens> prompt_tokens(const PromptList& prompts, const Tokenizer& tokenizer,
                                        const std::filesystem::path& model);

enum class PromptForm { kWhole, kCut, kJoined, kRandom };
const char* name_of(PromptForm form);  // "whole", "cut", "joined", "random"

struct PlayedPrompt {
  std::string name;
  TokenIds tokens;
  PromptForm form = PromptForm::kWhole;
  std::shared_ptr<const SyntheticAcceptance> acceptance;  // null: the pair's own
};

struct PromptRequest {
  ContextBucket bucket;
  std::int64_t count = 4;    // at most
  std::int64_t most = 0;     // tokens that leave the model room for what is generated
  bool joins_texts = false;  // where too few prompts are long enough
};

// Evenly over the list, so that a folder's kinds all play.
std::vector<PlayedPrompt> prompts_for(const PromptRequest& request,
                                      const std::vector<PromptTokens>& prompts,
                                      const Tokenizer& tokenizer);

// A text of which no more than its acceptance is known.
struct SyntheticText {
  std::string name;
  std::int64_t context_len = 0;  // tokens before it
  std::shared_ptr<const SyntheticAcceptance> acceptance;
};
// `count` of them, evenly, in the order of their lengths: prompts of one length are one, read once.
std::vector<PlayedPrompt> random_prompts(const std::vector<SyntheticText>& texts,
                                         std::int64_t count, std::int64_t vocab,
                                         std::uint64_t seed);

}  // namespace versieve::engine
