// A question in tokens: each choice behind the text and the ask, as one encoding, and what all of
// them share in front.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/io/task_file.h"
#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

struct AskedQuestion {
  std::vector<TokenIds> texts;  // a choice each: all tokens
  std::vector<double> bytes;    // of each choice, by which its log-likelihood is divided
  std::size_t answer = 0;
  std::int64_t scored = 1;               // the first token in which choices may differ
  std::optional<std::int64_t> distance;  // tokens from the evidence's line to the question

  std::int64_t longest() const;
};

AskedQuestion asked_question(const TaskContext& context, const TaskQuestion& question,
                             const Tokenizer& tokenizer);

// The text as tokens, nothing in it read as a special token, with what the tokenizer puts before.
TokenIds plain_tokens(std::string_view text, const Tokenizer& tokenizer);

}  // namespace versieve::engine
