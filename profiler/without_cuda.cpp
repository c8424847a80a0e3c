// The timer of a build without CUDA: the same questions, answered with a sentence.
#include "model/words/error.h"
#include "profiler/cold_reads.h"
#include "profiler/gpu_timer.h"

namespace versieve::profiler {
namespace {

const char* const kSentence = "This build of versieve has no CUDA.";

[[noreturn]] void refuse() {
  throw Error(ExitCode::kEnvironment, kSentence);
}

}  // namespace

std::string gpu_missing_because() {
  return kSentence;
}
std::int64_t gpu_l2_bytes() {
  refuse();
}
std::int64_t gpu_free_bytes() {
  refuse();
}
void copy_on_gpu(void*, const void*, std::size_t) {
  refuse();
}

std::vector<ReadTime> measure_cold_reads() {
  refuse();
}

GpuStream::GpuStream() {
  refuse();
}
GpuStream::~GpuStream() = default;
void GpuStream::synchronize() {}

GpuGraph::GpuGraph(GpuStream& stream, const std::function<void()>&) : stream_(stream) {
  refuse();
}
GpuGraph::~GpuGraph() = default;
void GpuGraph::launch() {
  stream_.synchronize();
}

struct GpuTimer::Impl {};
GpuTimer::GpuTimer(GpuStream&) {
  refuse();
}
GpuTimer::~GpuTimer() = default;
double GpuTimer::time_ns(const std::function<void()>&) {
  refuse();
}
void GpuTimer::flush_l2() {}

}  // namespace versieve::profiler
