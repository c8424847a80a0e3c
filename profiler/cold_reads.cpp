#include "profiler/cold_reads.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "model/words/cache_passes.h"
#include "model/words/error.h"
#include "profiler/device_kernels.h"
#include "profiler/gpu_timer.h"
#include "profiler/sample_statistics.h"
#include "profiler/zeroed_memory.h"

namespace versieve::profiler {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kSizes[] = {1,  2,  4,  8,   16,  24,   32,
                                   40, 48, 64, 128, 256, 1024, 4096};  // MiB
constexpr int kWarmUps = 2;
constexpr int kSamples = 15;
constexpr const char* kAllocating = "allocating what is read";

constexpr std::int64_t kOneTurn = std::int64_t{1} << 30;  // blocks: each reads one piece and ends
constexpr ReadForm kForms[] = {{2, 1056},     {4, 1056},     {8, 1056},     {4, 528},     {8, 528},
                               {1, kOneTurn}, {2, kOneTurn}, {4, kOneTurn}, {8, kOneTurn}};

std::int64_t sets_of(std::int64_t bytes) {
  return std::max<std::int64_t>(1, (kColdPasses * gpu_l2_bytes() + bytes - 1) / bytes);
}

double median_us(GpuStream& stream, GpuTimer& timer, const ZeroedMemory& source, std::int64_t bytes,
                 const ReadForm& form, std::uint32_t* sink) {
  const std::int64_t sets = sets_of(bytes);
  GpuGraph graph(stream, [&] {
    for (std::int64_t set = 0; set < sets; ++set) {
      launch_read(static_cast<const char*>(source.get()) + set * bytes, bytes, form, sink,
                  static_cast<cudaStream_t>(stream.handle()));
    }
  });
  std::vector<double> us;
  for (int i = -kWarmUps; i < kSamples; ++i) {
    const double sample = 1e-3 * timer.time_ns([&] { graph.launch(); });
    if (i >= 0) {
      us.push_back(sample / static_cast<double>(sets));
    }
  }
  return median_of(us);
}

}  // namespace

std::vector<ReadTime> measure_cold_reads() {
  if (const std::string missing = gpu_missing_because(); !missing.empty()) {
    throw Error(ExitCode::kEnvironment, missing);
  }
  const std::int64_t room = gpu_free_bytes() / 2;
  std::vector<std::int64_t> sizes;
  std::int64_t most = 0;
  for (const std::int64_t mebibytes : kSizes) {
    const std::int64_t bytes = mebibytes * kMebibyte;
    if (bytes * sets_of(bytes) <= room) {
      sizes.push_back(bytes);
      most = std::max(most, bytes * sets_of(bytes));
    }
  }
  if (sizes.size() < 2) {
    throw Error(ExitCode::kEnvironment, "the GPU has no memory left to measure reads in");
  }
  const ZeroedMemory source(most, kAllocating);
  const ZeroedMemory sink(sizeof(std::uint32_t), kAllocating);
  GpuStream stream;
  GpuTimer timer(stream);
  std::vector<ReadTime> table;
  for (const std::int64_t bytes : sizes) {
    double least = std::numeric_limits<double>::infinity();
    for (const ReadForm& form : kForms) {
      least = std::min(least, median_us(stream, timer, source, bytes, form,
                                        static_cast<std::uint32_t*>(sink.get())));
    }
    table.push_back({static_cast<double>(bytes) / static_cast<double>(kMebibyte), least});
  }
  return table;
}

}  // namespace versieve::profiler
