// How a family whose form is no op of its own reaches the stream and scratch of CUDA ops.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

using ContextLaunch = std::function<void(const LaunchContext&)>;

// launch(their context), with scratch of at least so many bytes, where `ops` are CUDA's; else false
// and nothing is called.
template <class T>
bool launch_with_scratch(Ops<T>& ops, std::size_t bytes, const ContextLaunch& launch);

// Whether it would be called.
template <class T>
bool has_launches(Ops<T>& ops) {
  return launch_with_scratch<T>(ops, 0, [](const LaunchContext&) {});
}

}  // namespace versieve::kernels
