// Attention over a dense cache whose keys are split over thread blocks (kernels/flash_decode): a
// launch for the chunks and one that merges them.
#pragma once

#include <cstdint>

#include "model/launches/launch_work.h"
#include "model/words/llm_shape.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h

// Keys of a chunk whose partial result is merged with the others': 128 up to 16,384 keys, then a
// power of two of them; and the chunks of a row.
double flash_chunk_keys(double keys);
double flash_chunks(double keys);
// Its launch for that many queries of the target.
LaunchKind flash_kind(const LlmShape& target, std::int64_t queries);

void add_flash_decode(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
