#include "engine/io/tokenizer/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/io/tokenizer/unicode_ranges.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

utf8proc_option_t options_of(NormalForm form) {
  const int compatible =
      form == NormalForm::kNfkc || form == NormalForm::kNfkd ? UTF8PROC_COMPAT : 0;
  const int composes =
      form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | composes | compatible);
}

void append_mapped(std::string_view text, NormalForm form, std::string& out) {
  if (text.empty()) {
    return;
  }
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size == UTF8PROC_ERROR_NOMEM) {
    throw Error(ExitCode::kEnvironment, "out of memory");
  }
  VERSIEVE_ASSERT(size >= 0, "whole UTF-8 has a normal form");
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

bool is_inert(utf8proc_int32_t character) {
  const std::span<const CharacterRange> ranges = inert_in_normal_forms();
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), static_cast<std::uint32_t>(character),
      [](std::uint32_t value, const CharacterRange& range) { return value < range.first; });
  return after != ranges.begin() && static_cast<std::uint32_t>(character) <= std::prev(after)->last;
}

// What has no ASCII but its first character. Below U+0300 NFC changes nothing; inert characters
// divide what is mapped.
void append_stretch(std::string_view text, NormalForm form, std::string& out) {
  std::size_t mapped_from = 0;
  bool changes = form != NormalForm::kNfc;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    VERSIEVE_ASSERT(bytes > 0, "the text is whole UTF-8");
    const std::size_t next = at + static_cast<std::size_t>(bytes);
    changes = changes || character >= 0x300;
    if (is_inert(character)) {
      append_mapped(text.substr(mapped_from, at - mapped_from), form, out);
      out.append(text.substr(at, next - at));
      mapped_from = next;
    }
    at = next;
  }
  if (changes) {
    append_mapped(text.substr(mapped_from), form, out);
  } else {
    out.append(text.substr(mapped_from));
  }
}

}  // namespace

// ASCII changes in no form and joins nothing before it, so the text is cut before its letters.
std::string normal_form(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t far = static_cast<std::size_t>(
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_ascii) -
        text.begin());
    // A mark changes with the character before it.
    const std::size_t begin = far == text.size() || far == at ? far : far - 1;
    out.append(text.substr(at, begin - at));
    const std::size_t end = static_cast<std::size_t>(
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(far), text.end(), is_ascii) -
        text.begin());
    append_stretch(text.substr(begin, end - begin), form, out);
    at = end;
  }
  return out;
}

}  // namespace versieve::engine
