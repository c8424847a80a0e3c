// Lets the layer above see each launch without kernels knowing who watches: the profiler's CUPTI
// ranges, the trace, the sweep's per-term totals. NVTX ranges are opened regardless
// (common/launch_range.h).
#pragma once

#include "model/words/traffic.h"

namespace versieve::kernels {

class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  // `name` is the kernel's root word ("nsa_compressed"); `traffic` its predicted bytes and flops.
  virtual void launch_begins(const char* name, const Traffic& traffic) = 0;
  virtual void launch_ends(const char* name) = 0;
};

}  // namespace versieve::kernels
