#include "engine/io/utf8.h"

#include <array>

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

// Bytes of the character that begins there; 0: none does.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (const Form& form : kForms) {
    if (byte(0) < form.first_low || byte(0) > form.first_high) {
      continue;
    }
    if (text.size() < form.bytes) {
      return 0;
    }
    for (std::size_t at = 1; at < form.bytes; ++at) {
      const unsigned char low = at == 1 ? form.second_low : 0x80;
      const unsigned char high = at == 1 ? form.second_high : 0xbf;
      if (byte(at) < low || byte(at) > high) {
        return 0;
      }
    }
    return form.bytes;
  }
  return 0;
}

}  // namespace

std::size_t first_byte_not_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) {
      return at;
    }
    at += bytes;
  }
  return at;
}

}  // namespace versieve::engine
