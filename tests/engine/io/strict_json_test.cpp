// JSON from an unknown hand: what is refused is refused by line, column and the nearest key.
#include "engine/io/strict_json.h"

#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

std::string refusal(const std::string& text) {
  const Error error = error_of([&] { parse_strict_json(text, 8, "config.json"); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

}  // namespace

TEST_CASE("a syntax error is reported by line, column and key") {
  const std::pair<const char*, const char*> wrong[] = {
      {"{\n  \"a\": 1,\n  \"b\": {\"c\": NaN}\n}",
       "config.json: is not valid JSON at line 3, column 14, at or after the key 'b.c': 'N'"},
      {"{\"a\": 1,\n}", "line 2, column 1, at or after the key 'a': '}' is wrong there"},
      {"{\"a\": [1, 2,, 3]}", "JSON at column 13, at or after the key 'a'"},
      {"{\"a\": {\"b\": 1", "at or after the key 'a.b': the text ends there"},
      {"{\"a\": 1e999}", "key 'a': the number 1e999 is beyond every number"},
      {"{\"a\": -Infinity}", "key 'a'"},
      {"{\"a\": 'x'}", "key 'a'"},
      {"{\"a\": True}", "key 'a'"},
      {"{\"a\": 01}", "key 'a'"},
      {"{\"a\": \"\xff\"}", "\\xff' is wrong there"},
      {"{\"a\": 1} x", "JSON at column 10"},
      {"", "JSON at column 1: the text ends there"},
      {"# no JSON", "JSON at column 1"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    CHECK_THAT(refusal(text), Catch::Contains(part));
  }
}

TEST_CASE("a key that stands twice is reported with the object it stands in") {
  CHECK(contains(refusal(R"({"fields": {"l2": 1, "l2": 2}})"), "'l2' stands twice in 'fields'"));
  CHECK(refusal(R"({"l2": 1, "l2": 2})").ends_with("'l2' stands twice"));
  CHECK(contains(refusal(R"({"a": [[[[[[[[1]]]]]]]]})"), "nested deeper than 8 levels, in 'a'"));
  CHECK(refusal("[[[[[[[[[1]]]]]]]]]").ends_with("nested deeper than 8 levels"));
}

TEST_CASE("what Git LFS leaves in a file's place is told apart") {
  const TempFolder folder;
  write_file_atomically(folder / "config.json",
                        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  const Error error = error_of([&] { read_json_object(folder / "config.json"); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(contains(error.what(), "`git lfs pull`"));
}

TEST_CASE("a byte order mark in front of JSON is passed over") {
  CHECK(parse_strict_json("\xef\xbb\xbf{\"a\": 1}\n", 8, "config.json")["a"] == 1);
}
