// What a tokenizer.json may ask for and is not computed is refused, by its key and with a reason.
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/io/atomic_file.h"
#include "tests/engine/io/tokenizer/fixtures.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

using nlohmann::json;

namespace {

json read_fixture() {
  std::ifstream file(tokenizer_folder("llama3") / "tokenizer.json");
  return json::parse(file);
}

}  // namespace

TEST_CASE("every part of a tokenizer.json is computed or refused") {
  struct Change {
    const char* at;     // what is replaced
    const char* value;  // by what
    const char* part;   // of the sentence
  };
  const Change changes[] = {
      {"/foo", "1", "the key 'foo' is not known"},
      {"/model/type", "\"Unigram\"", "the model 'Unigram' is not computed"},
      {"/model/foo", "null", "model: the key 'foo' is not known"},
      {"/model/dropout", "0.1", "dropout"},
      {"/model/unk_token", "\"nowhere\"", "the unk_token 'nowhere' is not in vocab"},
      {"/model/vocab", "{\"a\": 1, \"b\": 1}", "gives the id 1"},
      {"/model/vocab", "{\"a\": -1}", "vocab['a'] is no id"},
      {"/model/vocab", "{\"a\\nb\": -1}", "vocab['a b'] is no id"},
      {"/model/vocab", "[]", "vocab must be an object"},
      {"/model/merges", "[[\"a\", \"\\u00b6z\"]]", "not all of them are in vocab"},
      {"/model/merges", "[\"a b c\"]", "merges[0] is neither"},
      {"/model/merges", "7", "merges must be a list"},
      {"/normalizer", "{\"type\": \"Lowercase\"}", "the normalizer 'Lowercase' is not computed"},
      {"/normalizer", "{\"type\": \"NFC\", \"x\": 1}", "normalizer: the key 'x' is not known"},
      {"/normalizer",
       "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[[:a:]]\"}, \"content\": "
       "\"\"}",
       "pattern: a class within a class"},
      {"/normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Nmt\"}]}",
       "normalizers[0]: the normalizer 'Nmt'"},
      {"/pre_tokenizer", "{\"type\": \"Whitespace\"}", "the pre-tokenizer 'Whitespace'"},
      {"/pre_tokenizer",
       "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": "
       "\"Odd\", \"invert\": false}",
       "the behavior 'Odd'"},
      {"/pre_tokenizer",
       "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": "
       "\"last\"}",
       "the prepend_scheme 'last'"},
      {"/pre_tokenizer", "[]", "pre_tokenizer: is not a JSON object"},
      {"/post_processor", "{\"type\": \"Odd\"}", "the post-processor 'Odd'"},
      {"/post_processor",
       "{\"type\": \"TemplateProcessing\", \"single\": [], \"pair\": [], "
       "\"special_tokens\": {}}",
       "single has no place for the text"},
      {"/post_processor",
       "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
       "{\"id\": \"<x>\", \"type_id\": 0}}], \"special_tokens\": {}}",
       "special_tokens has no '<x>'"},
      {"/post_processor",
       "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"BertProcessing\", \"sep\": "
       "[\"a\", 1], \"cls\": [\"b\", 2]}, {\"type\": \"RobertaProcessing\", \"sep\": [\"a\", "
       "1], \"cls\": [\"b\", 2]}]}",
       "two processors put tokens around the text"},
      {"/pre_tokenizer", "{\"type\": \"Punctuation\", \"behavior\": \"Odd\"}",
       "the behavior 'Odd'"},
      {"/decoder", "{\"type\": \"WordPiece\"}", "the decoder 'WordPiece'"},
      {"/decoder", "{\"type\": \"Strip\", \"content\": \"ab\", \"start\": 1, \"stop\": 0}",
       "content must be one character"},
      {"/added_tokens/0/id", "9999", "has the id 9999, but the next free one is"},
      {"/added_tokens/0/content", "\"a\"", "but vocab has it as"},
      {"/added_tokens/0/content", "\"\"", "is empty or stands twice"},
      {"/added_tokens/0/odd", "1", "added_tokens[0]: the key 'odd' is not known"}};
  const TempFolder folder;
  const json whole = read_fixture();
  for (const Change& change : changes) {
    CAPTURE(change.at, change.value);
    json document = whole;
    document[json::json_pointer(change.at)] = json::parse(change.value);
    write_file_atomically(folder / "tokenizer.json", document.dump());
    const Error error = error_of([&] { load_tokenizer(folder.path()); });
    CHECK(error.code() == ExitCode::kBadInput);
    CAPTURE(std::string(error.what()));
    CHECK(contains(error.what(), (folder / "tokenizer.json").string()));
    CHECK(contains(error.what(), change.part));
  }
}

TEST_CASE("truncation and padding change no token and are remarked on") {
  const TempFolder folder;
  json document = read_fixture();
  document["truncation"] = {{"max_length", 4}};
  document["version"] = "1.0";
  write_file_atomically(folder / "tokenizer.json", document.dump());
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
  REQUIRE(tokenizer->remarks().size() == 1);
  CHECK(contains(tokenizer->remarks()[0], "truncation"));
  CHECK(tokenizer->encode("one two three four five six").size() > 6);
}
