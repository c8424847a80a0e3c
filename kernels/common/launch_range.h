// The range around one kernel launch: opens an NVTX range in the domain "versieve" that carries the
// launch's predicted bytes and flops, and notifies the observer, so that prediction and measurement
// meet by construction. Needs no GPU; NVTX costs nothing without a tool attached.
#pragma once

#include "kernels/common/launch_observer.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

class LaunchRange {
 public:
  // `name` is the kernel's root word, a literal; `observer` may be null.
  LaunchRange(const char* name, const Traffic& traffic, LaunchObserver* observer);
  ~LaunchRange();
  LaunchRange(const LaunchRange&) = delete;
  LaunchRange& operator=(const LaunchRange&) = delete;

 private:
  const char* name_;
  LaunchObserver* observer_;
};

}  // namespace versieve::kernels
