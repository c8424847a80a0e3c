// The runtime's calls that allocate, free, copy and set memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/mock_cuda/runtime.h"

using namespace versieve::mock_cuda;

namespace {

bool is_device(const void* p) {
  return runtime().device.covers(p);
}
bool meets(const void* p, std::size_t bytes, const char* begin, const char* end) {
  const char* const at = static_cast<const char*>(p);
  return at < end && at + bytes > begin;
}
// Of memory that can be known. False: a finding.
bool check_range(const void* p, std::size_t bytes, const std::string& who) {
  Runtime& state = runtime();
  for (AddressSpace* space : {&state.device, &state.pinned}) {
    const std::string wrong = space->covers(p) ? space->complaint(p, bytes) : "";
    if (!wrong.empty()) {
      state.findings.add(Rule::kMemory,
                         who + state.during + " of " + std::to_string(bytes) + " bytes " + wrong);
      return false;
    }
  }
  return true;
}

// Which words of the block point to device memory, from the host's newest copies.
void note_pointers(char* destination, std::size_t bytes) {
  AddressSpace& device = runtime().device;
  AddressSpace::Block& block = *device.block_of(destination);
  const std::size_t begin = static_cast<std::size_t>(destination - block.begin);
  for (auto old = block.copied.begin(); old != block.copied.end();) {
    const auto [old_begin, old_end] = *old;
    if (old_end <= begin || old_begin >= begin + bytes) {
      ++old;
      continue;
    }
    block.pointers.erase(block.pointers.lower_bound(old_begin),
                         block.pointers.lower_bound(old_end));
    old = block.copied.erase(old);
  }
  bool any = false;
  for (std::size_t at = (begin + 7) / 8 * 8; at + 8 <= begin + bytes; at += 8) {
    const char* word = nullptr;
    std::memcpy(&word, block.begin + at, sizeof word);
    const AddressSpace::Block* const named =
        device.covers(word) && !AddressSpace::may_be_integers(word) ? device.block_of(word)
                                                                    : nullptr;
    if (named != nullptr && named->holds(word)) {
      block.pointers[at] = word;
      any = true;
    }
  }
  if (any) {
    block.copied[begin] = begin + bytes;
  }
}

class Copy final : public Work {
 public:
  Copy(void* destination, const void* source, std::size_t bytes)
      : destination_(static_cast<char*>(destination)),
        source_(static_cast<const char*>(source)),
        bytes_(bytes) {
    if (!is_device(source)) {
      seen_.assign(source_, source_ + bytes);  // pageable memory is read when the call is made
      reads_later_ = runtime().pinned.covers(source);
    }
  }
  void run() override {
    Runtime& state = runtime();
    ++state.counts.copies;
    if (!check_range(destination_, bytes_, "the destination of a copy") ||
        !check_range(source_, bytes_, "the source of a copy")) {
      return;
    }
    if (reads_later_ && !replayed_ && std::memcmp(seen_.data(), source_, bytes_) != 0) {
      state.findings.add(Rule::kOrder, "the host wrote to pinned memory before a copy of " +
                                           std::to_string(bytes_) + " bytes from it had run");
    }
    std::memmove(destination_, is_device(source_) || replayed_ ? source_ : seen_.data(), bytes_);
    if (is_device(destination_)) {
      note_pointers(destination_, bytes_);
    }
  }
  bool uses(const char* begin, const char* end) const override {
    return meets(destination_, bytes_, begin, end) || meets(source_, bytes_, begin, end);
  }
  // Of a graph: it reads what the host has then.
  void set_replayed() { replayed_ = true; }

 private:
  char* destination_;
  const char* source_;
  std::size_t bytes_;
  std::vector<char> seen_;
  bool reads_later_ = false, replayed_ = false;
};

class Set final : public Work {
 public:
  Set(void* memory, int value, std::size_t bytes)
      : memory_(static_cast<char*>(memory)), value_(value), bytes_(bytes) {}
  void run() override {
    if (!check_range(memory_, bytes_, "what a memset sets,")) {
      return;
    }
    if (value_ == 0) {
      AddressSpace::clear(memory_, bytes_);
    } else {
      std::memset(memory_, value_, bytes_);
    }
  }
  bool uses(const char* begin, const char* end) const override {
    return meets(memory_, bytes_, begin, end);
  }

