// Which bytes are UTF-8 (the Unicode Standard, table 3-7).
#include "engine/io/utf8.h"

#include <catch2/catch.hpp>
#include <string>

using namespace versieve::engine;

TEST_CASE("text of every length of character is UTF-8") {
  for (const std::string& text :
       {std::string(), std::string("plain\n"), std::string(1, '\0'), std::string("\xc3\xa4"),
        std::string("\xe2\x82\xac"), std::string("\xed\x9f\xbf"), std::string("\xf0\x9f\x99\x82"),
        std::string("\xf4\x8f\xbf\xbf")}) {
    CHECK(is_utf8(text));
    CHECK(first_byte_not_utf8(text) == text.size());
  }
}

TEST_CASE("the first byte that is none is named") {
  for (const char* wrong :
       {"\xff", "\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x99", "\xc3("}) {
    CAPTURE(wrong);
    CHECK(first_byte_not_utf8(std::string("ok\xc3\xa4") + wrong) == 4);
    CHECK(!is_utf8(wrong));
  }
}

TEST_CASE("a broken character is as long as its beginning, and a sentence stays one line") {
  CHECK(character_bytes("") == 0);
  CHECK(character_bytes("\xe2\x82\xacx") == 3);
  CHECK(character_bytes("\xe2\x82x") == 0);
  const std::pair<const char*, std::size_t> broken[] = {
      {"\xe2\x82x", 2}, {"\xe2", 1},     {"\xff\xff", 1}, {"\xf0\x9f\x98", 3},
      {"\xed\xa0", 1},  {"\xc0\xaf", 1}, {"\x80\x80", 1}, {"\xf4\x90\x80\x80", 1}};
  for (const auto& [text, bytes] : broken) {
    CAPTURE(text);
    CHECK(character_bytes(text) == 0);
    CHECK(broken_bytes(text) == bytes);
  }
  CHECK(one_line("a\nb\x7f\xc3\xa9") == "a b \xc3\xa9");
  CHECK(one_line("a\t\xff") == "a ?");
}
