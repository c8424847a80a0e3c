// The target of a model directory and what drafts for it, a head or a model of its own, on a
// device: loaded once, for any number of prompts and strategies. Or a geometry's, with random
// weights, for runs whose acceptance is synthetic (synthetic_acceptance.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/checkpoint.h"
#include "engine/run/speculate/generate.h"

namespace versieve::engine {

// A geometry's name (named_llm_shape) where no such folder is; none: a folder, or nothing.
std::optional<LlmShape> geometry_of(const std::filesystem::path& model);

template <class T>
class DecodingPair {
 public:
  // `target`: of that directory. `drafts`: whether its draft/, if it has one, is loaded too. Throws
  // Error(kBadInput) for files that are wrong.
  DecodingPair(kernels::Ops<T>& ops, const std::filesystem::path& model, Checkpoint target,
               bool drafts);
  // Of that geometry, and a draft head that is as sure of itself as trained ones.
  DecodingPair(kernels::Ops<T>& ops, const LlmShape& geometry, std::uint64_t seed);
  DecodingPair(const DecodingPair&) = delete;
  DecodingPair& operator=(const DecodingPair&) = delete;

  Generator<T>& generator() { return *generator_; }
  Target<T>& target() { return *target_; }
  Draft<T>* draft() { return draft_ ? &*draft_ : nullptr; }                     // a head, or null
  Target<T>* draft_model() { return draft_model_ ? &*draft_model_ : nullptr; }  // or null
  const std::vector<std::int32_t>& eos() const { return eos_; }
  const std::vector<std::string>& remarks() const { return remarks_; }
  // That both target and draft take.
  std::int64_t positions() const;

 private:
  Checkpoint checkpoint_;
  std::vector<std::string> remarks_;  // of all files that were read
  std::vector<std::int32_t> eos_;
  std::optional<Target<T>> draft_model_, target_;
  std::optional<Draft<T>> draft_;
  std::optional<Generator<T>> generator_;
};

}  // namespace versieve::engine
