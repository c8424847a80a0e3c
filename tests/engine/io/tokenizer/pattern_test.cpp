// Oniguruma's patterns, matched by PCRE2 with the same characters in every class.
#include "engine/io/tokenizer/pattern.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

// The matches with bars between.
std::string found(const std::string& pattern, const std::string& text, bool is_utf8 = true) {
  std::vector<Match> matches;
  Pattern::oniguruma(pattern, "here").find_all(text, is_utf8, matches);
  std::string out;
  for (const Match& match : matches) {
    out += (out.empty() ? "" : "|") + text.substr(match.begin, match.end - match.begin);
  }
  return out;
}

}  // namespace

TEST_CASE("classes hold what Oniguruma of Unicode 16 has in them") {
  CHECK(found("\\s", "a\u0085b\u00a0c\u180ed\u3000e") == "\u0085|\u00a0|\u3000");
  CHECK(found("\\S+", "a\u180eb c") == "a\u180eb|c");
  CHECK(found("[^\\s]+", "a\u180eb c") == "a\u180eb|c");
  CHECK(found("[\\S\n]+", "a\u180eb \n") == "a\u180eb|\n");
  CHECK(found("\\p{L}+", "x\U00031350\U00010d4ay \u2ffc") == "x\U00031350\U00010d4ay");
  CHECK(found("\\p{Lu}", "\ua7da\ua7db") == "\ua7da");
  CHECK(found("\\P{L}+", "\U000313501\u00b22a") == "1\u00b22");
  CHECK(found("[^\\p{L}\\p{N}]+", "a\U0001ccf0-\u0300") == "-\u0300");
  CHECK(found("\\p{Letter}\\p{^n}", "a1b-") == "b-");
  CHECK(found("\\w+", "a\u00b2\u00bd-\u203fb \u09f4") == "a\u00b2\u00bd|\u203fb");
  CHECK(found("\\d", "\u00b2\u0663\U00010d40x") == "\u0663|\U00010d40");
  CHECK(found("\\p{Han}+", "\u4e00\u3001\U00031350\u3042") == "\u4e00|\U00031350");
  CHECK(found("\\v|\\u00e9|\\x{1F600}", "\x0b\n\u00e9\U0001f600") == "\x0b|\u00e9|\U0001f600");
}

TEST_CASE("anchors, groups and repeats mean what they mean in Oniguruma") {
  CHECK(found("^a|b$", "a\nab\nb") == "a|a|b|b");
  CHECK(found(".+", "a\r\nb") == "a\r|b");
  CHECK(found("(?i:'s|k)", "'S '\u017f \u212a") == "'S|'\u017f|\u212a");
  CHECK(found("a{,2}b", "aaab") == "aab");
  CHECK(found("a{x}", "a{x}") == "a{x}");
  CHECK(found("\\s+(?!\\S)|\\s+", "a   b  ") == "  | |  ");
  CHECK(found("\\bx", "x-x\u00b2x") == "x|x");
  CHECK(found("x*", "xxaa") == "xx||");  // at 3 and 4; none at 2, where the first ended
  CHECK(found("(?<=a)b?+", "abb") == "b");
}

TEST_CASE("broken characters are U+FFFD, one for each beginning of a character") {
  CHECK(found("[^\\p{L}]", "a\xe2\x82\xffz", false) == "\xe2\x82|\xff");
  CHECK(found("\\x{fffd}+", "\xc3(\xf0\x9f\x98", false) == "\xc3|\xf0\x9f\x98");
  CHECK(found("\\p{L}+",
              "ab\x80"
              "cd",
              false) == "ab|cd");
}

TEST_CASE("what Oniguruma reads its own way is refused with the pattern") {
  const char* const patterns[] = {"[a[b]]",   "[a&&b]",   "[[:alpha:]]", "(?m:.)",  "(?<n>a)",
                                  "\\h",      "\\R",      "(a)\\1",      "a{1,2}+", "a{2}?",
                                  "\\p{Foo}", "[\\P{L}]", "a(?i)b",      "[]a]",    "\\xff",
                                  "\\p{Mn}",  "(*UCP)",   "[a",          "a\\"};
  for (const char* pattern : patterns) {
    CAPTURE(pattern);
    const Error error = error_of([&] { Pattern::oniguruma(pattern, "FILE: here"); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), "FILE: here: "));
    CHECK(contains(error.what(), "is not supported"));
  }
  CHECK(contains(error_of([] { Pattern::oniguruma("(", "here"); }).what(), "cannot be compiled"));
  CHECK(contains(error_of([] { Pattern::literal("", "here"); }).what(), "is empty"));
}
