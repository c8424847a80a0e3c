// SpecAttn's two halves of a step, for as long as a tuple of it is active: a chain of the draft
// model, and the tokens that the target reads because the chain attended to them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/token_lists.h"

namespace versieve::engine {

// While it lives the target reads chosen tokens: one at a time.
template <class T>
class SpecAttnChain {
 public:
  // `text`: all tokens so far. `layer_map`: which draft layer chooses for each target layer; not
  // empty. `prefilled`, which has a draft model, outlives this.
  SpecAttnChain(Prefilled<T>& prefilled, const GenerateOptions& options,
                std::vector<std::int32_t> text, const std::vector<std::int32_t>& layer_map);
  ~SpecAttnChain();
  SpecAttnChain(const SpecAttnChain&) = delete;
  SpecAttnChain& operator=(const SpecAttnChain&) = delete;

  TreeSource<T>& source() { return *source_; }
  ReadCount reads() const { return selector_->reads(); }  // of all verifies so far; waits

 private:
  Prefilled<T>* prefilled_;
  std::unique_ptr<SpecAttnSelector<T>> selector_;  // of source_'s drafter
  std::unique_ptr<TreeSource<T>> source_;
};

}  // namespace versieve::engine
