// flash_decode of all layers of a step for several sequences: what is worked out of a call lies in
// device memory and follows its context's length only by a bound, so that a recording of the
// launches holds while requests grow, join and leave. Each call has the bits that it has alone.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/common/launch_context.h"
#include "kernels/ops_together.h"

namespace versieve::kernels {

class FlashStep {
 public:
  FlashStep();
  FlashStep(const FlashStep&) = delete;
  FlashStep& operator=(const FlashStep&) = delete;
  ~FlashStep();

  // Which of the step's calls such launches take in layers without a window: of at most 128
  // queries, with weights of chains that have few rows. `step` is looked at until the next plan.
  // The host alone.
  void plan(const DenseStepParams<Bf16>& step);
  // Calls of the step that they do not take in that layer, which has no window.
  const std::vector<std::size_t>& others(std::int64_t layer) const;
  std::size_t argument_bytes() const;              // what the host uploads, once a step
  std::size_t scratch_bytes() const;
  StepShape shape() const;  // empty where calls or layers have no such launches

  // The arguments, to be copied to `memory`, device memory of that size. REQUIRES: context.scratch
  // is as large as asked.
  void write(void* arguments, const void* memory, const LaunchContext& context);
  void launch(std::int64_t layer, const LaunchContext& context) const;  // of one without a window

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace versieve::kernels
#endif
