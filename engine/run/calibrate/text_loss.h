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
  // Target and ops outlive this. `threads`: of the CPU, for logits. REQUIRES: a text has more than
  // first_scored() + 1 tokens.
  TextLoss(kernels::Ops<T>& ops, Target<T>& target, std::vector<std::vector<std::int32_t>> texts,
           int threads = 1);

  // The first position whose query leaves a block out: before it every schedule selects all there
  // is, so its loss says nothing about schedules.
  static std::int64_t first_scored(const NsaGeometry& nsa) { return nsa.sel_count * nsa.sel_block; }
  std::int64_t scored_tokens() const { return scored_; }
  // Mean over the tokens predicted from positions first_scored() on, of all texts, nats a token.
  // The whole text follows the schedule; what no schedule changes is run once a text. Leaves the
  // target's cache as it was.
  double operator()(const std::string& schedule);

 private:
  struct Text {
    std::vector<std::int32_t> tokens;
    KvCache<T> cache;  // of its first tokens at least, once it was read
    bool is_begun = false;
  };

  double text_loss(Text& text, const std::string& schedule);
  void run_chunk(std::span<const std::int32_t> text, std::int64_t at, std::int64_t end,
                 const std::string& schedule, double& sum);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  std::vector<Text> texts_;
  int threads_;
  std::vector<T> logits_;  // of a chunk, on the host
  std::int64_t scored_ = 0;
};

}  // namespace versieve::engine
