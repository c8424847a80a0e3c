// The byte tokenizer of this project's own pair: a token is a byte value; ids from 256 on are
// special and never parsed from text.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

class ByteTokenizer final : public Tokenizer {
 public:
  // {"type": "bytes", ...}. Throws Error(kBadInput) with `source`.
  static ByteTokenizer read(const nlohmann::json& document, const std::string& source);
  ByteTokenizer(std::int32_t vocab, std::int32_t bos, std::int32_t eos, std::int32_t pad);
  ByteTokenizer(const ByteTokenizer& other)
      : ByteTokenizer(other.vocab_, other.bos(), other.eos_, other.pad_) {}

  std::int32_t bos() const { return before_[0]; }
  std::int32_t eos() const { return eos_; }
  std::int32_t pad() const { return pad_; }  // -1: none

  TokenIds encode_text(std::string_view text, SpecialsInText specials) const override;
  const TokenIds& before() const override { return before_; }
  const TokenIds& after() const override { return after_; }
  using Tokenizer::decode;
  // Special tokens have no text.
  std::string decode(std::span<const std::int32_t> ids, SpecialsDecoded specials) const override;
  std::int32_t id_count() const override { return vocab_; }

 private:
  std::int32_t vocab_;
  TokenIds before_;  // BOS
  TokenIds after_;
  std::int32_t eos_;
  std::int32_t pad_;
};

}  // namespace versieve::engine
