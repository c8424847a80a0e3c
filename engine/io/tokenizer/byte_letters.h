// The letters that byte-level vocabularies write bytes with (GPT-2): printable Latin-1 stands for
// itself, the other bytes for U+0100 on.
#pragma once

#include <string>
#include <string_view>

namespace versieve::engine {

// Appends the letters of a text's bytes.
void append_letters_of(std::string_view text, std::string& out);

// Appends the bytes that a token's letters stand for; where one is none of them, the token's own.
void append_bytes_of(std::string_view token, std::string& out);

}  // namespace versieve::engine
