#include "engine/io/utf8.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace versieve::engine {
namespace {

struct Form {
  unsigned char first_low, first_high;    // of the first byte
  unsigned char second_low, second_high;  // of the second; the later ones are 80..BF
  std::size_t bytes;
};

// The Unicode Standard, table 3-7.
constexpr std::array<Form, 9> kForms = {{{0x00, 0x7f, 0x00, 0xff, 1},
                                         {0xc2, 0xdf, 0x80, 0xbf, 2},
                                         {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                         {0xe1, 0xec, 0x80, 0xbf, 3},
                                         {0xed, 0xed, 0x80, 0x9f, 3},
                                         {0xee, 0xef, 0x80, 0xbf, 3},
                                         {0xf0, 0xf0, 0x90, 0xbf, 4},
                                         {0xf1, 0xf3, 0x80, 0xbf, 4},
                                         {0xf4, 0xf4, 0x80, 0x8f, 4}}};

// The following bytes of that form which the text has, the first one of them included.
std::size_t bytes_of_form(const Form& form, std::string_view text) {
  std::size_t at = 1;
  for (; at < form.bytes && at < text.size(); ++at) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    const unsigned char low = at == 1 ? form.second_low : 0x80;
    const unsigned char high = at == 1 ? form.second_high : 0xbf;
    if (byte < low || byte > high) {
      break;
    }
  }
  return at;
}

const Form* form_of(unsigned char first) {
  for (const Form& form : kForms) {
    if (first >= form.first_low && first <= form.first_high) {
      return &form;
    }
  }
  return nullptr;
}

// Bytes from there on that are ASCII, eight at a time; the rest is for the caller.
std::size_t ascii_bytes(std::string_view text) {
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHigh) != 0) {
      break;
    }
  }
  return at;
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  const Form* const form = form_of(static_cast<unsigned char>(text[0]));
  return form != nullptr && bytes_of_form(*form, text) == form->bytes ? form->bytes : 0;
}

std::size_t broken_bytes(std::string_view text) {
  const Form* const form = form_of(static_cast<unsigned char>(text[0]));
  return form == nullptr ? 1 : bytes_of_form(*form, text);
}

std::size_t first_byte_not_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    at += ascii_bytes(text.substr(at));
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) {
      return at;
    }
    at += bytes;
  }
  return at;
}

std::string one_line(std::string text) {
  const bool is_whole = is_utf8(text);
  for (char& c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      c = ' ';
    } else if (byte >= 0x80 && !is_whole) {
      c = '?';
    }
  }
  return text;
}

}  // namespace versieve::engine
