// The fused launches of all layers of a step for several sequences: cuts, maps and arguments are
// worked out once, lie in device memory and follow no context's length, only a bound of it, so that
// a recording of the launches holds while requests grow, join and leave. Each call has the bits
// that it has alone.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <memory>

#include "kernels/common/launch_context.h"
#include "kernels/ops_together.h"

namespace versieve::kernels {

// Memory of a step's launches, of the device.
struct FusedStepMemory {
  void* arguments = nullptr;     // FusedStep::argument_bytes(), 256-byte aligned
  unsigned* counters = nullptr;  // FusedStep::counter_count(), zeros, which launches leave zero
};

class FusedStep {
 public:
  FusedStep();
  FusedStep(const FusedStep&) = delete;
  FusedStep& operator=(const FusedStep&) = delete;
  ~FusedStep();

  // Which of the step's calls have such launches, and how they are cut. `step` is looked at until
  // the next plan. The host alone.
  void plan(const NsaStepParams<Bf16>& step);
  // Calls of the step that have none.
  const std::vector<std::size_t>& others() const;
  std::size_t image_bytes() const;     // what the host uploads, once a step
  std::size_t argument_bytes() const;  // that, and behind it a copy a layer
  std::size_t counter_count() const;
  std::size_t scratch_bytes() const;
  StepShape shape() const;  // empty where calls have no such launches

  // The image, to be copied to memory.arguments. REQUIRES: context.scratch is as large as asked.
  void write(void* image, const FusedStepMemory& memory, const LaunchContext& context);
  // Enqueues what makes the layers' arguments of the image, before the step's first launch.
  void enqueue_layers(const LaunchContext& context) const;
  void launch(std::int64_t layer, const LaunchContext& context);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace versieve::kernels
#endif
