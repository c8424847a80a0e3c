// Time on the GPU: a stream, CUDA graphs, and events around work that was queued before it runs, so
// that the host's launch cost is not in the figure. CUDA types stay inside: callers see void*.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace versieve::profiler {

// Why no GPU can be used here, or an empty text.
std::string gpu_missing_because();
std::int64_t gpu_l2_bytes();    // of the current device
std::int64_t gpu_free_bytes();  // of its memory
// Copies within the device's memory; waits.
void copy_on_gpu(void* destination, const void* source, std::size_t bytes);

class GpuStream {
 public:
  GpuStream();  // throws Error(kEnvironment) without a GPU
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  void* handle() const { return handle_; }  // cudaStream_t
  void synchronize();

 private:
  void* handle_ = nullptr;
};

// What `enqueue` put on the stream, to be launched as one.
class GpuGraph {
 public:
  GpuGraph(GpuStream& stream, const std::function<void()>& enqueue);
  ~GpuGraph();
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  void launch();
  std::int64_t node_count() const { return node_count_; }

 private:
  GpuStream& stream_;
  void* executable_ = nullptr;  // cudaGraphExec_t
  std::int64_t node_count_ = 0;
};

class GpuTimer {
 public:
  explicit GpuTimer(GpuStream& stream);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  // From the start to the end of what `enqueue` puts on the stream, in ns. A delay kernel keeps the
  // stream busy while the host queues it. Waits for the end.
  double time_ns(const std::function<void()>& enqueue);
  // Writes twice the L2's size, outside any timed pair: cache state cold_flush.
  void flush_l2();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::profiler
