#include "engine/measure/sweep/text_windows.h"

#include <algorithm>
#include <map>

#include "engine/io/prompt/prompt.h"
#include "model/plan/planner.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWindowStep = 1024;  // tokens between two windows of one file

constexpr std::int64_t kShortestPrompt = 16;  // tokens of its text

template <class T>
std::int64_t size_of(const std::vector<T>& items) {
  return static_cast<std::int64_t>(items.size());
}

// Tokens of the shortest text that lies in the planner's range of that context.
std::int64_t shortest_in_range(std::int64_t context_len) {
  std::int64_t low = 0;
  for (const ContextBucket& bucket : default_buckets()) {
    low = context_len > bucket.low ? bucket.low : low;
    low = context_len > bucket.high ? bucket.high : low;
  }
  return std::max(kShortestPrompt, low + 1);
}

// Matches of every token with the one `period` before it, in a row: the longest.
std::int64_t longest_run(std::span<const std::int32_t> tokens, std::size_t period) {
  std::int64_t longest = 0;
  std::int64_t run = 0;
  for (std::size_t i = period; i < tokens.size(); ++i) {
    run = tokens[i] == tokens[i - period] ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

PromptTexts::PromptTexts(const PromptList& prompts, const Tokenizer& tokenizer,
                         std::filesystem::path model)
    : tokenizer_(tokenizer) {
  for (const PromptFile& prompt : prompts) {
    Text text{.name = prompt.name,
              .regime = prompt.regime,
              .split = prompt.split,
              .tokens = {},
              .is_chat = prompt.is_chat};
    text.tokens =
        prompt.is_chat
            ? encode_prompt({.text = {}, .tokens = {}, .messages = prompt.path}, model, tokenizer)
            : tokenizer.encode_text(read_prompt(prompt.path), SpecialsInText::kLetters);
    texts_.push_back(std::move(text));
  }
}

std::vector<const PromptTexts::Text*> PromptTexts::texts_of(const WindowRequest& request) const {
  std::vector<const Text*> out;
  for (const Text& text : texts_) {
    if (text.regime == request.regime && text.split == request.split) {
      out.push_back(&text);
    }
  }
  return out;
}

// From the first-th on, round the list; chats aside.
PromptTexts::Text PromptTexts::joined(const std::vector<const Text*>& texts,
                                      std::size_t first) const {
  Text all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Text& text = *texts[(first + i) % texts.size()];
    if (!text.is_chat) {
      all.name += all.name.empty() ? text.name + "+" : "";
      all.tokens.insert(all.tokens.end(), text.tokens.begin(), text.tokens.end());
    }
  }
  return all;
}

// Tokens of the text in a window's context, and in all of it.
std::int64_t PromptTexts::context_of(const WindowRequest& request) const {
  return request.context_len - size_of(tokenizer_.before());
}

std::int64_t PromptTexts::length_of(const WindowRequest& request) const {
  return context_of(request) + request.continuation_len;
}

bool PromptTexts::holds(const Text& text, std::int64_t start, const WindowRequest& request) const {
  const std::int64_t own = size_of(text.tokens);
  if (text.is_chat) {
    return start == 0 && own <= request.context_len;
  }
  if (!request.as_prompts) {
    return start + length_of(request) <= own;
  }
  const std::int64_t shorter = shortest_in_range(request.context_len);
  return start + context_of(request) <= own || (start == 0 && own >= shorter);
}

TextWindow PromptTexts::window_of(const Text& text, std::int64_t start,
                                  const WindowRequest& request) const {
  if (text.is_chat) {
    return {text.name, 0, text.tokens, {}};
  }
  TokenIds tokens = tokenizer_.before();
  const auto begin = text.tokens.begin() + start;
  const std::int64_t left = size_of(text.tokens) - start;
  const std::int64_t context = std::min(context_of(request), left);
  const std::int64_t all = length_of(request) <= left ? length_of(request) : context;
  tokens.insert(tokens.end(), begin, begin + all);
  const auto middle = tokens.end() - (all - context);
  return {text.name, start, {tokens.begin(), middle}, {middle, tokens.end()}};
}

// Each begins at another file.
void PromptTexts::add_joined(const std::vector<const Text*>& texts, const WindowRequest& request,
                             std::vector<TextWindow>& windows) const {
  for (std::size_t first = 0; first < texts.size(); ++first) {
    const Text all = texts[first]->is_chat ? Text{} : joined(texts, first);
    if (size_of(windows) < request.count && size_of(all.tokens) >= context_of(request)) {
      windows.push_back(window_of(all, 0, request));
    }
  }
}

std::vector<TextWindow> PromptTexts::windows(const WindowRequest& request) const {
  const std::vector<const Text*> own = texts_of(request);
  std::vector<const Text*> texts = own;
  const Text all = joined(texts, 0);
  if (!request.as_prompts && std::none_of(texts.begin(), texts.end(),
                                          [&](const Text* t) { return holds(*t, 0, request); })) {
    texts = {&all};
  }
  std::vector<TextWindow> windows;
  bool found = true;
  for (std::int64_t start = 0; found; start += kWindowStep) {
    found = false;
    for (const Text* text : texts) {
      if (!holds(*text, start, request)) {
        continue;
      }
      if (size_of(windows) == request.count) {
        return windows;
      }
      windows.push_back(window_of(*text, start, request));
      found = true;
    }
  }
  if (request.as_prompts) {
    add_joined(own, request, windows);
  }
  return windows;
}

std::map<std::pair<std::string, std::string>, std::int64_t> PromptTexts::tokens_of_texts() const {
  std::map<std::pair<std::string, std::string>, std::int64_t> sums;
  for (const Text& text : texts_) {
    if (!text.is_chat) {
      sums[{text.regime, text.split}] += size_of(text.tokens);
    }
  }
  return sums;
}

std::int64_t PromptTexts::longest_text() const {
  std::int64_t longest = 0;
  for (const auto& [text, tokens] : tokens_of_texts()) {
    longest = std::max(longest, tokens);
  }
  return longest;
}

std::int64_t PromptTexts::longest_chat() const {
  std::int64_t longest = 0;
  for (const Text& text : texts_) {
    longest = std::max(longest, text.is_chat ? size_of(text.tokens) : 0);
  }
  return longest;
}

bool is_looping(std::span<const std::int32_t> tokens) {
  constexpr std::int64_t kLongestPeriod = 80;
  constexpr std::int64_t kShortestRun = 64;
  for (std::int64_t period = 1; period <= kLongestPeriod; ++period) {
    const std::int64_t run = longest_run(tokens, static_cast<std::size_t>(period)) + period;
    const std::int64_t periods = period > 16 ? 3 : 4;
    if (run > period && run >= std::max(kShortestRun, periods * period)) {
      return true;
    }
  }
  return false;
}

}  // namespace versieve::engine
