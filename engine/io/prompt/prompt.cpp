#include "engine/io/prompt/prompt.h"

#include <charconv>

#include "engine/io/prompt/chat_template.h"
#include "engine/io/strict_json.h"
#include "engine/io/utf8.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMaxTokenBytes = 64 << 20;
constexpr int kMaxDepth = 2;
constexpr const char* kWhite = " \t\r\n\v\f";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw Error(ExitCode::kBadInput, path.string() + ": " + what);
}

// -1: it is none.
std::int64_t id_in(std::string_view word) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  return error == std::errc() && end == word.data() + word.size() ? id : -1;
}

std::int64_t id_in(const nlohmann::json& value) {
  return value.is_number_unsigned() && value <= INT32_MAX ? value.get<std::int64_t>() : -1;
}

std::int32_t checked(std::int64_t id, const std::string& spelt, std::int64_t vocab,
                     const std::filesystem::path& path) {
  if (id < 0 || id >= vocab) {
    refuse(path, "'" + one_line(spelt.substr(0, 40)) + "' is no token id from 0 to " +
                     std::to_string(vocab - 1));
  }
  return static_cast<std::int32_t>(id);
}

}  // namespace

TokenIds read_token_file(const std::filesystem::path& path, std::int64_t vocab) {
  std::string text = read_text_file(path, kMaxTokenBytes);
  if (text.starts_with("\xef\xbb\xbf")) {  // the byte order mark of some editors
    text.erase(0, 3);
  }
  const std::size_t first = text.find_first_not_of(kWhite);
  TokenIds ids;
  if (first != std::string::npos && text[first] == '[') {
    for (const nlohmann::json& value : parse_strict_json(text, kMaxDepth, path.string())) {
      ids.push_back(checked(id_in(value), value.dump(-1, ' ', true), vocab, path));
    }
  } else {
    std::string_view rest = text;
    for (std::size_t begin = first; begin != std::string_view::npos;
         begin = rest.find_first_not_of(kWhite)) {
      rest.remove_prefix(begin);
      const std::string_view word = rest.substr(0, rest.find_first_of(kWhite));
      ids.push_back(checked(id_in(word), std::string(word), vocab, path));
      rest.remove_prefix(word.size());
    }
  }
  if (ids.empty()) {
    refuse(path, "holds no tokens");
  }
  return ids;
}

TokenIds encode_prompt(const PromptFiles& files, const std::filesystem::path& model,
                       const Tokenizer& tokenizer) {
  VERSIEVE_ASSERT(files.text.empty() != files.messages.empty(), "the prompt is one of the two");
  if (!files.text.empty()) {
    return tokenizer.encode(read_prompt(files.text));
  }
  TokenIds ids =
      tokenizer.encode_text(apply_chat_template(model, files.messages), SpecialsInText::kTokens);
  if (ids.empty()) {
    refuse(files.messages, "the checkpoint's chat template makes an empty prompt of the messages");
  }
  tokenizer.check(ids);
  return ids;
}

}  // namespace versieve::engine
