#include "engine/run/quality/asked.h"

#include <algorithm>

namespace versieve::engine {

TokenIds plain_tokens(std::string_view text, const Tokenizer& tokenizer) {
  TokenIds tokens = tokenizer.before();
  const TokenIds own = tokenizer.encode_text(text, SpecialsInText::kLetters);
  tokens.insert(tokens.end(), own.begin(), own.end());
  tokenizer.check(tokens);
  return tokens;
}

std::int64_t AskedQuestion::longest() const {
  std::size_t most = 0;
  for (const TokenIds& text : texts) {
    most = std::max(most, text.size());
  }
  return static_cast<std::int64_t>(most);
}

AskedQuestion asked_question(const TaskContext& context, const TaskQuestion& question,
                             const Tokenizer& tokenizer) {
  const std::string before = context.text.substr(0, static_cast<std::size_t>(question.at));
  AskedQuestion asked{.answer = question.answer};
  for (const std::string& choice : question.choices) {
    asked.texts.push_back(plain_tokens(before + question.ask + choice, tokenizer));
    asked.bytes.push_back(static_cast<double>(choice.size()));
  }
  // A tokenizer may join the ask's end and a choice's begin, so what is shared is looked for.
  const TokenIds bare = plain_tokens(before + question.ask, tokenizer);
  std::size_t shared = bare.size();
  for (const TokenIds& text : asked.texts) {
    const auto differ = std::mismatch(text.begin(), text.end(), bare.begin(), bare.end());
    shared = std::min(shared, static_cast<std::size_t>(differ.second - bare.begin()));
    shared = std::min(shared, text.size() - 1);
  }
  asked.scored = static_cast<std::int64_t>(shared);
  if (question.evidence) {
    const std::string_view told(context.text.data(), static_cast<std::size_t>(*question.evidence));
    asked.distance = static_cast<std::int64_t>(bare.size()) -
                     static_cast<std::int64_t>(plain_tokens(told, tokenizer).size());
  }
  return asked;
}

}  // namespace versieve::engine
