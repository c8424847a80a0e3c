#include "engine/io/tokenizer/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/tokenizer/unicode_ranges.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// More marks in a row than Unicode's Stream-Safe Text Format has.
constexpr int kLongRow = 30;

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

utf8proc_int32_t character_at(std::string_view text, std::size_t at, std::size_t& next) {
  utf8proc_int32_t character = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                       static_cast<utf8proc_ssize_t>(text.size() - at), &character);
  VERSIEVE_ASSERT(bytes > 0, "the text is whole UTF-8");
  next = at + static_cast<std::size_t>(bytes);
  return character;
}

// The order that the library gives marks: it swaps neighbours, which takes the square of a row's
// length.
int mark_class(utf8proc_int32_t character) {
  return character < 0x300 ? 0 : utf8proc_get_property(character)->combining_class;
}

// The text with its rows of marks in their order.
std::string with_ordered_marks(std::string_view text) {
  struct Mark {
    int order;
    std::string_view bytes;
  };
  std::string out;
  std::vector<Mark> row;
  const auto write_row = [&] {
    std::stable_sort(row.begin(), row.end(),
                     [](const Mark& a, const Mark& b) { return a.order < b.order; });
    for (const Mark& mark : row) {
      out.append(mark.bytes);
    }
    row.clear();
  };
  for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
    const int order = mark_class(character_at(text, at, next));
    if (order == 0) {
      write_row();
      out.append(text.substr(at, next - at));
    } else {
      row.push_back({order, text.substr(at, next - at)});
    }
  }
  write_row();
  return out;
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
  int row = 0;
  int longest_row = 0;
  const auto append_part = [&](std::string_view part) {
    longest_row > kLongRow ? append_mapped(with_ordered_marks(part), form, out)
                           : append_mapped(part, form, out);
  };
  for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
    const utf8proc_int32_t character = character_at(text, at, next);
    changes = changes || character >= 0x300;
    row = mark_class(character) != 0 ? row + 1 : 0;
    longest_row = std::max(longest_row, row);
    if (is_inert(character)) {
      append_part(text.substr(mapped_from, at - mapped_from));
      out.append(text.substr(at, next - at));
      mapped_from = next;
    }
  }
  if (changes) {
    append_part(text.substr(mapped_from));
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
