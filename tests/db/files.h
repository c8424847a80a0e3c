// Whole files as text, and the error that an action throws.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "model/words/error.h"
#include "tests/support/temp_folder.h"

namespace versieve::test {

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The error that `action` throws; fails the test if it throws none.
template <typename Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::kDone, "no error"};
}

// One sentence: neither empty nor several lines.
inline bool is_one_sentence(const std::string& text) {
  return text.size() > 10 && text.find('\n') == std::string::npos;
}

}  // namespace versieve::test
