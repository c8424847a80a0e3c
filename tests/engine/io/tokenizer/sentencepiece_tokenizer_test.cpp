// A tokenizer.model gives the ids of the package `sentencepiece`; specials as its folder says.
#include "engine/io/tokenizer/sentencepiece_tokenizer.h"

#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "tests/engine/io/tokenizer/fixtures.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace fs = std::filesystem;

TEST_CASE("ids and texts of a tokenizer.model are those of the package") {
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(tokenizer_folder("sentencepiece"));
  const nlohmann::json expected = expected_of("sentencepiece");
  REQUIRE(expected.size() > 15);
  for (const nlohmann::json& one : expected) {
    const std::string text = one.at("text");
    CAPTURE(text);
    const TokenIds ids = tokenizer->encode(text);
    CHECK(ids == one.at("inner").get<TokenIds>());
    CHECK(tokenizer->decode(ids) == one.at("decoded").get<std::string>());
  }
}

TEST_CASE("BOS, EOS and added tokens come from the files beside a tokenizer.model") {
  const TempFolder folder;
  fs::copy_file(tokenizer_folder("sentencepiece") / "tokenizer.model", folder / "tokenizer.model");
  CHECK(load_tokenizer(folder.path())->before().empty());
  write_file_atomically(folder / "tokenizer_config.json",
                        R"({"tokenizer_class": "LlamaTokenizerFast", "add_eos_token": true,
                            "added_tokens_decoder": {"500": {"content": "<tool>"}}})");
  write_file_atomically(folder / "added_tokens.json", R"({"<pad>": 501})");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
  CHECK(tokenizer->before() == TokenIds{1});
  CHECK(tokenizer->after() == TokenIds{2});
  CHECK(tokenizer->id_count() == 502);
  const TokenIds ids = tokenizer->encode_text("<s>a<tool><pad>", SpecialsInText::kTokens);
  REQUIRE(ids.size() >= 4);
  CHECK(ids.front() == 1);
  CHECK(ids[ids.size() - 2] == 500);
  CHECK(ids.back() == 501);
  CHECK(tokenizer->decode(ids) == "a<tool>");
  CHECK(tokenizer->decode(ids, SpecialsDecoded::kWritten) == "<s>a<tool><pad>");
  const TokenIds letters = tokenizer->encode_text("<s>a<tool>", SpecialsInText::kLetters);
  CHECK(letters.front() != 1);
  CHECK(tokenizer->decode(letters) == "<s>a<tool>");
  write_file_atomically(folder / "tokenizer_config.json", R"({"add_bos_token": false})");
  CHECK(load_tokenizer(folder.path())->before().empty());
}

TEST_CASE("what is no SentencePiece model is one sentence") {
  const TempFolder folder;
  const auto refusal = [&] {
    const Error error = error_of([&] { load_tokenizer(folder.path()); });
    CHECK(error.code() == ExitCode::kBadInput);
    return std::string(error.what());
  };
  CHECK(contains(refusal(), "tokenizer.json"));
  for (const std::string bytes : {"", "not a model", "\x0a\x02\x08\x01"}) {
    write_file_atomically(folder / "tokenizer.model", bytes);
    CHECK(contains(refusal(), "is not a SentencePiece model"));
  }
  fs::copy_file(tokenizer_folder("sentencepiece") / "tokenizer.model", folder / "tokenizer.model",
                fs::copy_options::overwrite_existing);
  write_file_atomically(folder / "added_tokens.json", R"({"<pad>": "x"})");
  CHECK(contains(refusal(), "'<pad>' has no token id"));
  write_file_atomically(folder / "added_tokens.json", "{}");
  write_file_atomically(folder / "tokenizer_config.json", R"({"add_bos_token": 1})");
  CHECK(contains(refusal(), "add_bos_token must be true or false"));
}
