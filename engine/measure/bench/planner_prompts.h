// Which prompts play a bucket of a planner table: those whose length lies in it, then longer ones
// cut to the bucket's middle, then, if asked for, texts one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/prompt_list.h"
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

enum class PromptForm { kWhole, kCut, kJoined };
const char* name_of(PromptForm form);  // "whole", "cut", "joined"

struct PlayedPrompt {
  std::string name;
  TokenIds tokens;
  PromptForm form = PromptForm::kWhole;
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

}  // namespace versieve::engine
