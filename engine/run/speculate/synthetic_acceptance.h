// Synthetic acceptance: how many tokens a step yields is given, whatever the target says, as
// serving engines have it for benchmarks. So models with random weights, whose own acceptance means
// nothing, decode as fast as a trained pair's acceptance lets them. All else of a step is real: the
// draft grows its tree, the target verifies it, a path of that many nodes is committed (the first
// of its depth, or the deepest there is). The text means nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/words/strategy.h"

namespace versieve::engine {

// One text's. What a step yields is a function of the tuple and of where its root stands, so that
// tuples which take turns (under a guard) go through the same text.
class SyntheticAcceptance {
 public:
  virtual ~SyntheticAcceptance() = default;
  // Why steps of that tuple have no yield here, or an empty text.
  virtual std::string lacking_because(const Strategy& strategy) const = 0;
  // [i]: what a step yields whose root stands i tokens behind the prompt's last, bonus counted; 1
  // without a draft. REQUIRES: nothing is lacking.
  virtual std::vector<std::int32_t> yields(const Strategy& strategy, std::int64_t count) const = 0;
};

// Where its yields come from.
enum class AcceptanceFrom { kRecorded, kLaw };
const char* name_of(AcceptanceFrom from);  // "recorded", "law"
// Throws Error(kUsage), naming both.
AcceptanceFrom parse_acceptance_from(const std::string& name);

// A trained pair's recorded steps along one text: yields of each step, or an empty list where
// nobody recorded the tuple. Between two recorded steps the next one begins, as `versieve replay`
// has it; a text that ends begins again.
using WalkOf = std::function<const std::vector<std::int64_t>&(const Strategy&)>;
std::unique_ptr<SyntheticAcceptance> recorded_acceptance(WalkOf walk_of);

// Standard deviation of texts' means, of the mean over texts: kPriorSteps' cells
// (model/plan/runtime_guard.h).
inline constexpr double kTextSpread = 0.081;

// Of a tuple's expected tokens a step, none where nothing is expected: each level of the tree is
// accepted, given the one before, with the one probability that gives this mean (times this text's
// own share, the same for all tuples), down to the tuple's depth. All tuples share the draw of a
// place, so that a hard passage is one for all.
using ExpectedOf = std::function<std::optional<double>(const Strategy&)>;
std::unique_ptr<SyntheticAcceptance> law_acceptance(ExpectedOf expected_of, std::uint64_t seed);

// P(a level is accepted, given the one before), at which a step of `levels` yields `mean` tokens;
// 0 to 1 for means from 1 to levels + 1 and what lies beyond.
double level_probability(double mean, std::int64_t levels);

}  // namespace versieve::engine
