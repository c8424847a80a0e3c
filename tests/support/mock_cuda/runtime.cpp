#include "tests/support/mock_cuda/runtime.h"

#include <algorithm>
#include <utility>

namespace versieve::mock_cuda {

Runtime& runtime() {
  static Runtime* const state = new Runtime;
  return *state;
}

void Runtime::run_everything() {
  legacy->run_all();
  for (const auto& [handle, stream] : streams) {
    stream->run_all();
  }
}

cudaError_t refuse(Rule rule, cudaError_t error, const std::string& sentence) {
  Runtime& state = runtime();
  state.findings.add(rule, sentence);
  state.last_error = error;
  return error;
}

cudaError_t check_unsafe(const char* call) {
  for (const std::shared_ptr<Capture>& capture : runtime().captures) {
    if (!capture->relaxed) {
      capture->broken = true;
      return refuse(Rule::kCapture, cudaErrorStreamCaptureUnsupported,
                    std::string(call) + " while a graph is captured");
    }
  }
  return cudaSuccess;
}

std::shared_ptr<Stream> stream_of(cudaStream_t handle, const char* call) {
  Runtime& state = runtime();
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return state.legacy;
  }
  const auto at = state.streams.find(handle);
  if (at == state.streams.end()) {
    refuse(Rule::kHandle, cudaErrorInvalidResourceHandle,
           std::string(call) + " on a stream that is not there");
    return nullptr;
  }
  return at->second;
}

cudaError_t enqueue(cudaStream_t handle, std::shared_ptr<Work> work, const char* call) {
  Runtime& state = runtime();
  const std::shared_ptr<Stream> stream = stream_of(handle, call);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream != state.legacy) {
    stream->enqueue(std::move(work));
    return cudaSuccess;
  }
  if (!state.captures.empty()) {
    for (const std::shared_ptr<Capture>& capture : state.captures) {
      capture->broken = true;
    }
    return refuse(Rule::kCapture, cudaErrorStreamCaptureImplicit,
                  std::string(call) + " on the legacy stream while a graph is captured");
  }
  for (const auto& [other_handle, other] : state.streams) {
    if (other->is_blocking) {
      other->run_all();
    }
  }
  stream->enqueue(std::move(work));
  stream->run_all();
  return cudaSuccess;
}

std::vector<Finding> take_findings() {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  state.run_everything();
  return state.findings.take();
}

std::string text_of(const std::vector<Finding>& findings) {
  constexpr const char* kNames[] = {"launch", "memory", "order", "capture", "handle"};
  std::string text;
  for (const Finding& finding : findings) {
    text += std::string(kNames[static_cast<int>(finding.rule)]) + ": " + finding.sentence + " (" +
            std::to_string(finding.times) + " times)\n";
  }
  return text;
}

Counts counts() {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  state.run_everything();
  return state.counts;
}

void compute(const std::string& name, std::function<void(const LaunchedKernel&)> body) {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  state.bodies[name] = std::move(body);
}

}  // namespace versieve::mock_cuda
