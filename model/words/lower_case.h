// Names that people write are compared without regard to case.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace versieve {

// Of ASCII letters.
inline std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace versieve
