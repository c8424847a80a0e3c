// Is a text whole UTF-8, as files for other programs must be?
#pragma once

#include <cstddef>
#include <string_view>

namespace versieve::engine {

// The place of the first byte that is none; the text's size if all is well. Surrogates, overlong
// forms and what lies beyond U+10FFFF are none.
std::size_t first_byte_not_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) {
  return first_byte_not_utf8(text) == text.size();
}

}  // namespace versieve::engine
