#include "engine/measure/sweep/text_windows.h"

#include <algorithm>
#include <map>

#include "engine/io/prompt/prompt.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWindowStep = 1024;  // tokens between two windows of one file

std::int64_t size_of(const TokenIds& tokens) {
  return static_cast<std::int64_t>(tokens.size());
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

PromptTexts::Text PromptTexts::joined(const std::vector<const Text*>& texts) const {
  Text all;
  for (const Text* text : texts) {
    if (!text->is_chat) {
      all.name += all.name.empty() ? text->name + "+" : "";
      all.tokens.insert(all.tokens.end(), text->tokens.begin(), text->tokens.end());
    }
  }
  return all;
}

// Tokens of the text in a window.
std::int64_t PromptTexts::length_of(const WindowRequest& request) const {
  return request.context_len - size_of(tokenizer_.before()) + request.continuation_len;
}

TextWindow PromptTexts::window_of(const Text& text, std::int64_t start,
                                  const WindowRequest& request) const {
  if (text.is_chat) {
    return {text.name, 0, text.tokens, {}};
  }
  TokenIds tokens = tokenizer_.before();
  const auto begin = text.tokens.begin() + start;
  tokens.insert(tokens.end(), begin, begin + length_of(request));
  const auto middle = tokens.begin() + request.context_len;
  return {text.name, start, {tokens.begin(), middle}, {middle, tokens.end()}};
}

std::vector<TextWindow> PromptTexts::windows(const WindowRequest& request) const {
  std::vector<const Text*> texts = texts_of(request);
  const auto holds = [&](const Text& text, std::int64_t start) {
    return text.is_chat ? start == 0 && size_of(text.tokens) <= request.context_len
                        : start + length_of(request) <= size_of(text.tokens);
  };
  const Text all = joined(texts);
  if (std::none_of(texts.begin(), texts.end(), [&](const Text* t) { return holds(*t, 0); })) {
    texts = {&all};
  }
  std::vector<TextWindow> windows;
  bool found = true;
  for (std::int64_t start = 0; found; start += kWindowStep) {
    found = false;
    for (const Text* text : texts) {
      if (!holds(*text, start)) {
        continue;
      }
      if (static_cast<std::int64_t>(windows.size()) == request.count) {
        return windows;
      }
      windows.push_back(window_of(*text, start, request));
      found = true;
    }
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
