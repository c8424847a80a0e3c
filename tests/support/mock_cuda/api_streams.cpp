// The runtime's calls on streams, events, captures and graphs.
#include <cuda_runtime.h>

#include <utility>

#include "tests/support/mock_cuda/runtime.h"

using namespace versieve::mock_cuda;

namespace {

// A replay: the graph's nodes, one after another in an order that they allow.
class Replay final : public Work {
 public:
  explicit Replay(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) {}
  void run() override {
    runtime().during = " in a replay";
    for (const Graph::Node& node : graph_->nodes) {
      node.work->run();
    }
    runtime().during.clear();
  }
  bool uses(const char* begin, const char* end) const override {
    for (const Graph::Node& node : graph_->nodes) {
      if (node.work->uses(begin, end)) {
        return true;
      }
    }
    return false;
  }

 private:
  std::shared_ptr<Graph> graph_;
};

template <class Handle, class Value>
Handle handle_of(const std::shared_ptr<Value>& value) {
  return reinterpret_cast<Handle>(value.get());
}

// The value of a handle, or null, when it has been refused.
template <class Table>
auto value_of(const Table& table, const void* handle, const char* call) {
  const auto at = table.find(handle);
  if (at == table.end()) {
    refuse(Rule::kHandle, cudaErrorInvalidResourceHandle,
           std::string(call) + " of a handle that is not there");
    return decltype(at->second)();
  }
  return at->second;
}

cudaError_t make_stream(cudaStream_t* stream, bool blocking) {
  const std::lock_guard lock(runtime().mutex);
  const auto made = std::make_shared<Stream>(blocking);
  *stream = handle_of<cudaStream_t>(made);
  runtime().streams[made.get()] = made;
  return cudaSuccess;
}

// Its streams go on without it.
void forget(const std::shared_ptr<Capture>& capture) {
  for (const auto& [stream, nodes] : capture->newest) {
    stream->capture = nullptr;
  }
  runtime().captures.erase(capture);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return make_stream(stream, (flags & cudaStreamNonBlocking) == 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return make_stream(stream, (flags & cudaStreamNonBlocking) == 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return make_stream(stream, true);
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = value_of(runtime().streams, handle, "cudaStreamDestroy");
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (const auto capture = stream->capture; capture != nullptr) {
    forget(capture);
    refuse(Rule::kCapture, cudaErrorStreamCaptureUnsupported,
           "cudaStreamDestroy of a stream that is captured");
  }
  stream->run_all();
  runtime().streams.erase(handle);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = stream_of(handle, "cudaStreamSynchronize");
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (const cudaError_t status = check_unsafe("cudaStreamSynchronize"); status != cudaSuccess) {
    return status;
  }
  stream->run_all();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(runtime().mutex);
  const cudaError_t status = check_unsafe("cudaDeviceSynchronize");
  if (status == cudaSuccess) {
    runtime().run_everything();
  }
  return status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = stream_of(handle, "cudaStreamWaitEvent");
  const auto event = value_of(runtime().events, event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::string wrong = wait_for(stream, *event);
  return wrong.empty()
             ? cudaSuccess
             : refuse(Rule::kCapture, cudaErrorStreamCaptureIsolation, "a stream " + wrong);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  const auto made = std::make_shared<Event>();
  *event = handle_of<cudaEvent_t>(made);
  runtime().events[made.get()] = made;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto event = value_of(runtime().events, handle, "cudaEventDestroy");
  runtime().events.erase(handle);
  return event != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = stream_of(stream_handle, "cudaEventRecord");
  const auto event = value_of(runtime().events, handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  record(stream, *event);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto event = value_of(runtime().events, handle, "cudaEventSynchronize");
  if (event == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (event->captured) {
    return refuse(Rule::kCapture, cudaErrorCapturedEvent,
                  "cudaEventSynchronize of an event that was recorded in a capture");
  }
  if (const cudaError_t status = check_unsafe("cudaEventSynchronize"); status != cudaSuccess) {
    return status;
  }
  if (event->stream != nullptr) {
    event->stream->run_until(event->position);
  }
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1.0F;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = stream_of(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture != nullptr || stream == runtime().legacy) {
    return refuse(Rule::kCapture, cudaErrorStreamCaptureUnsupported,
                  "a capture of the legacy stream, or in another capture");
  }
  const auto capture = std::make_shared<Capture>();
  capture->origin = stream.get();
  capture->relaxed = mode == cudaStreamCaptureModeRelaxed;
  capture->newest[stream.get()] = {};
  stream->capture = capture;
  runtime().captures.insert(capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime().mutex);
  *graph = nullptr;
  const auto stream = stream_of(handle, "cudaStreamEndCapture");
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const auto capture = stream->capture;
  if (capture == nullptr || capture->origin != stream.get()) {
    return refuse(Rule::kCapture, cudaErrorStreamCaptureUnmatched,
                  "a capture is ended where none began");
  }
  forget(capture);
  if (capture->broken) {
    runtime().last_error = cudaErrorStreamCaptureInvalidated;
    return cudaErrorStreamCaptureInvalidated;
  }
  if (leaves_work_unjoined(*capture)) {
    return refuse(Rule::kCapture, cudaErrorStreamCaptureUnjoined,
                  "a capture ends before its first stream waits for the others");
  }
  ++runtime().counts.captures;
  *graph = handle_of<cudaGraph_t>(capture->graph);
  runtime().graphs[capture->graph.get()] = capture->graph;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(runtime().mutex);
  const auto stream = stream_of(handle, "cudaStreamIsCapturing");
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  *status =
      stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t handle,
                                 unsigned long long) {
  const std::lock_guard lock(runtime().mutex);
  const auto graph = value_of(runtime().graphs, handle, "cudaGraphInstantiate");
  if (graph == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const auto copy = std::make_shared<Graph>(*graph);
  *executable = handle_of<cudaGraphExec_t>(copy);
  runtime().executables[copy.get()] = copy;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  const std::lock_guard lock(runtime().mutex);
  return value_of(runtime().executables, handle, "cudaGraphUpload") != nullptr
             ? cudaSuccess
             : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  const auto graph = value_of(runtime().executables, handle, "cudaGraphLaunch");
  const auto at = stream_of(stream, "cudaGraphLaunch");
  if (graph == nullptr || at == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (at->capture != nullptr) {
    at->capture->broken = true;
    return refuse(Rule::kCapture, cudaErrorStreamCaptureUnsupported,
                  "a graph is launched while another is captured");
  }
  ++runtime().counts.replays;
  return enqueue(stream, std::make_shared<Replay>(graph), "cudaGraphLaunch");
}
cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t*, size_t* count) {
  const std::lock_guard lock(runtime().mutex);
  const auto graph = value_of(runtime().graphs, handle, "cudaGraphGetNodes");
  *count = graph != nullptr ? graph->nodes.size() : 0;
  return graph != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
// Of a capture that failed there is none.
cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const std::lock_guard lock(runtime().mutex);
  return handle == nullptr || runtime().graphs.erase(handle) == 1 ? cudaSuccess
                                                                  : cudaErrorInvalidValue;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  const std::lock_guard lock(runtime().mutex);
  const auto graph = value_of(runtime().executables, handle, "cudaGraphExecDestroy");
  runtime().executables.erase(handle);
  return graph != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // extern "C"
