#include "engine/measure/bench/planner_prompts.h"

#include <algorithm>

#include "engine/io/prompt/prompt.h"
#include "engine/run/model/uniform.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

std::int64_t size_of(const TokenIds& tokens) {
  return static_cast<std::int64_t>(tokens.size());
}

// `count` of them, evenly.
template <class T>
std::vector<T> spread(const std::vector<T>& all, std::int64_t count) {
  const std::size_t taken = std::min(all.size(), static_cast<std::size_t>(count));
  std::vector<T> out;
  for (std::size_t i = 0; i < taken; ++i) {
    out.push_back(all[i * all.size() / taken]);
  }
  return out;
}

// Of the text alone.
TokenIds without_ends(const TokenIds& tokens, const Tokenizer& tokenizer) {
  const auto before = static_cast<std::ptrdiff_t>(tokenizer.before().size());
  const auto after = static_cast<std::ptrdiff_t>(tokenizer.after().size());
  return {tokens.begin() + before, tokens.end() - after};
}

// Texts from the i-th on, one after the other, round the list until there are enough tokens.
PlayedPrompt joined(const std::vector<const PromptTokens*>& texts, std::size_t first,
                    std::int64_t length, const Tokenizer& tokenizer) {
  PlayedPrompt out{
      .name = texts[first]->name + "+", .tokens = tokenizer.before(), .form = PromptForm::kJoined};
  for (std::size_t i = 0; i < texts.size() && size_of(out.tokens) < length; ++i) {
    const TokenIds own = without_ends(texts[(first + i) % texts.size()]->tokens, tokenizer);
    out.tokens.insert(out.tokens.end(), own.begin(), own.end());
  }
  out.tokens.resize(static_cast<std::size_t>(std::min(length, size_of(out.tokens))));
  return out;
}

// Joined texts begin at different files, and all of them have the length or there is none.
void add_joined(const PromptRequest& request, const std::vector<PromptTokens>& prompts,
                std::int64_t length, const Tokenizer& tokenizer, std::vector<PlayedPrompt>& out) {
  std::vector<const PromptTokens*> texts;
  for (const PromptTokens& prompt : prompts) {
    if (!prompt.is_chat) {
      texts.push_back(&prompt);
    }
  }
  const std::vector<const PromptTokens*> begins =
      spread(texts, request.count - static_cast<std::int64_t>(out.size()));
  for (const PromptTokens* begin : begins) {
    const auto at = std::find(texts.begin(), texts.end(), begin) - texts.begin();
    PlayedPrompt prompt = joined(texts, static_cast<std::size_t>(at), length, tokenizer);
    if (size_of(prompt.tokens) == length) {
      out.push_back(std::move(prompt));
    }
  }
}

}  // namespace

const char* name_of(PromptForm form) {
  switch (form) {
    case PromptForm::kWhole:
      return "whole";
    case PromptForm::kCut:
      return "cut";
    case PromptForm::kJoined:
      return "joined";
    case PromptForm::kRandom:
      return "random";
  }
  VERSIEVE_ASSERT(false, "a form has a name");
}

std::vector<PromptTokens> prompt_tokens(const PromptList& prompts, const Tokenizer& tokenizer,
                                        const std::filesystem::path& model) {
  std::vector<PromptTokens> out;
  for (const PromptFile& prompt : prompts) {
    PromptFiles files;
    (prompt.is_chat ? files.messages : files.text) = prompt.path;
    out.push_back({prompt.name, encode_prompt(files, model, tokenizer), prompt.is_chat});
  }
  return out;
}

std::vector<PlayedPrompt> prompts_for(const PromptRequest& request,
                                      const std::vector<PromptTokens>& prompts,
                                      const Tokenizer& tokenizer) {
  const std::int64_t high = std::min(request.bucket.high, request.most);
  const std::int64_t cut = std::min((request.bucket.low + request.bucket.high) / 2, request.most);
  std::vector<const PromptTokens*> whole, longer;
  for (const PromptTokens& prompt : prompts) {
    const std::int64_t length = size_of(prompt.tokens);
    if (length > request.bucket.low && length <= high) {
      whole.push_back(&prompt);
    } else if (length > high) {
      longer.push_back(&prompt);
    }
  }
  std::vector<PlayedPrompt> out;
  for (const PromptTokens* prompt : spread(whole, request.count)) {
    out.push_back({prompt->name, prompt->tokens, PromptForm::kWhole});
  }
  if (cut <= request.bucket.low) {  // the model takes no context of this bucket
    return out;
  }
  for (const PromptTokens* prompt :
       spread(longer, request.count - static_cast<std::int64_t>(out.size()))) {
    out.push_back(
        {prompt->name, {prompt->tokens.begin(), prompt->tokens.begin() + cut}, PromptForm::kCut});
  }
  if (request.joins_texts) {
    add_joined(request, prompts, cut, tokenizer, out);
  }
  return out;
}

std::vector<PlayedPrompt> random_prompts(const std::vector<SyntheticText>& texts,
                                         std::int64_t count, std::int64_t vocab,
                                         std::uint64_t seed) {
  std::vector<SyntheticText> taken = spread(texts, count);
  std::stable_sort(taken.begin(), taken.end(), [](const SyntheticText& a, const SyntheticText& b) {
    return a.context_len < b.context_len;
  });
  std::vector<PlayedPrompt> out;
  for (const SyntheticText& text : taken) {
    PlayedPrompt prompt{
        .name = text.name, .form = PromptForm::kRandom, .acceptance = text.acceptance};
    for (std::int64_t i = 0; i < text.context_len; ++i) {
      prompt.tokens.push_back(static_cast<std::int32_t>(
          static_cast<double>(vocab) * uniform_at(seed, i, UniformUse::kDraft, 0)));
    }
    out.push_back(std::move(prompt));
  }
  return out;
}

}  // namespace versieve::engine
