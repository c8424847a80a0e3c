#include "engine/io/tokenizer/byte_letters.h"

#include <array>
#include <cstdint>
#include <optional>

namespace versieve::engine {
namespace {

constexpr std::uint32_t kMostLetters = 0x200;  // code points below hold all letters

struct Letters {
  struct Letter {
    std::array<char, 2> bytes;
    std::uint8_t size;
  };
  std::array<Letter, 256> of_byte;
  std::array<std::int16_t, kMostLetters> byte_of{};  // -1: none

  Letters() {
    byte_of.fill(-1);
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool prints =
          (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const std::uint32_t letter = prints ? byte : next++;
      byte_of[letter] = static_cast<std::int16_t>(byte);
      of_byte[byte] = letter < 0x80 ? Letter{{static_cast<char>(letter), 0}, 1}
                                    : Letter{{static_cast<char>(0xc0 | (letter >> 6)),
                                              static_cast<char>(0x80 | (letter & 0x3f))},
                                             2};
    }
  }
};

const Letters& letters() {
  static const Letters kLetters;
  return kLetters;
}

// The code point at the front of a token, below kMostLetters; its bytes are taken away.
std::optional<std::uint32_t> take_letter(std::string_view& token) {
  const unsigned char first = static_cast<unsigned char>(token[0]);
  if (first < 0x80) {
    token.remove_prefix(1);
    return first;
  }
  if (first < 0xc2 || first > 0xc7 || token.size() < 2 ||
      (static_cast<unsigned char>(token[1]) & 0xc0) != 0x80) {
    return {};
  }
  const std::uint32_t letter =
      (first & 0x1fU) << 6 | (static_cast<unsigned char>(token[1]) & 0x3fU);
  token.remove_prefix(2);
  return letter;
}

}  // namespace

void append_letters_of(std::string_view text, std::string& out) {
  const Letters& known = letters();
  const std::size_t before = out.size();
  out.resize(before + 2 * text.size());
  char* next = out.data() + before;
  for (const char c : text) {
    const Letters::Letter& letter = known.of_byte[static_cast<unsigned char>(c)];
    next[0] = letter.bytes[0];
    next[1] = letter.bytes[1];  // overwritten by the next one if it is none
    next += letter.size;
  }
  out.resize(static_cast<std::size_t>(next - out.data()));
}

void append_bytes_of(std::string_view token, std::string& out) {
  const std::size_t before = out.size();
  for (std::string_view rest = token; !rest.empty();) {
    const std::optional<std::uint32_t> letter = take_letter(rest);
    if (!letter || letters().byte_of[*letter] < 0) {
      out.resize(before);
      out.append(token);
      return;
    }
    out += static_cast<char>(letters().byte_of[*letter]);
  }
}

}  // namespace versieve::engine
