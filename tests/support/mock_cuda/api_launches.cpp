// The runtime's calls that register, ask of and launch kernels.
#include <cuda_runtime.h>

#include <cxxabi.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/mock_cuda/runtime.h"

using namespace versieve::mock_cuda;

namespace {

std::string demangled(const char* mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const std::string out = status == 0 ? text : mangled;
  std::free(text);
  return out;
}

// "void a::(anonymous namespace)::sum_kernel<float>(float*)": "sum_kernel".
std::string name_of(std::string signature) {
  const std::string anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = signature.find(anonymous)) != std::string::npos;) {
    signature.erase(at, anonymous.size());
  }
  const std::string front = signature.substr(0, signature.find_first_of("<("));
  return front.substr(front.find_last_of(" :") + 1);
}

Kernel* kernel_of(const void* function) {
  const auto at = runtime().kernels.find(function);
  return at == runtime().kernels.end() ? nullptr : &at->second;
}

// Of a multiprocessor's registers, shared memory, threads and places for blocks.
int resident_blocks(const KernelFacts& facts, int threads, std::size_t dynamic_shared) {
  const std::size_t warps = static_cast<std::size_t>(threads + 31) / 32;
  const std::size_t registers =
      std::max<std::size_t>((static_cast<std::size_t>(facts.registers) + 7) / 8 * 8, 8);
  constexpr std::size_t kReserved = 1024;  // of each block, by the driver
  const std::size_t shared = facts.static_shared_bytes + dynamic_shared + kReserved;
  return static_cast<int>(
      std::min({std::size_t{32}, 64 / warps, kRegistersOfMultiprocessor / (registers * 32 * warps),
                kSharedOfMultiprocessor / shared}));
}

struct FatBinary {
  int magic, version;
  const unsigned char* image;
  void* file;
};

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  return static_cast<void**>(fat_binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 0;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void** fat_binary, const char* host, char*, const char* mangled, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  Kernel kernel;
  kernel.mangled = mangled;
  kernel.signature = demangled(mangled);
  kernel.name = name_of(kernel.signature);
  kernel.image = reinterpret_cast<const FatBinary*>(fat_binary)->image;
  runtime().kernels[host] = std::move(kernel);
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  const std::lock_guard lock(runtime().mutex);
  runtime().configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const std::lock_guard lock(runtime().mutex);
  const CallConfiguration call = runtime().configurations.back();
  runtime().configurations.pop_back();
  *grid = call.grid;
  *block = call.block;
  *shared = call.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = call.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  return launch(function, {grid, block, shared, stream}, 1, arguments);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  const std::lock_guard lock(runtime().mutex);
  return launch(function,
                {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
                cluster_of(*config), arguments);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  class HostCall final : public Work {
   public:
    HostCall(cudaHostFn_t called, void* with) : called_(called), with_(with) {}
    void run() override { called_(with_); }

   private:
    cudaHostFn_t called_;
    void* with_;
  };
  const std::lock_guard lock(runtime().mutex);
  return enqueue(stream, std::make_shared<HostCall>(function, data), "cudaLaunchHostFunc");
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime().mutex);
  Kernel* const kernel = kernel_of(function);
  const KernelFacts* const facts = kernel != nullptr ? facts_of(*kernel) : nullptr;
  if (facts == nullptr) {
    return refuse(Rule::kLaunch, cudaErrorInvalidDeviceFunction,
                  "an attribute of a kernel that is not known");
  }
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 ||
        static_cast<std::size_t>(value) + facts->static_shared_bytes > kSharedOfBlock) {
      return refuse(Rule::kLaunch, cudaErrorInvalidValue,
                    kernel->name + ": " + std::to_string(value) +
                        " bytes of dynamic shared memory asked for");
    }
    kernel->asked_for_shared = true;
    kernel->most_dynamic_shared = static_cast<std::size_t>(value);
  } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    kernel->large_clusters = value != 0;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const std::lock_guard lock(runtime().mutex);
  Kernel* const kernel = kernel_of(function);
  const KernelFacts* const facts = kernel != nullptr ? facts_of(*kernel) : nullptr;
  if (facts == nullptr) {
    return refuse(Rule::kLaunch, cudaErrorInvalidDeviceFunction,
                  "the attributes of a kernel that is not known");
  }
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = facts->static_shared_bytes;
  attributes->maxThreadsPerBlock = facts->max_threads;
  attributes->numRegs = facts->registers;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  const std::lock_guard lock(runtime().mutex);
  Kernel* const kernel = kernel_of(function);
  const KernelFacts* const facts = kernel != nullptr ? facts_of(*kernel) : nullptr;
  *blocks = facts != nullptr ? resident_blocks(*facts, threads, shared) : 0;
  return cudaSuccess;
}
// Of GPCs of 16 multiprocessors each: clusters do not span two.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  const std::lock_guard lock(runtime().mutex);
  Kernel* const kernel = kernel_of(function);
  const KernelFacts* const facts = kernel != nullptr ? facts_of(*kernel) : nullptr;
  const unsigned cluster = cluster_of(*config);
  if (kernel != nullptr && (cluster > 16 || (cluster > 8 && !kernel->large_clusters))) {
    return refuse(Rule::kLaunch, cudaErrorInvalidClusterSize,
                  kernel->name + ": how many clusters of " + std::to_string(cluster) +
                      " blocks fit, which it may not have");
  }
  const dim3 block = config->blockDim;
  const int resident = facts != nullptr
                           ? resident_blocks(*facts, static_cast<int>(block.x * block.y * block.z),
                                             config->dynamicSmemBytes)
                           : 0;
  const int blocks_of_gpc = 16 * resident;
  *clusters = kMultiprocessors / 16 * (blocks_of_gpc / static_cast<int>(cluster));
  return cudaSuccess;
}

}  // extern "C"
