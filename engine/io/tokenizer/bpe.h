// Byte-pair encoding as Hugging Face's BPE model: the vocabulary and the order of merges, applied
// to one piece of text at a time.
//
// One thread at a time: pieces already seen are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace versieve::engine {

class Bpe {
 public:
  // `model` of a tokenizer.json. Throws Error(kBadInput) with `where`.
  static Bpe read(const nlohmann::json& model, const std::string& where);
  Bpe(Bpe&&) noexcept;
  ~Bpe();

  // Ids of vocabulary entries, -1 for none; one more than the largest id.
  std::int32_t id_of(std::string_view token) const;
  std::int32_t id_count() const;
  // Every token of the vocabulary under its id; empty where an id is not used.
  const std::vector<std::string>& tokens() const;

  // Appends the ids of a piece. What the vocabulary cannot write becomes its unknown token, or
  // nothing where it has none.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct State;
  explicit Bpe(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace versieve::engine
