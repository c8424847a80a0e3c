// The decoder of a tokenizer.json: tokens to bytes.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace versieve::engine {

struct TokenText {
  std::string text;
  bool is_added = false;  // written as it is
};

// Changes the texts of all tokens of a sequence; then they are joined.
using Decoder = std::function<void(std::vector<TokenText>& tokens)>;

// Null: tokens with spaces between, as the package does. Throws Error(kBadInput) with `where` for
// what is not computed here.
Decoder read_decoder(const nlohmann::json* description, const std::string& where);

}  // namespace versieve::engine
