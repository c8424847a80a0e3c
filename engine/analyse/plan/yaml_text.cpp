#include "engine/analyse/plan/yaml_text.h"

#include <cstdio>
#include <sstream>

namespace versieve::engine {
namespace {

constexpr std::size_t kColumns = 98;

// Line breaks of every kind, YAML's own included, are no printable ASCII.
std::string printable(std::string text) {
  for (char& c : text) {
    c = c == '\n' ? ' ' : (c < 0x20 || c > 0x7e ? '?' : c);
  }
  return text;
}

}  // namespace

std::string yaml_comment(const std::string& sentence) {
  std::istringstream words(printable(sentence));
  std::string out, line = "#";
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = "#  ";
    }
    line += " " + word;
  }
  return out + line + "\n";
}

std::string yaml_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02X", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return out + "\"";
}

}  // namespace versieve::engine
