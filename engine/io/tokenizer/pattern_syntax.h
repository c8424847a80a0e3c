// The regular expressions of a tokenizer.json are Oniguruma's; this writes them as PCRE2's, with
// the same characters in every class. What means something else there, or is not known to mean the
// same, is refused.
#pragma once

#include <string>
#include <string_view>

namespace versieve::engine {

// Throws Error(kBadInput) with `where` and what cannot be carried over.
std::string pcre_of_oniguruma(std::string_view pattern, const std::string& where);

// Character classes without their brackets, for PCRE2.
std::string property_class(const std::string& name);  // "L", "Lo", "M"
std::string word_class();                             // what \w is for a Unicode text
inline constexpr const char* kSpaceClass =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

}  // namespace versieve::engine
