// The byte tokenizer: a token is a byte value; ids from 256 on are special and never parsed from
// text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/words/llm_shape.h"

namespace versieve::engine {

class ByteTokenizer {
 public:
  // tokenizer.json of a model directory. Throws Error(kBadInput), also when its vocabulary is not
  // the model's.
  static ByteTokenizer load(const std::filesystem::path& folder, const LlmShape& shape);
  ByteTokenizer(std::int32_t vocab, std::int32_t bos, std::int32_t eos, std::int32_t pad);

  std::int32_t vocab() const { return vocab_; }
  std::int32_t bos() const { return bos_; }
  std::int32_t eos() const { return eos_; }
  std::int32_t pad() const { return pad_; }  // -1: none

  // BOS, then one token a byte; any bytes are a text.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The bytes of the tokens below 256; special tokens print nothing.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::int32_t vocab_;
  std::int32_t bos_;
  std::int32_t eos_;
  std::int32_t pad_;
};

// The bytes of a prompt file. Throws Error(kBadInput) when it is empty or unreadable.
std::string read_prompt(const std::filesystem::path& path);

}  // namespace versieve::engine
