// The self-check's runs on the GPU.
#include <cuda_runtime.h>

#include <vector>

#include "model/words/error.h"
#include "profiler/device_kernels.h"
#include "profiler/driver_context.h"
#include "profiler/gpu_timer.h"
#include "profiler/metric_group.h"
#include "profiler/range_counters.h"
#include "profiler/sample_statistics.h"
#include "profiler/self_check.h"
#include "profiler/zeroed_memory.h"

namespace versieve::profiler {
namespace {

// Some 10 MB written stay in L2 when the range ends (measured, H200): 1 GiB makes that under 1 %.
constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30;
constexpr std::int64_t kRereadBytes = std::int64_t{16} << 20;
constexpr int kTimes = 8;
constexpr int kRepetitions = 3;

constexpr const char* kAllocating = "allocating the self-check";

double value_of(const RangeSample& sample, const char* metric) {
  for (const CounterValue& counter : sample.counters) {
    if (counter.metric == metric && counter.value) {
      return *counter.value;
    }
  }
  throw Error(ExitCode::kEnvironment, std::string("the self-check has no value of ") + metric);
}

struct Figures {
  std::vector<double> copy_read;
  std::vector<double> copy_write;
  std::vector<double> reread;
};

// The copy leaves its own buffers in L2, so the re-read that follows starts cold.
void one_repetition(RangeCounters& counters, GpuStream& stream, const ZeroedMemory& from,
                    const ZeroedMemory& to, const ZeroedMemory& small, Figures& figures) {
  const cudaStream_t raw = static_cast<cudaStream_t>(stream.handle());
  counters.begin();
  stream.synchronize();
  counters.push("copy");
  launch_copy(from.get(), to.get(), kCopyBytes, raw);
  stream.synchronize();
  counters.pop();
  counters.push("reread");
  launch_reread(small.get(), kRereadBytes, kTimes, static_cast<std::uint32_t*>(to.get()), raw);
  stream.synchronize();
  counters.pop();
  const std::vector<RangeSample> samples = counters.end();
  figures.copy_read.push_back(value_of(samples.at(0), kDramBytesRead));
  figures.copy_write.push_back(value_of(samples.at(0), kDramBytesWrite));
  figures.reread.push_back(value_of(samples.at(1), kDramBytesRead));
}

}  // namespace

SelfCheck run_self_check(const CounterAccess& access) {
  if (!access.ok()) {
    return {.status = SelfCheckVerdict::kOff, .sentence = "No self-check: " + access.sentence};
  }
  try {
    GpuStream stream;
    const ZeroedMemory from(kCopyBytes, kAllocating);
    const ZeroedMemory to(kCopyBytes, kAllocating);
    const ZeroedMemory small(kRereadBytes, kAllocating);
    RangeCounters counters({kDramBytesRead, kDramBytesWrite, kGpuDuration}, 2);
    Figures figures;
    for (int i = 0; i < kRepetitions; ++i) {
      one_repetition(counters, stream, from, to, small, figures);
    }
    return judged({.copy_bytes = static_cast<double>(kCopyBytes),
                   .copy_read_bytes = median_of(figures.copy_read),
                   .copy_write_bytes = median_of(figures.copy_write),
                   .reread_bytes = static_cast<double>(kRereadBytes),
                   .reread_read_bytes = median_of(figures.reread)});
  } catch (const Error& error) {
    return {.status = SelfCheckVerdict::kOff,
            .sentence = std::string("No self-check: ") + error.what()};
  }
}

}  // namespace versieve::profiler
