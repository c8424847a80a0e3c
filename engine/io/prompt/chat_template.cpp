#include "engine/io/prompt/chat_template.h"

#include <nlohmann/json.hpp>

#include "engine/io/child_program.h"
#include "engine/io/input_file.h"
#include "engine/io/shipped_data.h"
#include "engine/io/strict_json.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMaxTextBytes = 64 << 20;
constexpr int kMaxDepth = 64;
constexpr const char* kScript = "engine/io/prompt/render_chat.py";
constexpr int kNotFound = 127;  // of run_child

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::kBadInput, path.string() + ": " + what);
}

json object_in(const fs::path& path) {
  return is_there(path) ? read_json_object(path) : json::object();
}

// Text of some editors begins with a byte order mark, which is none of it.
std::string without_mark(std::string text) {
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
}

// A text, or a list of named ones, of which the one named default counts.
std::string template_of(const json& value, const fs::path& path) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  for (const json& entry : value.is_array() ? value : json::array()) {
    if (entry.is_object() && entry.value("name", json()) == "default" &&
        entry.value("template", json()).is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  refuse(path, "chat_template is neither a text nor a list with one named default");
}

std::string find_template(const fs::path& model) {
  if (is_there(model / "chat_template.jinja")) {
    std::string text = read_text_file(model / "chat_template.jinja", kMaxTextBytes);
    if (!is_utf8(text)) {
      refuse(model / "chat_template.jinja", "is no UTF-8");
    }
    return without_mark(std::move(text));
  }
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const json config = object_in(model / name);
    if (config.contains("chat_template") && !config["chat_template"].is_null()) {
      return template_of(config["chat_template"], model / name);
    }
  }
  refuse(model,
         "has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json or "
         "chat_template.json), so messages cannot be its prompt");
}

// bos_token and its like: a text, or an object with the content.
void add_named_tokens(const json& config, json& tokens) {
  for (const auto& [key, value] : config.items()) {
    const json& text = value.is_object() && value.contains("content") ? value["content"] : value;
    if (key.ends_with("_token") && text.is_string()) {
      tokens[key] = text;
    }
  }
}

json named_tokens(const fs::path& model) {
  json tokens = json::object();
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const json config = object_in(model / name);
    if (config.contains("extra_special_tokens") && config["extra_special_tokens"].is_object()) {
      add_named_tokens(config["extra_special_tokens"], tokens);  // a model's own: image_token
    }
    add_named_tokens(config, tokens);
  }
  return tokens;
}

// The file's own text, checked: a template may ask for the order of keys.
std::string read_messages(const fs::path& path) {
  std::string text = without_mark(read_text_file(path, kMaxTextBytes));
  const json messages = parse_strict_json(text, kMaxDepth, path.string());
  if (!messages.is_array() || messages.empty()) {
    refuse(path, "must be a list of messages, [{\"role\": ..., \"content\": ...}, ...]");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    if (!message.is_object() || !message.value("role", json()).is_string() ||
        !(message.contains("content") || message.contains("tool_calls"))) {
      refuse(path, "message " + std::to_string(i) + " needs a role, which is a text, and content");
    }
  }
  return text;
}

// What the script answers; null where this Python lacks jinja2 or is not there.
json answer_of(const std::string& python, const std::string& request, const fs::path& messages) {
  const ChildResult child = run_child({python, shipped_data(kScript).string()}, request);
  if (child.exit_code == kNotFound) {
    return {};
  }
  const json answer = json::parse(child.output, nullptr, false);
  if (child.exit_code != 0 || !answer.is_object()) {
    refuse(messages,
           "the checkpoint's chat template could not be applied: its program ended with " +
               std::to_string(child.exit_code) +
               " (above 128: stopped, for it took too long or too much memory)");
  }
  return answer.contains("missing") ? json() : answer;
}

}  // namespace

std::string apply_chat_template(const fs::path& model, const fs::path& messages,
                                const std::vector<std::string>& pythons) {
  const json request = {{"template", find_template(model)},
                        {"messages", read_messages(messages)},
                        {"tokens", named_tokens(model)}};
  for (const std::string& python : pythons) {
    const json answer = answer_of(python, request.dump(), messages);
    if (answer.contains("error")) {
      refuse(messages, "the checkpoint's chat template refuses the messages: " +
                           answer["error"].get<std::string>());
    }
    if (answer.contains("text")) {
      return answer["text"].get<std::string>();
    }
  }
  throw Error(ExitCode::kEnvironment,
              "messages need python3 with jinja2, which applies the checkpoint's chat template "
              "(Debian and Ubuntu: apt install python3-jinja2)");
}

}  // namespace versieve::engine
