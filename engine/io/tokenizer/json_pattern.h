// {"Regex": "..."} or {"String": "..."}, and replacing what it matches.
#pragma once

#include <string>
#include <string_view>

#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/pattern.h"

namespace versieve::engine {

// Throws Error(kBadInput).
Pattern read_pattern(JsonFields& fields, const char* key);

// REQUIRES: whole UTF-8.
std::string replace_all(const Pattern& pattern, std::string_view text, const std::string& content);

}  // namespace versieve::engine
