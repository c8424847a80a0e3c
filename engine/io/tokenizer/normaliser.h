// The normaliser of a tokenizer.json: what a text becomes before it is split.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace versieve::engine {

// Bytes that are no UTF-8 stay as they are.
using Normaliser = std::function<std::string(std::string text)>;

// Null: the text stays. Throws Error(kBadInput) with `where` for what is not computed here.
Normaliser read_normaliser(const nlohmann::json* description, const std::string& where);

}  // namespace versieve::engine
