// A stream's work as ops_cuda.cu enqueues it: recordings, markers, branches.
#pragma once

#include <functional>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {
namespace {

class CudaGraph final : public Recording {
 public:
  // Captures what `work` enqueues. A graph that could not be captured leaves the stream usable.
  CudaGraph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph));
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status);
    check(cudaGraphUpload(executable_, stream));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(executable_);
  }
  void launch() override { check(cudaGraphLaunch(executable_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaMarker final : public Marker {
 public:
  explicit CudaMarker(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  CudaMarker(const CudaMarker&) = delete;
  CudaMarker& operator=(const CudaMarker&) = delete;
  ~CudaMarker() override { cudaEventDestroy(event_); }
  void mark() override { check(cudaEventRecord(event_, stream_)); }
  void wait() override { check(cudaEventSynchronize(event_)); }

 private:
  cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

// An ordinary launch, which waits for all that its stream waits for, wherever that was enqueued:
// launches after it may be dependent ones again (kernels/common/dependent_launch.cuh).
__global__ void meet_kernel() {}
inline void meet(cudaStream_t stream) {
  meet_kernel<<<1, 1, 0, stream>>>();
  check(cudaGetLastError());
}

// A stream and events by which its work follows and precedes another's.
class Branch {
 public:
  Branch() {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check(cudaStreamCreateWithPriority(&context.stream, cudaStreamNonBlocking, greatest));
    check(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&end_, cudaEventDisableTiming));
  }
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;
  ~Branch() {
    cudaStreamSynchronize(context.stream);
    cudaFree(context.scratch);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(context.stream);
  }
  void follow(cudaStream_t other) {
    check(cudaEventRecord(begin_, other));
    check(cudaStreamWaitEvent(context.stream, begin_));
    meet(context.stream);
  }
  void end() { check(cudaEventRecord(end_, context.stream)); }
  void precede(cudaStream_t other) {
    check(cudaStreamWaitEvent(other, end_));
    meet(other);
  }

  LaunchContext context;

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace
}  // namespace versieve::kernels
