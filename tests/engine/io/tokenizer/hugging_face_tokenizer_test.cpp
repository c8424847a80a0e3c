// A tokenizer.json gives the ids that the package `tokenizers` gives, and texts come back.
#include "engine/io/tokenizer/hugging_face_tokenizer.h"

#include <catch2/catch.hpp>
#include <set>

#include "engine/io/utf8.h"
#include "tests/engine/io/tokenizer/fixtures.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

TokenIds ids_in(const nlohmann::json& list) {
  return list.get<TokenIds>();
}

// Of these every text comes back: byte letters, no normaliser.
const std::set<std::string> kLossless = {"smollm2", "llama3"};

std::string pieces(const Tokenizer& tokenizer, const TokenIds& ids) {
  std::string out;
  for (const std::int32_t id : ids) {
    out += "[" + tokenizer.decode(std::vector<std::int32_t>{id}, SpecialsDecoded::kWritten) + "]";
  }
  return out;
}

}  // namespace

TEST_CASE("ids and texts are those of the package, for every kind of tokenizer") {
  for (const std::string name : {"gpt2", "smollm2", "llama3", "qwen2", "llama2", "metaspace",
                                 "behaviours", "falcon3", "normalised_tokens"}) {
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizer_folder(name));
    const nlohmann::json expected = expected_of(name);
    REQUIRE(expected.size() > 20);
    for (const nlohmann::json& one : expected) {
      const std::string text = one.at("text");
      CAPTURE(name, text);
      const TokenIds inner = ids_in(one.at("inner"));
      CHECK(tokenizer->encode(text) == ids_in(one.at("ids")));
      CHECK(tokenizer->encode_text(text, SpecialsInText::kTokens) == inner);
      CHECK(tokenizer->encode_text(text, SpecialsInText::kLetters) == ids_in(one.at("letters")));
      const std::string decoded = tokenizer->decode(inner, SpecialsDecoded::kWritten);
      if (is_utf8(decoded)) {  // the package writes U+FFFD for the rest
        CHECK(decoded == one.at("decoded").get<std::string>());
        // The package forgets that a token is special whose spelling the normaliser changes.
        if (name != "normalised_tokens") {
          CHECK(tokenizer->decode(inner) == one.at("without_special").get<std::string>());
        }
      }
      if (kLossless.count(name) != 0 && !contains(text, "<mask>")) {  // which takes spaces
        CHECK(decoded == text);
      }
    }
  }
}

TEST_CASE("bytes that are no UTF-8 come back, split as U+FFFD would be") {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizer_folder("smollm2"));
  const std::string broken[] = {"\xff",
                                "a\x80 b",
                                "caf\xc3",
                                "\xe2\x82 \xac",
                                "\xf0\x9f\x98",
                                "\xed\xa0\x80 x",
                                "x\xc0\xaf<|user|>",
                                std::string("\0\xfe\0", 3),
                                "12\xbf"
                                "34",
                                "  \xe0\x9f\xbf \n",
                                "\xf4\x90\x80\x80",
                                "it's\xa0\xa0\xa0 ok\xc2"};
  for (const std::string& text : broken) {
    const TokenIds ids = tokenizer->encode_text(text, SpecialsInText::kTokens);
    CAPTURE(pieces(*tokenizer, ids));
    CHECK(tokenizer->decode(ids, SpecialsDecoded::kWritten) == text);
  }
  // A letter, a broken character and a letter are three pieces: no token spans two of them.
  const TokenIds ids = tokenizer->encode_text(
      "a\xff"
      "b",
      SpecialsInText::kTokens);
  CHECK(pieces(*tokenizer, ids) == "[a][\xff][b]");
}

TEST_CASE("what a model writes after a prompt keeps its first space") {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizer_folder("llama2"));
  const TokenIds prompt = tokenizer->encode("the model");
  const TokenIds answer = tokenizer->encode_text("the engine", SpecialsInText::kTokens);
  CHECK(tokenizer->decode(answer) == "the engine");
  CHECK(tokenizer->decode_after(prompt, answer) == " the engine");
}

TEST_CASE("a special token that the normaliser changes is left out as any other") {
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(tokenizer_folder("normalised_tokens"));
  const TokenIds ids = tokenizer->encode("a </s>");
  CHECK(tokenizer->decode(ids) == "a");
  CHECK(tokenizer->decode(ids, SpecialsDecoded::kWritten) == "a </s>");
}

TEST_CASE("ids beyond the model's vocabulary are refused, of text and of specials") {
  std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizer_folder("smollm2"));
  const std::int32_t last = tokenizer->id_count() - 1;
  tokenizer = load_tokenizer(tokenizer_folder("smollm2"), LlmShape{.vocab = last});
  CHECK(tokenizer->encode("plain").size() > 1);
  const Error error = error_of([&] { tokenizer->encode("a <tool> b"); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(contains(error.what(), "is not in the model's vocabulary of " + std::to_string(last)));
}

TEST_CASE("a long text and a long word are encoded as their parts are") {
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(tokenizer_folder("llama3"));
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text += "word ";
  }
  const TokenIds once = tokenizer->encode_text("word word ", SpecialsInText::kTokens);
  const TokenIds ids = tokenizer->encode_text(text, SpecialsInText::kTokens);
  CHECK(ids.size() > 20000);
  CHECK(std::equal(once.begin(), once.end() - 1, ids.begin()));
  CHECK(tokenizer->decode(ids) == text);
  const std::string spaces(300000, ' ');
  CHECK(tokenizer->decode(tokenizer->encode_text(spaces + "x", SpecialsInText::kTokens)) ==
        spaces + "x");
  const std::string letters(300000, 'e');
  CHECK(tokenizer->decode(tokenizer->encode_text(letters, SpecialsInText::kTokens)) == letters);
}
