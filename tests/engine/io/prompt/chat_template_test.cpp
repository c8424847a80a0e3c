// Messages become the text that the checkpoint's template makes of them.
#include "engine/io/prompt/chat_template.h"

#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/prompt/prompt.h"
#include "tests/engine/io/tokenizer/fixtures.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

using nlohmann::json;

namespace {

struct Chat {
  TempFolder folder;
  std::filesystem::path messages = folder / "messages.json";

  Chat() {
    say(json::array({{{"role", "system"}, {"content", "Be brief."}},
                     {{"role", "user"}, {"content", "Gr\u00fc\u00dfe <b>\n\"2\""}}}));
  }
  void say(const json& list) { write_file_atomically(messages, list.dump()); }
  void config(const json& value) {
    write_file_atomically(folder / "tokenizer_config.json", value.dump());
  }
  std::string with(const std::string& text) {
    config({{"chat_template", text}, {"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}});
    return apply_chat_template(folder.path(), messages);
  }
  Error refusal() {
    return error_of([&] { apply_chat_template(folder.path(), messages); });
  }
};

}  // namespace

TEST_CASE("a template sees messages, tokens and the functions that checkpoints use") {
  Chat chat;
  CHECK(chat.with("{{ bos_token }}{% for m in messages %}\n  {% if true %}\n"
                  "[{{ m['role'] }}]{{ m.content | trim }}{{ eos_token }}\n  {% endif %}\n"
                  "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}") ==
        "<s>[system]Be brief.</s>\n[user]Gr\u00fc\u00dfe <b>\n\"2\"</s>\n[assistant]");
  CHECK(chat.with("{{ messages[1]['content'] | tojson }}") ==
        "\"Gr\u00fc\u00dfe <b>\\n\\\"2\\\"\"");
  CHECK(chat.with("{% generation %}x{{ 1 + 1 }}{% endgeneration %}") == "x2");
  CHECK(chat.with("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}"
                  "{% endfor %}") == "01");
  CHECK(chat.with("{% if tools is none and documents is none and not unk_token is defined %}y"
                  "{% endif %}") == "y");
  CHECK(chat.with("{{ strftime_now('%Y') | length }}") == "4");
  CHECK(chat.with("{{ messages[0] | tojson(indent=1) }}") ==
        "{\n \"content\": \"Be brief.\",\n \"role\": \"system\"\n}");
}

TEST_CASE("the order of a message's keys is the file's") {
  Chat chat;
  write_file_atomically(chat.messages, R"([{"role": "user", "content": "x", "b": 1, "a": 2}])");
  CHECK(chat.with("{% for k in messages[0] %}{{ k }} {% endfor %}") == "role content b a ");
}

TEST_CASE("a template is looked for where checkpoints have it") {
  Chat chat;
  chat.config(json::object());
  write_file_atomically(chat.folder / "chat_template.json", R"({"chat_template": "from json"})");
  CHECK(apply_chat_template(chat.folder.path(), chat.messages) == "from json");
  CHECK(chat.with("from config") == "from config");
  chat.config({{"chat_template",
                {{{"name", "tool_use"}, {"template", "tools"}},
                 {{"name", "default"}, {"template", "the default"}}}}});
  CHECK(apply_chat_template(chat.folder.path(), chat.messages) == "the default");
  write_file_atomically(chat.folder / "chat_template.jinja", "from jinja");
  CHECK(apply_chat_template(chat.folder.path(), chat.messages) == "from jinja");
}

TEST_CASE("byte order marks are passed over, and a template that is no UTF-8 is refused") {
  Chat chat;
  chat.config(json::object());
  const std::string mark = "\xef\xbb\xbf";
  write_file_atomically(chat.folder / "chat_template.jinja", mark + "{{ messages[0].content }}");
  write_file_atomically(chat.messages, mark + R"([{"role": "user", "content": "x"}])");
  CHECK(apply_chat_template(chat.folder.path(), chat.messages) == "x");
  write_file_atomically(chat.folder / "chat_template.jinja", "\xff\xfe");
  const Error error = chat.refusal();
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(contains(error.what(), "chat_template.jinja: is no UTF-8"));
}

TEST_CASE("null keys are none, and reasoning is found under each of its names") {
  Chat chat;
  chat.say(json::array({{{"role", "assistant"}, {"content", nullptr}, {"reasoning", "why"}}}));
  CHECK(chat.with("[{{ messages[0].content }}]{{ messages[0] | tojson }}") ==
        "[]{\"thinking\": \"why\", \"reasoning\": \"why\", \"role\": \"assistant\", "
        "\"reasoning_content\": \"why\"}");
}

TEST_CASE("a template sees the tokens that a model alone has") {
  Chat chat;
  chat.config({{"chat_template", "{{ image_token }}{{ bos_token }}"},
               {"bos_token", "<s>"},
               {"extra_special_tokens", {{"image_token", "<image>"}}}});
  CHECK(apply_chat_template(chat.folder.path(), chat.messages) == "<image><s>");
}

TEST_CASE("a message that calls tools needs no content") {
  Chat chat;
  chat.say(json::array({{{"role", "assistant"}, {"tool_calls", {{{"name", "f"}}}}}}));
  CHECK(chat.with("{{ messages[0].tool_calls[0].name }}[{{ messages[0].content }}]") == "f[]");
}

TEST_CASE("special tokens that a template writes are tokens, and nothing is put around them") {
  Chat chat;
  std::filesystem::copy_file(tokenizer_folder("llama3") / "tokenizer.json",
                             chat.folder / "tokenizer.json");
  chat.with("<|user|>{{ messages[1].content }}<|end|>");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(chat.folder.path());
  const TokenIds ids = encode_prompt({.messages = chat.messages}, chat.folder.path(), *tokenizer);
  CHECK(ids.front() == tokenizer->before().front());
  CHECK(ids[1] != ids[0]);
  CHECK(ids.back() == tokenizer->after().back());
  CHECK(ids == tokenizer->encode("Gr\u00fc\u00dfe <b>\n\"2\""));
}

TEST_CASE("a template's refusal, its faults and its loops are one sentence") {
  Chat chat;
  const std::pair<const char*, const char*> wrong[] = {
      {"{{ raise_exception('roles must\n alternate') }}", "roles must alternate"},
      {"{% if %}", "refuses the messages"},
      {"{{ messages[0].content.nowhere.x }}", "refuses the messages"},
      {"{{ ''.__class__.__mro__ }}", "unsafe"},
      {"{{ messages.append(1) }}", "unsafe"},
      {"{{ range(999999999) | list }}", "refuses the messages"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 9999 }}{% endfor %}"
       "{% endfor %}",
       "emplate"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    chat.config({{"chat_template", text}});
    const Error error = chat.refusal();
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), chat.messages.string()));
    CHECK(contains(error.what(), part));
    CHECK(!contains(error.what(), "\n"));
  }
}

