// The post-processor of a tokenizer.json: which special tokens stand before and after a text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace versieve::engine {

struct PostTemplate {
  std::vector<std::int32_t> before, after;
};

// Null: none. Throws Error(kBadInput) with `where` for what is not computed here.
PostTemplate read_post_template(const nlohmann::json* description, const std::string& where);

}  // namespace versieve::engine
