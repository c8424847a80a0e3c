// Runs whose steps the host leads: it proposes a tree, waits for the verdict and commits. Every
// strategy and every backend can be run so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/run/speculate/prefilled.h"

namespace versieve::engine {

template <class T>
class HostLedRuns {
 public:
  explicit HostLedRuns(Prefilled<T>& prefilled) : prefilled_(&prefilled) {}

  // From the prefilled prompt, whatever ran before, with the strategy's own draft.
  Generation run(const GenerateOptions& options);
  // The same with trees from elsewhere; the strategy's draft and order are not looked at.
  Generation run(const GenerateOptions& options, TreeSource<T>& source);
  // A target that reads the tokens which its draft model's attention chooses. `layer_map`: which
  // draft layer chooses for each target layer; not empty.
  Generation run_specattn(const GenerateOptions& options,
                          const std::vector<std::int32_t>& layer_map);
  // Walks along a given continuation of the prompt: each step drafts from the true prefix, counts
  // the longest path of the target's greedy choices, and then commits that many tokens of the text
  // itself. `tokens` of the result are the target's choices, one a step.
  Generation teacher_forced(const GenerateOptions& options, std::span<const std::int32_t> text);

 private:
  void commit_text(TreeSource<T>& source, std::span<const std::int32_t> tokens,
                   std::int32_t next_token, const std::string& schedule);

  Prefilled<T>* prefilled_;
};

// Adds a step's yield, times and blocks to the run, and shows the step to whoever asked.
void record_step(const StepResult& step, const GenerateOptions& options, Generation& run);

}  // namespace versieve::engine
