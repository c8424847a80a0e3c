// How many tokens a chain drafts where that follows what is accepted: the rule of the experiments
// of Optimized Speculative Sampling (of the Transformers library before): 5 at first, two more
// after a step that accepted all, one fewer after any other. One rule for the engine, which drafts
// by it, and the prices.
#pragma once

#include <algorithm>
#include <cstdint>

namespace versieve {

inline constexpr std::int64_t kFirstChainLength = 5;

// Of the step after one that drafted `length` tokens; `most`: the tuple's.
inline std::int64_t next_chain_length(std::int64_t length, bool all_accepted, std::int64_t most) {
  constexpr std::int64_t kMore = 2;
  return std::clamp<std::int64_t>(length + (all_accepted ? kMore : -1), 1, most);
}

class ChainLength {
 public:
  // `most`: of the tuple.
  explicit ChainLength(std::int64_t most)
      : most_(most), length_(std::min(kFirstChainLength, most)) {}

  std::int64_t length() const { return length_; }
  // Of the chain of that length.
  void count_accepted(std::int64_t accepted) {
    length_ = next_chain_length(length_, accepted >= length_, most_);
  }

 private:
  std::int64_t most_, length_;
};

}  // namespace versieve
