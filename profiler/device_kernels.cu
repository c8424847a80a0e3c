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

// Only reads: each thread has kLoads loads of 16 bytes under way, and takes turns with the others
// of the grid until all is read.
template <int kLoads>
__global__ __launch_bounds__(kThreads) void read_kernel(const uint4* from, std::int64_t count,
                                                        std::uint32_t* sink) {
  constexpr std::int64_t kPiece = std::int64_t{kThreads} * kLoads;
  std::uint32_t folded = 0;
  for (std::int64_t at = blockIdx.x * kPiece + threadIdx.x; at < count; at += gridDim.x * kPiece) {
    uint4 values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      values[i] = __ldcg(from + at + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      folded |= values[i].x | values[i].y | values[i].z | values[i].w;
    }
  }
  if (folded == 0xdeadbeefU) {  // as above
    *sink = folded;
  }
}

template <int kLoads>
void launch_read_of(const uint4* from, std::int64_t count, std::int64_t most_blocks,
                    std::uint32_t* sink, cudaStream_t stream) {
  const std::int64_t pieces = count / (std::int64_t{kThreads} * kLoads);
  const auto blocks = static_cast<unsigned>(pieces < most_blocks ? pieces : most_blocks);
  read_kernel<kLoads><<<blocks, kThreads, 0, stream>>>(from, count, sink);
}

}  // namespace

void launch_read(const void* from, std::int64_t bytes, const ReadForm& form, std::uint32_t* sink,
                 cudaStream_t stream) {
  const auto* const source = static_cast<const uint4*>(from);
  const std::int64_t count = bytes / 16;
  switch (form.loads) {
    case 1:
      launch_read_of<1>(source, count, form.most_blocks, sink, stream);
      break;
    case 2:
      launch_read_of<2>(source, count, form.most_blocks, sink, stream);
      break;
    case 4:
      launch_read_of<4>(source, count, form.most_blocks, sink, stream);
      break;
    default:
      launch_read_of<8>(source, count, form.most_blocks, sink, stream);
      break;
  }
  check_cuda(cudaGetLastError(), "launching the read");
}

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
