// Is a text whole UTF-8, as files for other programs must be?
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace versieve::engine {

// The place of the first byte that is none; the text's size if all is well. Surrogates, overlong
// forms and what lies beyond U+10FFFF are none.
std::size_t first_byte_not_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) {
  return first_byte_not_utf8(text) == text.size();
}

// Bytes of the character that the text begins with; 0: it begins with none.
std::size_t character_bytes(std::string_view text);
// REQUIRES: text is not empty and begins with no character. The bytes that one U+FFFD stands for in
// a reader's copy: the longest beginning of a character, at least one.
std::size_t broken_bytes(std::string_view text);

// A stranger's text for a sentence: control characters become spaces, and bytes that are no UTF-8
// question marks.
std::string one_line(std::string text);

}  // namespace versieve::engine
