// What a model continues: a text, tokens, or the messages of a chat.
#pragma once

#include <filesystem>

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

// Exactly one is given.
struct PromptFiles {
  std::filesystem::path text;      // its bytes are the prompt
  std::filesystem::path tokens;    // ids: a JSON list, or numbers with white space between
  std::filesystem::path messages;  // JSON: [{"role": ..., "content": ...}, ...]
};

// Ids in a file. Throws Error(kBadInput) for what is no list of ids below `vocab`.
TokenIds read_token_file(const std::filesystem::path& path, std::int64_t vocab);

// Of a text or of messages. A template writes BOS itself. Throws Error as read_prompt,
// apply_chat_template and Tokenizer::encode do.
TokenIds encode_prompt(const PromptFiles& files, const std::filesystem::path& model,
                       const Tokenizer& tokenizer);

}  // namespace versieve::engine
