// Who proposes draft trees: the trained draft head, a script in a test, a fixed shape for timing.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/draft_tree.h"

namespace versieve::engine {

// What the target knows about newly committed tokens.
template <class T>
struct Observation {
  std::int64_t first = 0;                // position of the oldest of them
  std::vector<std::int32_t> next_token;  // the token that follows each
  const T* captured = nullptr;           // [*, 3 * hidden], valid until the target's next verify
  std::vector<std::int32_t> rows;        // row of `captured` of each
};

template <class T>
class TreeSource {
 public:
  virtual ~TreeSource() = default;
  // Called after each commit.
  virtual void observe(const Observation<T>&) {}
  // A tree whose root is the newest token, at `position`, which is not yet committed; in the
  // order in which the verifier shall see it.
  virtual DraftTree propose(std::int64_t position, std::int32_t token) = 0;
  // When the last tree is a chain sampled from the draft's distribution: its logits
  // [N - 1, V]. Otherwise null: children are deterministic proposals.
  virtual const T* sampled_logits() const { return nullptr; }
};

// Autoregressive decoding: the root alone.
template <class T>
class NoDraft final : public TreeSource<T> {
 public:
  DraftTree propose(std::int64_t, std::int32_t token) override {
    return {.parent = {-1}, .depth = {0}, .token = {token}, .log_probability = {0.0F}};
  }
};

}  // namespace versieve::engine