TEST_CASE("messages that are none, and a checkpoint without a template, are refused") {
  Chat chat;
  CHECK(contains(chat.refusal().what(), "has no chat template"));
  chat.config({{"chat_template", 7}});
  CHECK(contains(chat.refusal().what(), "neither a text nor a list"));
  chat.config({{"chat_template", "x"}});
  for (const json& list : {json::object(), json::array(), json::array({1}),
                           json::array({{{"role", "user"}}}), json::array({{{"content", "x"}}})}) {
    CAPTURE(list.dump());
    chat.say(list);
    const Error error = chat.refusal();
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), "message"));
  }
  write_file_atomically(chat.messages, "[");
  CHECK(contains(chat.refusal().what(), "is not valid JSON"));
}

TEST_CASE("without a Python that has jinja2 the sentence says what to install") {
  Chat chat;
  chat.config({{"chat_template", "x"}});
  const std::filesystem::path bare = chat.folder / "python-without-jinja2";
  write_file_atomically(bare, "#!/bin/sh\necho '{\"missing\": \"jinja2\"}'\n");
  std::filesystem::permissions(bare, std::filesystem::perms(0755));
  const Error error = error_of([&] {
    apply_chat_template(chat.folder.path(), chat.messages, {"no-such-python", bare.string()});
  });
  CHECK(error.code() == ExitCode::kEnvironment);
  CHECK(contains(error.what(), "python3-jinja2"));
}
