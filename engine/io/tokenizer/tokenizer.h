// Text to tokens and back, as the files of a model directory say: tokenizer.json (this project's
// bytes, or Hugging Face's byte-pair encoding) or else tokenizer.model (SentencePiece).
//
// Any bytes are a text. One thread at a time: tokenizers keep what they have seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/words/llm_shape.h"

namespace versieve::engine {

using TokenIds = std::vector<std::int32_t>;

// Of special tokens in a text that is encoded: "<|im_end|>" is one token, or ten letters.
enum class SpecialsInText { kTokens, kLetters };
// Of special tokens that are decoded.
enum class SpecialsDecoded { kWritten, kLeftOut };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of a text alone.
  virtual TokenIds encode_text(std::string_view text, SpecialsInText specials) const = 0;
  // What the tokenizer's files put around it, BOS mostly.
  virtual const TokenIds& before() const = 0;
  virtual const TokenIds& after() const = 0;
  // Ids that stand for nothing give nothing. A character may be cut at either end.
  virtual std::string decode(std::span<const std::int32_t> ids, SpecialsDecoded specials) const = 0;
  // One more than the largest id.
  virtual std::int32_t id_count() const = 0;
  // What was odd in the files and does no harm.
  virtual std::vector<std::string> remarks() const { return {}; }

  // A prompt: the text with what stands around it, special tokens recognised. Throws
  // Error(kBadInput) for an id that the model's vocabulary does not have.
  TokenIds encode(std::string_view text) const;
  // What a model wrote: special tokens are left out.
  std::string decode(std::span<const std::int32_t> ids) const {
    return decode(ids, SpecialsDecoded::kLeftOut);
  }
  // What ids add to the text of those before them; a decoder may treat the first token its own way.
  std::string decode_after(std::span<const std::int32_t> before,
                           std::span<const std::int32_t> ids) const;

  // Of the model that the ids go to; ids from there on are refused by encode and check.
  void limit_to(std::int64_t vocab) { vocab_ = vocab; }
  // Throws Error(kBadInput) for an id that the model's vocabulary does not have.
  void check(std::span<const std::int32_t> ids) const;

 protected:
  Tokenizer() = default;

 private:
  std::int64_t vocab_ = 0;  // 0: of no model
};

// Throw Error(kBadInput) for files that are missing, wrong, or ask for what is not computed here.
std::unique_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder);
std::unique_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                const LlmShape& shape);

// The bytes of a prompt file. Throws Error(kBadInput) when it is empty or unreadable.
std::string read_prompt(const std::filesystem::path& path);

}  // namespace versieve::engine
