// How many tokens a chain drafts where that follows what is accepted: the rule of the experiments
// of Optimized Speculative Sampling (of the Transformers library before): 5 at first, two more
// after a step that accepted all, one fewer after any other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace versieve::engine {

class ChainLength {
 public:
  // `most`: of the tuple.
  explicit ChainLength(std::int64_t most) : most_(most), length_(std::min(kFirst, most)) {}

  std::int64_t length() const { return length_; }
  // Of the chain of that length.
  void count_accepted(std::int64_t accepted) {
    length_ = std::clamp<std::int64_t>(length_ + (accepted >= length_ ? kMore : -1), 1, most_);
  }

 private:
  static constexpr std::int64_t kFirst = 5, kMore = 2;

  std::int64_t most_, length_;
};

}  // namespace versieve::engine