 private:
  char* memory_;
  int value_;
  std::size_t bytes_;
};

// Empty, or why a copy of that kind is none between those two.
std::string kind_complaint(const void* destination, const void* source, cudaMemcpyKind kind) {
  const bool to = is_device(destination), from = is_device(source);
  const bool right = kind == cudaMemcpyDefault || (kind == cudaMemcpyHostToDevice && to && !from) ||
                     (kind == cudaMemcpyDeviceToHost && !to && from) ||
                     (kind == cudaMemcpyDeviceToDevice && to && from) ||
                     (kind == cudaMemcpyHostToHost && !to && !from);
  return right ? "" : "a copy's kind is not that of its memory";
}

cudaError_t copy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, const char* call) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (const std::string wrong = kind_complaint(destination, source, kind); !wrong.empty()) {
    return refuse(Rule::kMemory, cudaErrorInvalidValue, wrong);
  }
  // A copy of memory that is not there is refused where the runtime can know.
  if (!check_range(destination, bytes, "the destination of a copy") ||
      !check_range(source, bytes, "the source of a copy")) {
    runtime().last_error = cudaErrorInvalidValue;
    return cudaErrorInvalidValue;
  }
  const std::shared_ptr<Stream> at = stream_of(stream, call);
  if (at == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const auto is_pageable = [](const void* p) {
    return !is_device(p) && !runtime().pinned.covers(p);
  };
  const auto work = std::make_shared<Copy>(destination, source, bytes);
  if (at->capture != nullptr) {
    if (is_pageable(destination) || is_pageable(source)) {
      return refuse(Rule::kCapture, cudaErrorStreamCaptureUnsupported,
                    "a copy of pageable host memory, which may be gone at the replay, is captured");
    }
    work->set_replayed();
  }
  const cudaError_t status = enqueue(stream, work, call);
  if (status == cudaSuccess && at->capture == nullptr && is_pageable(destination)) {
    at->run_all();  // the runtime returns from it when it has run
  }
  return status;
}

cudaError_t release(AddressSpace& space, void* memory, const char* call) {
  Runtime& state = runtime();
  if (memory == nullptr) {
    return cudaSuccess;
  }
  if (const cudaError_t status = check_unsafe(call); status != cudaSuccess) {
    return status;
  }
  AddressSpace::Block* const block = space.covers(memory) ? space.block_of(memory) : nullptr;
  if (block == nullptr || block->begin != memory || !block->live) {
    return refuse(Rule::kMemory, cudaErrorInvalidValue,
                  std::string(call) + " of what is no block that is there");
  }
  const bool in_flight = std::any_of(
      state.streams.begin(), state.streams.end(),
      [&](const auto& stream) { return stream.second->pending_uses(block->begin, block->end()); });
  if (in_flight) {  // the runtime may wait for it, and need not
    state.findings.add(Rule::kOrder, std::string(call) + " of a block of " +
                                         std::to_string(block->bytes) +
                                         " bytes that work in flight uses");
  }
  state.run_everything();
  space.release(memory);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  if (const cudaError_t status = check_unsafe("cudaMalloc"); status != cudaSuccess) {
    return status;
  }
  *memory = bytes <= kDeviceBytes && state.device.live_bytes() + bytes <= kDeviceBytes
                ? state.device.allocate(bytes)
                : nullptr;
  if (*memory == nullptr) {
    state.last_error = cudaErrorMemoryAllocation;
    return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(runtime().mutex);
  return release(runtime().device, memory, "cudaFree");
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  if (const cudaError_t status = check_unsafe("cudaHostAlloc"); status != cudaSuccess) {
    return status;
  }
  *memory = runtime().pinned.allocate(bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(runtime().mutex);
  return release(runtime().pinned, memory, "cudaFreeHost");
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(runtime().mutex);
  *total = kDeviceBytes;
  *free = kDeviceBytes - runtime().device.live_bytes();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  return copy(destination, source, bytes, kind, stream, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(runtime().mutex);
  const cudaError_t status = check_unsafe("cudaMemcpy");
  return status != cudaSuccess ? status
                               : copy(destination, source, bytes, kind, nullptr, "cudaMemcpy");
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (!is_device(memory) || !check_range(memory, bytes, "what a memset sets,")) {
    return refuse(Rule::kMemory, cudaErrorInvalidValue, "a memset of what is no device memory");
  }
  return enqueue(stream, std::make_shared<Set>(memory, value, bytes), "cudaMemsetAsync");
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  const cudaError_t status = check_unsafe("cudaMemset");
  return status != cudaSuccess ? status : cudaMemsetAsync(memory, value, bytes, nullptr);
}

}  // extern "C"
