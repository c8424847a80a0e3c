#include "engine/io/tokenizer/tokenizer.h"

#include <array>

#include "engine/io/strict_json.h"
#include "engine/io/tokenizer/byte_tokenizer.h"
#include "engine/io/tokenizer/hugging_face_tokenizer.h"
#include "engine/io/tokenizer/sentencepiece_tokenizer.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxPromptBytes = 64 << 20;  // far beyond any context

std::unique_ptr<Tokenizer> load_any(const fs::path& folder) {
  const fs::path json = folder / "tokenizer.json";
  const fs::path model = folder / "tokenizer.model";
  std::error_code ignored;
  if (fs::exists(json, ignored) || !fs::exists(model, ignored)) {
    const nlohmann::json document = read_json_object(json);
    if (document.contains("type")) {  // Hugging Face's has none
      return std::make_unique<ByteTokenizer>(ByteTokenizer::read(document, json.string()));
    }
    return read_hugging_face_tokenizer(document, json.string());
  }
  return load_sentencepiece_tokenizer(folder);
}

}  // namespace

TokenIds Tokenizer::encode(std::string_view text) const {
  TokenIds ids = before();
  const TokenIds inner = encode_text(text, SpecialsInText::kTokens);
  ids.insert(ids.end(), inner.begin(), inner.end());
  ids.insert(ids.end(), after().begin(), after().end());
  check(ids);
  return ids;
}

std::string Tokenizer::decode_after(std::span<const std::int32_t> before,
                                    std::span<const std::int32_t> ids) const {
  TokenIds all(before.begin(), before.end());
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string known = decode(before);
  const std::string text = decode(all);
  return text.starts_with(known) ? text.substr(known.size()) : decode(ids);
}

void Tokenizer::check(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (vocab_ > 0 && (id < 0 || id >= vocab_)) {
      throw Error(ExitCode::kBadInput,
                  "the token " + std::to_string(id) + " (" +
                      one_line(decode(std::array{id}, SpecialsDecoded::kWritten)) +
                      ") is not in the model's vocabulary of " + std::to_string(vocab_));
    }
  }
}

std::unique_ptr<const Tokenizer> load_tokenizer(const fs::path& folder) {
  return load_any(folder);
}

std::unique_ptr<const Tokenizer> load_tokenizer(const fs::path& folder, const LlmShape& shape) {
  std::unique_ptr<Tokenizer> tokenizer = load_any(folder);
  const ByteTokenizer* const bytes = dynamic_cast<const ByteTokenizer*>(tokenizer.get());
  if (bytes != nullptr && bytes->id_count() != shape.vocab) {
    throw Error(ExitCode::kBadInput, (folder / "tokenizer.json").string() +
                                         ": vocab_size must be the model's, " +
                                         std::to_string(shape.vocab));
  }
  tokenizer->limit_to(shape.vocab);
  return tokenizer;
}

std::string read_prompt(const fs::path& path) {
  std::string text = read_text_file(path, kMaxPromptBytes);
  if (text.empty()) {
    throw Error(ExitCode::kBadInput, path.string() + ": the prompt is empty");
  }
  return text;
}

}  // namespace versieve::engine
