// A tokenizer.model of SentencePiece, computed by its own library.
#pragma once

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

// Reads tokenizer.model and, where they are there, tokenizer_config.json (add_bos_token,
// add_eos_token, tokenizer_class, added_tokens_decoder) and added_tokens.json. Throws
// Error(kBadInput).
std::unique_ptr<Tokenizer> load_sentencepiece_tokenizer(const std::filesystem::path& folder);

}  // namespace versieve::engine
