#include "engine/io/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"
#include "engine/io/tokenizer/added_tokens.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;
using sentencepiece::SentencePieceProcessor;

constexpr std::int64_t kMostModelBytes = 256 << 20;
constexpr std::int32_t kMostIds = 16 << 20;  // far beyond any vocabulary

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::kBadInput, one_line(path.string() + ": " + what));
}

std::int32_t id_from(const std::string& text, const fs::path& path) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id >= kMostIds) {
    refuse(path, "'" + text + "' is no token id");
  }
  return id;
}

// Null if the file is not there.
nlohmann::json config_in(const fs::path& path) {
  return is_there(path) ? read_json_object(path) : nlohmann::json();
}

bool flag_of(const nlohmann::json& config, const char* key, bool otherwise, const fs::path& path) {
  if (!config.is_object() || !config.contains(key) || config[key].is_null()) {
    return otherwise;
  }
  if (!config[key].is_boolean()) {
    refuse(path, std::string(key) + " must be true or false");
  }
  return config[key].get<bool>();
}

// Of tokenizer_config.json: {"32000": {"content": "<pad>", "special": true, ...}}.
void read_decoder_entries(const nlohmann::json& entries, const fs::path& path,
                          std::map<std::int32_t, AddedToken>& tokens) {
  for (const auto& [key, entry] : entries.items()) {
    if (!entry.is_object() || !entry.contains("content") || !entry["content"].is_string()) {
      refuse(path, "added_tokens_decoder['" + key + "'] has no content");
    }
    const std::int32_t id = id_from(key, path);
    tokens[id] = {.id = id,
                  .content = entry["content"].get<std::string>(),
                  .special = flag_of(entry, "special", false, path),
                  .single_word = flag_of(entry, "single_word", false, path),
                  .takes_left = flag_of(entry, "lstrip", false, path),
                  .takes_right = flag_of(entry, "rstrip", false, path)};
  }
}

// {"<pad>": 32000}.
void read_added_tokens(const fs::path& path, std::map<std::int32_t, AddedToken>& tokens) {
  const nlohmann::json entries = config_in(path);
  for (const auto& [content, id] : entries.items()) {
    if (!id.is_number_integer() || id < 0 || id >= kMostIds) {
      refuse(path, "'" + content + "' has no token id");
    }
    tokens.try_emplace(
        id.get<std::int32_t>(),
        AddedToken{.id = id.get<std::int32_t>(), .content = content, .special = true});
  }
}

class SentencepieceTokenizer final : public Tokenizer {
 public:
  SentencepieceTokenizer(std::unique_ptr<SentencePieceProcessor> processor,
                         const std::map<std::int32_t, AddedToken>& added, TokenIds before,
                         TokenIds after)
      : processor_(std::move(processor)),
        added_(added),
        before_(std::move(before)),
        after_(std::move(after)),
        id_count_(processor_->GetPieceSize()) {
    for (const auto& [id, token] : added_) {
      finder_.add(token.content, token);
      id_count_ = std::max(id_count_, id + 1);
    }
  }

  TokenIds encode_text(std::string_view text, SpecialsInText specials) const override {
    TokenIds ids;
    for (const auto& part : finder_.cut(text, specials == SpecialsInText::kTokens)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      std::vector<int> found;
      const auto status =
          processor_->Encode(text.substr(part.begin, part.end - part.begin), &found);
      if (!status.ok()) {
        throw Error(ExitCode::kBadInput,
                    "SentencePiece cannot encode the text: " + std::string(status.message()));
      }
      ids.insert(ids.end(), found.begin(), found.end());
    }
    return ids;
  }

  const TokenIds& before() const override { return before_; }
  const TokenIds& after() const override { return after_; }
  std::int32_t id_count() const override { return id_count_; }

  // Stretches between added tokens are decoded for themselves, as they were encoded.
  std::string decode(std::span<const std::int32_t> ids, SpecialsDecoded specials) const override {
    std::string text;
    std::vector<int> stretch;
    const auto finish = [&] {
      text += processor_->DecodeIds(stretch);
      stretch.clear();
    };
    for (const std::int32_t id : ids) {
      const auto added = added_.find(id);
      if (added == added_.end()) {
        if (id >= 0 && id < processor_->GetPieceSize()) {
          stretch.push_back(id);
        }
        continue;
      }
      finish();
      if (!added->second.special || specials == SpecialsDecoded::kWritten) {
        text += added->second.content;
      }
    }
    finish();
    return text;
  }

 private:
  std::unique_ptr<SentencePieceProcessor> processor_;
  std::map<std::int32_t, AddedToken> added_;  // by id
  TokenIds before_, after_;
  std::int32_t id_count_;
  AddedTokenFinder finder_;
};

std::unique_ptr<SentencePieceProcessor> load_processor(const fs::path& path) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const std::string text = read_text_file(path, kMostModelBytes);
  refuse_pointer(text, path);
  const auto status = processor->LoadFromSerializedProto(text);
  if (!status.ok() || processor->GetPieceSize() < 1) {
    refuse(path, "is not a SentencePiece model");
  }
  return processor;
}

// The class of Llama's tokenizers puts BOS before a text unless it is told otherwise.
bool adds_bos_by_default(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains("tokenizer_class")) {
    return false;
  }
  const nlohmann::json& name = config["tokenizer_class"];
  return name.is_string() && name.get_ref<const std::string&>().starts_with("LlamaTokenizer");
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece_tokenizer(const fs::path& folder) {
  const fs::path path = folder / "tokenizer.model";
  std::unique_ptr<SentencePieceProcessor> processor = load_processor(path);
  const fs::path config_path = folder / "tokenizer_config.json";
  const nlohmann::json config = config_in(config_path);
  std::map<std::int32_t, AddedToken> added;
  if (config.is_object() && config.contains("added_tokens_decoder")) {
    read_decoder_entries(config["added_tokens_decoder"], config_path, added);
  }
  read_added_tokens(folder / "added_tokens.json", added);
  for (int id = 0; id < processor->GetPieceSize(); ++id) {
    if (processor->IsControl(id) || processor->IsUnknown(id)) {
      added.try_emplace(id,
                        AddedToken{.id = id, .content = processor->IdToPiece(id), .special = true});
    }
  }
  const auto around = [&](const char* key, bool otherwise, int id) {
    return flag_of(config, key, otherwise, config_path) && id >= 0 ? TokenIds{id} : TokenIds{};
  };
  TokenIds before = around("add_bos_token", adds_bos_by_default(config), processor->bos_id());
  TokenIds after = around("add_eos_token", false, processor->eos_id());
  return std::make_unique<SentencepieceTokenizer>(std::move(processor), added, std::move(before),
                                                  std::move(after));
}

}  // namespace versieve::engine
