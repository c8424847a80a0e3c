// Folders of models whose files are changed, and what loading them says.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/checkpoint.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {

using namespace versieve::test;
namespace fs = std::filesystem;
using nlohmann::json;

inline json read_json(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}
inline void write_json(const fs::path& path, const json& document) {
  write_file_atomically(path, document.dump());
}
inline std::string target_refusal(const fs::path& folder) {
  const Error error = error_of([&] { load_target(folder); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}
inline std::string draft_refusal(const fs::path& folder, const LlmShape& target) {
  const Error error = error_of([&] { load_draft(folder, target); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

// The set with `from` in each name replaced by `to`.
inline void rename(TensorSet& set, const std::string& from, const std::string& to) {
  std::map<std::string, Tensor> renamed;
  for (auto& [name, tensor] : set.tensors) {
    std::string other = name;
    const std::size_t at = other.find(from);
    if (at != std::string::npos) {
      other.replace(at, from.size(), to);
    }
    renamed[other] = std::move(tensor);
  }
  set.tensors = std::move(renamed);
}
inline void erase_all(TensorSet& set, const std::string& part) {
  std::erase_if(set.tensors, [&](const auto& named) { return contains(named.first, part); });
}

inline void check_same_weights(const WeightTable& weights, const TensorSet& written) {
  REQUIRE(weights.tensors().size() == written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    CAPTURE(name);
    REQUIRE(weights.has(name));
    CHECK(std::ranges::equal(weights.tensor(name).bytes, tensor.bytes));
  }
}

}  // namespace versieve::engine
