// The CUDA runtime for programs on a machine without a GPU, as far as its rules go: memory is the
// host's, launches compute nothing, and each call is held against what a runtime refuses or a GPU
// corrupts in silence. Work of a stream runs as late as its order allows: when the host waits.
//
// A program links it in front of the runtime (tests/support/mock_cuda/CMakeLists.txt says how). A
// call that breaks a rule leaves a finding, and returns the runtime's error where it refuses.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace versieve::mock_cuda {

enum class Rule {
  kLaunch,   // grids, blocks, clusters, shared memory, a kernel that is not known
  kMemory,   // what a launch, copy or replay names is freed, or beyond its block
  kOrder,    // freed, or written by the host, while work in flight uses it
  kCapture,  // calls that may not be made under a capture, captures that do not end well
  kHandle    // a stream, event or graph that is not there
};

struct Finding {
  Rule rule = Rule::kLaunch;
  std::string sentence;
  std::int64_t times = 1;  // it was found
};
// All since it was last asked, the oldest first. What is enqueued runs first.
std::vector<Finding> take_findings();
// A line each, for a test's message.
std::string text_of(const std::vector<Finding>& findings);

struct Counts {
  std::int64_t launches = 0;  // that ran, those of replays too
  std::int64_t captures = 0, replays = 0;
  std::int64_t copies = 0;
};
Counts counts();

// A launch whose turn it is.
struct LaunchedKernel {
  std::string_view name;       // without namespaces, types and parameters
  std::string_view signature;  // all of it
  dim3 grid;
  std::span<const std::vector<std::byte>> parameters;
};
// What launches of kernels of that name do, in place of nothing. Device memory is the host's.
void compute(const std::string& name, std::function<void(const LaunchedKernel&)> body);

}  // namespace versieve::mock_cuda
