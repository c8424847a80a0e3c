#include "profiler/gpu_timer.h"

#include <cuda_runtime.h>

#include "model/words/hardware.h"
#include "profiler/device_kernels.h"
#include "profiler/driver_context.h"

namespace versieve::profiler {
namespace {

// Longer than the host needs to queue an event and a graph launch (measured: some 10 us).
constexpr double kQueueDelayUs = 40.0;

cudaStream_t stream_of(const GpuStream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

int device_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, attribute, current_device()), "asking for the device");
  return value;
}

}  // namespace

std::string gpu_missing_because() {
  if (const std::string absent = no_gpu_answers_because(); !absent.empty()) {
    return absent;
  }
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, current_device()), "describing the device");
  return kernels_cannot_run_because(properties.name, properties.major, properties.minor);
}

std::int64_t gpu_l2_bytes() {
  return device_attribute(cudaDevAttrL2CacheSize);
}

std::int64_t gpu_free_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return static_cast<std::int64_t>(free_bytes);
}

void copy_on_gpu(void* destination, const void* source, std::size_t bytes) {
  check_cuda(cudaMemcpy(destination, source, bytes, cudaMemcpyDeviceToDevice), "copying");
  check_cuda(cudaDeviceSynchronize(), "copying");
}

GpuStream::GpuStream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  handle_ = stream;
}

GpuStream::~GpuStream() {
  cudaStreamDestroy(stream_of(*this));
}

void GpuStream::synchronize() {
  check_cuda(cudaStreamSynchronize(stream_of(*this)), "waiting for the stream");
}

GpuGraph::GpuGraph(GpuStream& stream, const std::function<void()>& enqueue) : stream_(stream) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal),
             "capturing a graph");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream_of(stream), &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_of(stream), &graph), "capturing a graph");
  std::size_t nodes = 0;
  cudaGraphExec_t executable = nullptr;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &nodes);
  if (status == cudaSuccess) {
    status = cudaGraphInstantiate(&executable, graph, 0);
  }
  cudaGraphDestroy(graph);
  check_cuda(status, "making a graph");
  executable_ = executable;
  node_count_ = static_cast<std::int64_t>(nodes);
}

GpuGraph::~GpuGraph() {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

void GpuGraph::launch() {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream_of(stream_)),
             "launching a graph");
}

struct GpuTimer::Impl {
  GpuStream& stream;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  std::size_t flush_bytes = 0;
  void* flush_memory = nullptr;  // made at the first flush
};

GpuTimer::GpuTimer(GpuStream& stream) : impl_(new Impl{stream}) {
  check_cuda(cudaEventCreate(&impl_->start), "making an event");
  check_cuda(cudaEventCreate(&impl_->end), "making an event");
}

GpuTimer::~GpuTimer() {
  cudaEventDestroy(impl_->start);
  cudaEventDestroy(impl_->end);
  cudaFree(impl_->flush_memory);
}

double GpuTimer::time_ns(const std::function<void()>& enqueue) {
  const cudaStream_t stream = stream_of(impl_->stream);
  launch_delay(kQueueDelayUs, stream);
  check_cuda(cudaEventRecord(impl_->start, stream), "starting a measurement");
  enqueue();
  check_cuda(cudaEventRecord(impl_->end, stream), "ending a measurement");
  check_cuda(cudaEventSynchronize(impl_->end), "waiting for a measurement");
  float milliseconds = 0.0F;
  check_cuda(cudaEventElapsedTime(&milliseconds, impl_->start, impl_->end), "reading a time");
  return static_cast<double>(milliseconds) * 1e6;
}

void GpuTimer::flush_l2() {
  if (impl_->flush_memory == nullptr) {
    impl_->flush_bytes = 2 * static_cast<std::size_t>(gpu_l2_bytes());
    check_cuda(cudaMalloc(&impl_->flush_memory, impl_->flush_bytes), "allocating the flush buffer");
  }
  check_cuda(cudaMemsetAsync(impl_->flush_memory, 0, impl_->flush_bytes, stream_of(impl_->stream)),
             "flushing the L2");
}

}  // namespace versieve::profiler
