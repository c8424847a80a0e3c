#include "profiler/device_kernels.h"
#include "profiler/driver_context.h"

namespace versieve::profiler {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1056;  // 8 for each of GH100's 132 SMs; any GPU runs it

__global__ __launch_bounds__(1) void delay_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__global__ __launch_bounds__(kThreads) void copy_kernel(const uint4* from, uint4* to,
                                                        std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    to[i] = from[i];
  }
}

// Loads bypass L1, and each pass starts a block further on, so that no pass can be merged with
// another.
__global__ __launch_bounds__(kThreads) void reread_kernel(const uint4* from, std::int64_t count,
                                                          int times, std::uint32_t* sink) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  std::uint32_t folded = 0;
  for (int pass = 0; pass < times; ++pass) {
    const std::int64_t shift = std::int64_t{pass} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
         i += stride) {
      const std::int64_t at = i + shift < count ? i + shift : i + shift - count;
      const uint4 value = __ldcg(from + at);
      folded |= value.x | value.y | value.z | value.w;
    }
  }
  if (folded == 0xdeadbeefU) {  // the buffer holds zeros: only the compiler believes in this
    *sink = folded;
  }
}

}  // namespace

void launch_delay(double microseconds, cudaStream_t stream) {
  // At the highest SM clock of the parts that we know, 2 GHz; a slower clock delays longer.
  delay_kernel<<<1, 1, 0, stream>>>(static_cast<long long>(microseconds * 2000.0));
  check_cuda(cudaGetLastError(), "launching the delay");
}

void launch_copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream) {
  copy_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                static_cast<uint4*>(to), bytes / 16);
  check_cuda(cudaGetLastError(), "launching the known copy");
}

void launch_reread(const void* from, std::int64_t bytes, int times, std::uint32_t* sink,
                   cudaStream_t stream) {
  reread_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from), bytes / 16,
                                                  times, sink);
  check_cuda(cudaGetLastError(), "launching the known re-read");
}

}  // namespace versieve::profiler
