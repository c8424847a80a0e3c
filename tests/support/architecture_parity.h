// The tiny checkpoints of tests/data/architectures on a device: their logits against those of
// transformers, and whether a text in pieces gives the bits of the whole. Origin: the README there.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"
#include "engine/run/model/load.h"
#include "tests/support/paths.h"

namespace versieve::test {

inline std::filesystem::path architectures_folder() {
  return std::filesystem::path(VERSIEVE_SOURCE_DIR) / "tests/data/architectures";
}
inline std::vector<std::string> architecture_names() {
  return {"llama",
          "llama-linear",
          "llama-llama3",
          "llama-yarn",
          "llama-yarn-mscale",
          "llama-yarn-attention-factor",
          "mistral-window",
          "mistral",
          "qwen2",
          "qwen2-window",
          "qwen3",
          "qwen3-window",
          "smollm2",
          "smollm3",
          "llama-long"};
}

struct ExpectedText {
  std::vector<std::int32_t> tokens;  // [T]
  std::vector<double> logits;        // [R, V], of the last R tokens: all, but of a long text

  explicit ExpectedText(const std::string& name) {
    const engine::SafetensorsFile file =
        engine::SafetensorsFile::read(architectures_folder() / name / "expected.safetensors");
    tokens = engine::values_as<std::int32_t>(*file.find("tokens"), "tokens");
    logits = engine::values_as<double>(*file.find("logits"), "logits");
  }
};

inline double relative_norm(const std::vector<double>& got, const std::vector<double>& expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

template <class T>
double wide(T value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return static_cast<double>(to_float(value));
  } else {
    return static_cast<double>(value);
  }
}

// Logits of the text, [T, V], read in chains of at most `piece` tokens.
template <class T>
std::vector<T> text_logits(kernels::Ops<T>& ops, engine::Target<T>& target,
                           const std::vector<std::int32_t>& tokens, std::size_t piece) {
  target.cache().truncate(0);
  std::vector<T> all;
  for (std::size_t at = 0; at < tokens.size(); at += piece) {
    const std::size_t end = std::min(tokens.size(), at + piece);
    target.verify(engine::chain_tree({tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                      tokens.begin() + static_cast<std::ptrdiff_t>(end)}),
                  {});
    std::vector<T> logits((end - at) * static_cast<std::size_t>(target.shape().vocab));
    ops.download(logits.data(), target.logits(), logits.size() * sizeof(T));
    all.insert(all.end(), logits.begin(), logits.end());
    std::vector<std::int32_t> path(end - at);
    std::iota(path.begin(), path.end(), 0);
    target.commit(path);
  }
  return all;
}

template <class T>
double logit_error(kernels::Ops<T>& ops, const engine::Checkpoint& checkpoint,
                   const ExpectedText& expected) {
  engine::Target<T> target = engine::make_target<T>(ops, checkpoint, nullptr);
  std::vector<double> got;
  for (const T value : text_logits<T>(ops, target, expected.tokens, expected.tokens.size())) {
    got.push_back(wide(value));
  }
  got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(expected.logits.size()));
  return relative_norm(got, expected.logits);
}

// Whether the whole text, pieces of seven and single tokens give the same bits.
template <class T>
bool pieces_give_the_same_bits(kernels::Ops<T>& ops, const engine::Checkpoint& checkpoint,
                               const std::vector<std::int32_t>& tokens) {
  engine::Target<T> target = engine::make_target<T>(ops, checkpoint, nullptr);
  const std::vector<T> whole = text_logits<T>(ops, target, tokens, tokens.size());
  for (const std::size_t piece : {7, 1}) {
    const std::vector<T> other = text_logits<T>(ops, target, tokens, piece);
    if (std::memcmp(other.data(), whole.data(), whole.size() * sizeof(T)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace versieve::test
