// The tokenizers of tests/data/tokenizers and what the Python packages make of their texts.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/io/tokenizer/tokenizer.h"
#include "tests/support/paths.h"

namespace versieve::test {

inline std::filesystem::path tokenizer_folder(const std::string& name) {
  return std::filesystem::path(VERSIEVE_SOURCE_DIR) / "tests/data/tokenizers" / name;
}

inline nlohmann::json expected_of(const std::string& name) {
  std::ifstream file(tokenizer_folder(name) / "expected.json");
  return nlohmann::json::parse(file);
}

}  // namespace versieve::test
