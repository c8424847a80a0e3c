// Texts that pairs in tests are measured on.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace versieve::test {

// A file of that text, its folder made where there is none.
inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// So many bytes of numbers, no two alike.
inline std::string numbers(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    text += std::to_string(text.size() * 7919) + " ";
  }
  return text.substr(0, bytes);
}

}  // namespace versieve::test
