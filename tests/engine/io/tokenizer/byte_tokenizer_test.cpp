// Bytes to tokens and back.
#include "engine/io/tokenizer/byte_tokenizer.h"

#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("any bytes are a text, with BOS before them") {
  const ByteTokenizer tokenizer(272, 256, 257, 258);
  const std::string text("a\xff\0<bos>\n", 9);
  const std::vector<std::int32_t> tokens = tokenizer.encode(text);
  REQUIRE(tokens.size() == 10);
  CHECK(tokens[0] == 256);
  CHECK(tokens[1] == 'a');
  CHECK(tokens[2] == 255);
  CHECK(tokens[3] == 0);
  CHECK(tokens[4] == '<');
  CHECK(tokenizer.decode(tokens) == text);
  const std::vector<std::int32_t> with_end = {'h', 'i', 257, 270};
  CHECK(tokenizer.decode(with_end) == "hi");
}

TEST_CASE("the tokenizer of a model directory is checked against the model") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_target(folder.path(), model);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path(), model.target);
  const ByteTokenizer& bytes = dynamic_cast<const ByteTokenizer&>(*tokenizer);
  CHECK(bytes.bos() == 256);
  CHECK(bytes.eos() == 257);
  CHECK(bytes.pad() == 258);
  const std::pair<const char*, const char*> wrong[] = {
      {"{\"type\":\"bpe\"}", "the type 'bpe' is not known"},
      {"{\"type\":\"bytes\",\"vocab_size\":300,\"specials\":{\"<bos>\":256,\"<eos>\":257}}",
       "vocab_size must be the model's, 272"},
      {"{\"type\":\"bytes\",\"vocab_size\":272}", "specials"},
      {"{\"type\":\"bytes\",\"vocab_size\":272,\"specials\":{\"<bos>\":65,\"<eos>\":257}}",
       "<bos>"},
      {"{\"type\":\"bytes\",\"vocab_size\":272,\"specials\":{\"<bos>\":256,\"<eos>\":272}}",
       "<eos>"},
      {"[]", "not a JSON object"},
      {"{", "not valid JSON"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    write_file_atomically(folder / "tokenizer.json", text);
    const Error error = error_of([&] { load_tokenizer(folder.path(), model.target); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), part));
  }
}

TEST_CASE("an empty or missing prompt is one sentence") {
  const TempFolder folder;
  write_file_atomically(folder / "empty.txt", "");
  write_file_atomically(folder / "prompt.txt", "\xff");
  CHECK(contains(error_of([&] { read_prompt(folder / "empty.txt"); }).what(), "is empty"));
  CHECK(contains(error_of([&] { read_prompt(folder / "no.txt"); }).what(), "cannot be read"));
  CHECK(read_prompt(folder / "prompt.txt") == "\xff");
}
