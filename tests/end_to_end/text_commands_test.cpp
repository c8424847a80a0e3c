// Text into the built command and out of it: `tokenize`, and the prompts of `generate`.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/refusals.h"
#include "tests/support/tiny_model.h"

using namespace versieve::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kTokenizers = VERSIEVE_SOURCE_DIR "/tests/data/tokenizers/";

// A tiny pair of the byte tokenizer.
struct Scene {
  TempFolder folder;
  fs::path model = folder / "model";

  Scene() { write_tiny_pair(model, TinyModel{}); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string generate(const std::string& prompt) const {
    return "generate --model " + model.string() + " --strategy nsa/d4k1n5/bfs/c1/F* " + prompt +
           " --max-new-tokens 4 --backend cpu";
  }
  json answer(const std::string& prompt) const {
    const CommandResult result = run_versieve(generate(prompt) + " --json");
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out);
  }
};

}  // namespace

TEST_CASE("tokenize gives the ids and the text that they stand for") {
  const Scene scene;
  const std::string in = scene.file("t.txt", "Hi <|user|>\n");
  const std::string line = "tokenize --model " + kTokenizers + "llama3 --in " + in;
  const CommandResult plain = run_versieve(line);
  CHECK(plain.code == 0);
  const json answer = json::parse(run_versieve(line + " --json").out);
  CHECK(answer.at("text") == "Hi <|user|>\n");
  CHECK(answer.at("same_bytes") == true);
  std::string ids;
  for (const json& id : answer.at("ids")) {
    ids += (ids.empty() ? "" : " ") + id.dump();
  }
  CHECK(plain.out == ids + "\n");
  const json bare = json::parse(run_versieve(line + " --json --no-special").out);
  CHECK(bare.at("text") == "Hi <|user|>\n");
  CHECK(bare.at("ids").size() > answer.at("ids").size());
  const json broken = json::parse(run_versieve("tokenize --json --model " + kTokenizers +
                                               "llama3 --in " + scene.file("b.txt", "a\xff"))
                                      .out);
  CHECK(broken.at("text") == "a\xef\xbf\xbd");
  CHECK(broken.at("same_bytes") == true);
}

TEST_CASE("tokenize takes many texts of one file, by lines or zero bytes") {
  const Scene scene;
  const std::string line = "tokenize --model " + kTokenizers + "smollm2 --in ";
  const std::string lines = scene.file("lines.txt", "one\n\ntwo 2\n");
  const json three = json::parse(run_versieve(line + lines + " --each line --json").out);
  REQUIRE(three.at("texts").size() == 3);
  CHECK(three["texts"][1].at("ids").empty());
  CHECK(three["texts"][2].at("text") == "two 2");
  const std::string zeros = scene.file("zeros.bin", std::string("a\nb\0\xff\0", 6));
  const json two = json::parse(run_versieve(line + zeros + " --each zero --json").out);
  REQUIRE(two.at("texts").size() == 2);
  CHECK(two["texts"][0].at("text") == "a\nb");
  CHECK(two["texts"][1].at("same_bytes") == true);
  const std::string out = run_versieve(line + lines + " --each line").out;
  CHECK(std::count(out.begin(), out.end(), '\n') == 3);
}

TEST_CASE("generate answers with tokens and their text, from a text or from ids alike") {
  const Scene scene;
  const json by_text = scene.answer("--prompt-file " + scene.file("p.txt", "fox"));
  CHECK(by_text.at("tokens").size() == by_text.at("generated_tokens"));
  CHECK(by_text.at("text").is_string());
  const json by_ids = scene.answer("--prompt-tokens " + scene.file("ids", "[256, 102, 111, 120]"));
  const json by_words = scene.answer("--prompt-tokens " + scene.file("words", "256 102\n111 120"));
  CHECK(by_ids.at("prompt_tokens") == 4);
  for (const json& other : {by_ids, by_words}) {
    CHECK(other.at("tokens") == by_text.at("tokens"));
    CHECK(other.at("text") == by_text.at("text"));
  }
  fs::remove(scene.model / "tokenizer.json");
  const json without = scene.answer("--prompt-tokens " + scene.file("ids", "[256, 102, 111, 120]"));
  CHECK(without.at("tokens") == by_text.at("tokens"));
  CHECK(without.at("text").is_null());
  CHECK(without.at("remarks").dump().find("only tokens") != std::string::npos);
}

TEST_CASE("generate ends where generation_config.json says") {
  const Scene scene;
  const std::string prompt = "--prompt-file " + scene.file("p.txt", "fox");
  const json free = scene.answer(prompt);
  REQUIRE(free.at("tokens").size() == 4);
  std::ofstream(scene.model / "generation_config.json")
      << json{{"eos_token_id", {free["tokens"][1], 270}}};
  const json stopped = scene.answer(prompt);
  CHECK(stopped.at("stopped") != free.at("stopped"));
  CHECK(stopped.at("tokens").size() <= 2);
}

TEST_CASE("generate takes the messages of a chat") {
  const Scene scene;
  std::ofstream(scene.model / "tokenizer_config.json") << json{
      {"chat_template", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"}};
  const std::string messages = scene.file("m.json", R"([{"role": "user", "content": "h\u00e9"}])");
  const json chat = scene.answer("--messages " + messages);
  CHECK(chat.at("prompt_tokens") == std::string("<user>h\xc3\xa9").size());
  const json tokens = json::parse(run_versieve("tokenize --model " + scene.model.string() +
                                               " --messages " + messages + " --json")
                                      .out);
  CHECK(tokens.at("text") == "<user>h\xc3\xa9");
}

TEST_CASE("prompts that contradict each other or are none are refused in a sentence") {
  const Scene scene;
  const std::string text = "--prompt-file " + scene.file("p.txt", "fox");
  check_refused(scene.generate(""), 2, "needs one prompt");
  check_refused(scene.generate(text + " --prompt-tokens " + scene.file("i", "1")), 2,
                "needs one prompt");
  check_refused(scene.generate("--prompt-tokens " + scene.file("ids", "1 272")), 3,
                "'272' is no token id from 0 to 271");
  check_refused(scene.generate("--messages " + scene.file("m.json", "[]")), 3,
                "has no chat template");
  const std::string tokenize = "tokenize --model " + kTokenizers + "smollm2 ";
  check_refused(tokenize, 2, "needs one text");
  check_refused(tokenize + "--in /no/such/file", 3, "cannot be read");
  check_refused("tokenize --model /no/such/folder --in " + scene.file("t", "x"), 3,
                "tokenizer.json");
}
