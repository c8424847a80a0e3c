// The state behind the calls, and what they have in common.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/mock_cuda/address_space.h"
#include "tests/support/mock_cuda/cubin.h"
#include "tests/support/mock_cuda/findings.h"
#include "tests/support/mock_cuda/mock_cuda.h"
#include "tests/support/mock_cuda/streams.h"

namespace versieve::mock_cuda {

// A kernel that the program registered.
struct Kernel {
  std::string mangled, signature, name;
  const unsigned char* image = nullptr;         // the fat binary that holds it
  std::optional<KernelFacts> facts;             // once it was launched
  std::size_t most_dynamic_shared = 48 * 1024;  // with its own arrays; or as it was asked for
  bool asked_for_shared = false;
  std::map<std::size_t, std::deque<ParameterWord>> words = {};  // of each parameter
  bool large_clusters = false;  // cudaFuncAttributeNonPortableClusterSizeAllowed
};

// An H100 SXM, as far as launches are cut by it.
inline constexpr int kMultiprocessors = 132;
inline constexpr std::size_t kSharedOfBlock = 227 * 1024;
inline constexpr std::size_t kSharedOfMultiprocessor = 228 * 1024;
inline constexpr int kRegistersOfMultiprocessor = 64 * 1024;
inline constexpr std::size_t kDeviceBytes = std::size_t{80} << 30;

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

struct Runtime {
  std::recursive_mutex mutex;
  Findings findings;
  Counts counts;
  cudaError_t last_error = cudaSuccess;
  AddressSpace device{"device memory", 0x2A7600000000};
  AddressSpace pinned{"pinned host memory", 0x3B8700000000};
  std::unordered_map<const void*, Kernel> kernels;
  std::unordered_map<const unsigned char*, std::unordered_map<std::string, KernelFacts>> images;
  std::unordered_map<std::string, std::function<void(const LaunchedKernel&)>> bodies;  // by name
  std::vector<CallConfiguration> configurations;  // of launches by <<<>>>, the newest last
  std::shared_ptr<Stream> legacy = std::make_shared<Stream>(true);
  std::unordered_map<const void*, std::shared_ptr<Stream>> streams;
  std::unordered_map<const void*, std::shared_ptr<Event>> events;
  std::unordered_map<const void*, std::shared_ptr<Graph>> graphs, executables;
  std::set<std::shared_ptr<Capture>> captures;  // under way
  std::string during;                           // "" or " in a replay", for sentences

  void run_everything();
};
// It outlives every object of the program.
Runtime& runtime();

// The runtime's answer to a call that breaks a rule.
cudaError_t refuse(Rule rule, cudaError_t error, const std::string& sentence);
// cudaSuccess, or refuses a call that no capture may see (and ends that capture).
cudaError_t check_unsafe(const char* call);
// The stream of a handle, or null, when it has been refused.
std::shared_ptr<Stream> stream_of(cudaStream_t handle, const char* call);
// Enqueues; what goes to the legacy stream runs at once, after all that blocking streams have.
cudaError_t enqueue(cudaStream_t handle, std::shared_ptr<Work> work, const char* call);

// Facts of the cubin; null: there are none.
const KernelFacts* facts_of(Kernel& kernel);
cudaError_t launch(const void* function, const CallConfiguration& call, unsigned cluster,
                   void** arguments);
// Of cudaLaunchKernelExC's configuration.
unsigned cluster_of(const cudaLaunchConfig_t& config);
}  // namespace versieve::mock_cuda
