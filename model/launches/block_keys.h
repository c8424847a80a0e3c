// The keys of blocks that ReSA scores (kernels/block_keys): those of the block that a step's token
// lies in are kept beside the step.
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

namespace traffic {

// Block keys of `blocks` blocks of `key_block` tokens, in `layers` layers.
Traffic block_keys(std::int64_t layers, std::int64_t blocks, std::int64_t key_block,
                   std::int64_t width, std::int64_t element_bytes);

}  // namespace traffic

void add_block_keys(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
