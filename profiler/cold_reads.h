// The data-movement floor of the machine that runs this: what a kernel takes that does nothing but
// read bytes that lie in DRAM. No kernel that must fetch as many can take less.
#pragma once

#include <vector>

#include "model/words/hardware.h"

namespace versieve::profiler {

// One row for each of 1, 2, 4, ... 4096 MiB, as far as half of the free memory goes. A row is the
// least over a few forms of a kernel of 16-byte loads (how many a thread has under way, how many
// blocks), each the median of 15 CUDA graphs of launches that walk over buffers of more than three
// times the L2; launch and ramp are in it. Takes 0.6 s on an H100. Throws Error(kEnvironment)
// without a GPU or memory.
std::vector<ReadTime> measure_cold_reads();

}  // namespace versieve::profiler
