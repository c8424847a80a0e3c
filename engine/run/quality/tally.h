// Sums of one strategy over one set, from stretches of scored tokens and from answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/run/quality/lossy_quality.h"
#include "engine/run/quality/token_law.h"

namespace versieve::engine {

class QualityTally {
 public:
  // Scores of the same tokens by the strategy and by the exact run.
  void add_stretch(std::span<const TokenScore> own, std::span<const TokenScore> exact);
  // The same, cut into stretches.
  void add_text(std::span<const TokenScore> own, std::span<const TokenScore> exact);
  void add_answer(bool right, bool exact_right);

  bool empty() const { return divergence_.empty(); }
  // REQUIRES: not empty.
  LossyQualityRow row(const std::string& strategy) const;

 private:
  std::vector<Stretch> divergence_, rise_, agreement_;
  double loss_ = 0.0;
  Answers answers_;
};

}  // namespace versieve::engine
