// The sweep `pair`: all that a plan for one trained pair asks for, at contexts that its positions
// and the texts allow.
#pragma once

#include <string>

#include "engine/measure/sweep/pair_source.h"
#include "model/words/point_words.h"

namespace versieve::engine {

inline constexpr const char* kPairSweep = "pair";

// As JSON, like the built-in ones. Throws Error(kUsage) for a pair that no NSA strategy runs on,
// Error(kBadInput) for a folder that is no pair's or texts that no context can be cut from.
std::string pair_sweep(const PairSource& pair, Backend backend);

// The same of what it depends on. `positions`: of target and draft the fewer.
struct PairSweepShape {
  std::int64_t positions = 0;
  std::int64_t longest_text = 0;  // tokens that one window can be cut from
  std::int64_t longest_chat = 0;
  Dtype dtype = Dtype::kBf16;
  std::vector<std::string> regimes, splits;
};
std::string pair_sweep(const PairSweepShape& shape, Backend backend);

}  // namespace versieve::engine
