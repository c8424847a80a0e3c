// Times launches as replays of a captured graph of some calls, on a stream of its own.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/common/cuda_check.h"

namespace versieve::testing {

class GraphTimer {
 public:
  GraphTimer() { kernels::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~GraphTimer() { cudaStreamDestroy(stream_); }
  GraphTimer(const GraphTimer&) = delete;
  GraphTimer& operator=(const GraphTimer&) = delete;

  // Median us a call, of replays of a graph of some calls.
  double us(int calls, const std::function<void(cudaStream_t)>& enqueue) {
    enqueue(stream_);
    kernels::check(cudaStreamSynchronize(stream_));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    kernels::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; ++i) {
      enqueue(stream_);
    }
    kernels::check(cudaStreamEndCapture(stream_, &graph));
    kernels::check(cudaGraphInstantiate(&executable, graph, 0));
    cudaEvent_t begin = nullptr, end = nullptr;
    kernels::check(cudaEventCreate(&begin));
    kernels::check(cudaEventCreate(&end));
    std::vector<double> samples;
    for (int i = 0; i < 10; ++i) {
      float ms = 0.0F;
      kernels::check(cudaEventRecord(begin, stream_));
      kernels::check(cudaGraphLaunch(executable, stream_));
      kernels::check(cudaEventRecord(end, stream_));
      kernels::check(cudaEventSynchronize(end));
      kernels::check(cudaEventElapsedTime(&ms, begin, end));
      if (i > 0) {
        samples.push_back(1e3 * static_cast<double>(ms) / calls);
      }
    }
    kernels::check(cudaEventDestroy(begin));
    kernels::check(cudaEventDestroy(end));
    kernels::check(cudaGraphExecDestroy(executable));
    kernels::check(cudaGraphDestroy(graph));
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace versieve::testing
