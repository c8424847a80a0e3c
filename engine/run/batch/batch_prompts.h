// The requests of a batch as files give them: a folder whose files are prompts, or JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

struct BatchPrompt {
  std::string id;                   // the file's name, a line's "id" or else its number from 1
  std::optional<std::string> text;  // none of a line that gives tokens
  TokenIds tokens;
  // What a line says in the place of the command.
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::uint64_t> seed;
  std::optional<double> temperature;
};

// `path`: a folder, whose regular files in the order of their names are a prompt each, hidden ones
// left out; what is passed over becomes a remark; or a file of JSON objects, one a line: "prompt"
// or "tokens", and maybe "id", "max_new_tokens", "seed", "temperature". `tokenizer`: null where the
// model has none. Throws Error(kBadInput), naming file and line, for what is no such thing.
std::vector<BatchPrompt> read_batch_prompts(const std::filesystem::path& path,
                                            const Tokenizer* tokenizer, std::int64_t vocab,
                                            std::vector<std::string>& remarks);

}  // namespace versieve::engine
