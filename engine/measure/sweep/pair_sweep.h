// The sweep `pair`: all that a plan for one trained pair asks for, at contexts that its positions
// and the texts allow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

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
  std::vector<std::string> reuse = {"(FR)*", "(FRRR)*"};  // schedules beside F*
  // Not empty: only what texts sampled at these yield.
  std::vector<double> temperatures;
  // Tokens of a regime's text of a split, all files together; of one that is not there, chats
  // aside, as many as longest_text.
  std::map<std::pair<std::string, std::string>, std::int64_t> text_tokens;
};
std::string pair_sweep(const PairSweepShape& shape, Backend backend);
// A sentence for each text that is too short for a context that others are measured at: which
// shorter one it is measured at, or that it is not.
std::vector<std::string> pair_sweep_notes(const PairSweepShape& shape);
// Contexts that windows of texts are cut at; none where there are chats alone.
std::vector<std::int64_t> text_contexts(const PairSweepShape& shape);

// A pair loaded, and what its sweep depends on. Throws as pair_sweep does.
struct PairAtHand {
  PairAtHand(const PairSource& pair, Backend backend);

  PairSource source;  // its texts are those of plan and judgement
  Backend backend;
  LoadedPair loaded;
  PairSweepShape shape;
};

}  // namespace versieve::engine
