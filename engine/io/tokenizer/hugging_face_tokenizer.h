// A tokenizer.json of Hugging Face's `tokenizers` with a BPE model, computed as the package does.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

// Throws Error(kBadInput) with `source` for what is wrong or not computed here.
std::unique_ptr<Tokenizer> read_hugging_face_tokenizer(const nlohmann::json& document,
                                                       const std::string& source);

}  // namespace versieve::engine
