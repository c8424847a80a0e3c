#include "engine/io/tokenizer.h"

#include "engine/io/strict_json.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int32_t kBytes = 256;                // ids below are byte values
constexpr std::int64_t kMaxPromptBytes = 64 << 20;  // far beyond any context

std::int32_t special_id(const nlohmann::json& specials, const char* name, std::int64_t vocab,
                        const std::string& source, bool required) {
  if (!specials.contains(name) && !required) {
    return -1;
  }
  if (!specials.contains(name) || !specials[name].is_number_unsigned() ||
      specials[name].get<std::uint64_t>() < static_cast<std::uint64_t>(kBytes) ||
      specials[name].get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab)) {
    throw Error(ExitCode::kBadInput,
                source + ": the special " + name + " must be an id from 256 below vocab_size");
  }
  return specials[name].get<std::int32_t>();
}

}  // namespace

ByteTokenizer ByteTokenizer::load(const std::filesystem::path& folder, const LlmShape& shape) {
  const std::filesystem::path path = folder / "tokenizer.json";
  const nlohmann::json document = read_json_object(path);
  const std::string source = path.string();
  if (!document.contains("type") || document["type"] != "bytes") {
    throw Error(ExitCode::kBadInput,
                source + ": only the byte tokenizer ({\"type\": \"bytes\", ...}) is supported");
  }
  if (!document.contains("vocab_size") || document["vocab_size"] != shape.vocab) {
    throw Error(ExitCode::kBadInput,
                source + ": vocab_size must be the model's, " + std::to_string(shape.vocab));
  }
  if (!document.contains("specials") || !document["specials"].is_object()) {
    throw Error(ExitCode::kBadInput, source + ": has no object of specials");
  }
  const nlohmann::json& specials = document["specials"];
  return ByteTokenizer(static_cast<std::int32_t>(shape.vocab),
                       special_id(specials, "<bos>", shape.vocab, source, true),
                       special_id(specials, "<eos>", shape.vocab, source, true),
                       special_id(specials, "<pad>", shape.vocab, source, false));
}

ByteTokenizer::ByteTokenizer(std::int32_t vocab, std::int32_t bos, std::int32_t eos,
                             std::int32_t pad)
    : vocab_(vocab), bos_(bos), eos_(eos), pad_(pad) {
  VERSIEVE_ASSERT(bos >= kBytes && bos < vocab, "BOS is a special id");
  VERSIEVE_ASSERT(eos >= kBytes && eos < vocab, "EOS is a special id");
}

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() + 1);
  tokens.push_back(bos_);
  for (const char byte : text) {
    tokens.push_back(static_cast<unsigned char>(byte));
  }
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < kBytes) {
      text.push_back(static_cast<char>(token));
    }
  }
  return text;
}

std::string read_prompt(const std::filesystem::path& path) {
  std::string text = read_text_file(path, kMaxPromptBytes);
  if (text.empty()) {
    throw Error(ExitCode::kBadInput, path.string() + ": the prompt is empty");
  }
  return text;
}

}  // namespace versieve::engine
