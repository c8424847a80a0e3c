// Teacher-forced loss of a target on given texts under a schedule: a token's natural-log loss given
// the true tokens before it, through the same verify and commit that decoding uses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model/target.h"

namespace versieve::engine {

// -log softmax(logits)[token], computed in double.
template <class T>
double token_loss(std::span<const T> logits, std::int32_t token);

template <class T>
class TextLoss {
 public:
  // Target and ops outlive this. REQUIRES: a text has more than first_scored() + 1 tokens.
  TextLoss(kernels::Ops<T>& ops, Target<T>& target, std::vector<std::vector<std::int32_t>> texts);

  // The first position whose query leaves a block out: before it every schedule selects all there
  // is, so its loss says nothing about schedules.
  static std::int64_t first_scored(const NsaGeometry& nsa) { return nsa.sel_count * nsa.sel_block; }
  std::int64_t scored_tokens() const { return scored_; }
  // Mean over the tokens predicted from positions first_scored() on, of all texts, nats a token.
  // The whole text follows the schedule. Leaves the target's cache with the last text.
  double operator()(const std::string& schedule);

 private:
  double text_loss(std::span<const std::int32_t> text, const std::string& schedule);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  std::vector<std::vector<std::int32_t>> texts_;
  std::int64_t scored_ = 0;
};

}  // namespace versieve::engine
