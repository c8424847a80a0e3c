// Files of tokens as a prompt, and what ends a generation.
#include "engine/io/prompt/prompt.h"

#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/child_program.h"
#include "engine/io/prompt/stop_tokens.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("tokens are a JSON list or numbers with white space between, each in the vocabulary") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "tokens";
  const auto read = [&](const std::string& text) {
    write_file_atomically(path, text);
    return read_token_file(path, 300);
  };
  CHECK(read("[1, 299,0]") == TokenIds{1, 299, 0});
  CHECK(read(" \n[7]\n") == TokenIds{7});
  CHECK(read("\xef\xbb\xbf[4, 5]") == TokenIds{4, 5});
  CHECK(read("\xef\xbb\xbf"
             "4 5") == TokenIds{4, 5});
  CHECK(read("1 2\n3\t4\r\n") == TokenIds{1, 2, 3, 4});
  const std::pair<const char*, const char*> wrong[] = {
      {"", "holds no tokens"},
      {" \n", "holds no tokens"},
      {"[]", "holds no tokens"},
      {"300", "'300' is no token id from 0 to 299"},
      {"[1, 300]", "'300' is no"},
      {"[-1]", "'-1' is no"},
      {"[1.0]", "'1.0' is no"},
      {"[\"1\"]", "is no token id"},
      {"1,2", "'1,2' is no"},
      {"-1", "'-1' is no"},
      {"99999999999999999999", "is no token id"},
      {"[1", "is not valid JSON"},
      {"[[1]]", "is no token id"},
      {"{\"ids\": [1]}", "is no token id"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    const std::string shown = text;
    const Error error = error_of([&] { read(shown); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), path.string()));
    CHECK(contains(error.what(), part));
  }
}

TEST_CASE("a generation ends with the tokens of config.json and generation_config.json") {
  const TempFolder folder;
  CHECK(stop_tokens(folder.path(), {2}) == std::vector<std::int32_t>{2});
  const auto with = [&](const std::string& text) {
    write_file_atomically(folder / "generation_config.json", text);
    return stop_tokens(folder.path(), {2});
  };
  CHECK(with("{}") == std::vector<std::int32_t>{2});
  CHECK(with("{\"eos_token_id\": null}") == std::vector<std::int32_t>{2});
  CHECK(with("{\"eos_token_id\": 7, \"temperature\": 0.6}") == std::vector<std::int32_t>{2, 7});
  CHECK(with("{\"eos_token_id\": [9, 2, 8]}") == std::vector<std::int32_t>{2, 9, 8});
  CHECK(with("{\"eos_token_id\": [9.0, -1]}") == std::vector<std::int32_t>{2, 9});
  for (const char* text : {"{\"eos_token_id\": \"x\"}", "{\"eos_token_id\": [1.5]}"}) {
    const Error error = error_of([&] { with(text); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), "eos_token_id"));
  }
}

TEST_CASE("a child program reads its input, and one that reads none of it blocks nobody") {
  const std::string text(300000, 'x');
  CHECK(run_child({"cat"}, text).output == text);
  CHECK(run_child({"true"}, text).exit_code == 0);
  CHECK(run_child({"cat"}, "").output.empty());
}
