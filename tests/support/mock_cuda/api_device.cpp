// The runtime's calls that ask of the device and of errors, and the driver's tensor maps.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/support/mock_cuda/runtime.h"

using namespace versieve::mock_cuda;

namespace {

constexpr int kVersion = 13000;

// The rules of cuTensorMapEncodeTiled, and whether the tensor lies in one block. The map's first
// word is the address, as in the hardware's own.
CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* /*steps*/, CUtensorMapInterleave, CUtensorMapSwizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const std::lock_guard lock(runtime().mutex);
  const std::size_t element = type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2 : 4;
  const auto invalid = [](const char* what) {
    refuse(Rule::kLaunch, cudaErrorInvalidValue, std::string("a tensor map with ") + what);
    return CUDA_ERROR_INVALID_VALUE;
  };
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    return invalid("an address that is not on 16 bytes");
  }
  std::size_t bytes = element;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > (1ULL << 32) || box[i] == 0 || box[i] > 256) {
      return invalid("sizes or a box out of bounds");
    }
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= (1ULL << 40))) {
      return invalid("strides that are no multiples of 16 bytes below 2^40");
    }
    bytes += (sizes[i] - 1) * (i == 0 ? element : strides[i - 1]);
  }
  const std::string wrong = runtime().device.complaint(address, bytes);
  if (!wrong.empty()) {
    runtime().findings.add(Rule::kMemory, "the tensor of a map " + wrong);
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}

struct NamedError {
  cudaError_t error;
  const char* name;
  const char* sentence;
};
constexpr NamedError kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
};
const NamedError& named(cudaError_t error) {
  static constexpr NamedError kOther = {cudaErrorUnknown, "cudaErrorStreamCapture",
                                        "operation not permitted when stream is capturing"};
  for (const NamedError& known : kErrors) {
    if (known.error == error) {
      return known;
    }
  }
  return kOther;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "no device");
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kDeviceBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  constexpr std::pair<cudaDeviceAttr, int> kKnown[] = {
      {cudaDevAttrComputeCapabilityMajor, 9},
      {cudaDevAttrComputeCapabilityMinor, 0},
      {cudaDevAttrMultiProcessorCount, kMultiprocessors},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<int>(kSharedOfBlock)},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<int>(kSharedOfMultiprocessor)},
      {cudaDevAttrL2CacheSize, 50 << 20},
      {cudaDevAttrMemoryClockRate, 2619000},
      {cudaDevAttrGlobalMemoryBusWidth, 5120}};
  *value = 1;
  for (const auto& [known, number] : kKnown) {
    if (known == attribute) {
      *value = number;
    }
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  return named(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return named(error).sentence;
}
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime().mutex);
  return std::exchange(runtime().last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(runtime().mutex);
  return runtime().last_error;
}

}  // extern "C"
