// Where the Unicode tables of Hugging Face's `tokenizers` (16.0 in its regular expressions, 9.0 in
// its normal forms) differ from those of PCRE2 and utf8proc: written by make_unicode_ranges.py,
// which asks the package itself.
#pragma once

#include <cstdint>
#include <span>

namespace versieve::engine {

struct CharacterRange {
  std::uint32_t first;
  std::uint32_t last;
};

struct PropertyRange {
  std::uint32_t first;
  std::uint32_t last;
  const char* property;  // a general category ("Lo"; "M" for every kind of mark) or a script
};

// Assigned after Unicode 14.
std::span<const PropertyRange> later_assigned();
// Characters that no normal form moves, joins or takes apart: those assigned after Unicode 9, and
// one that utf8proc joins wrongly.
std::span<const CharacterRange> inert_in_normal_forms();
// What the package's pre-tokenizer Punctuation calls so: all of ASCII's, of others those that its
// tables have.
std::span<const CharacterRange> punctuation();

}  // namespace versieve::engine
