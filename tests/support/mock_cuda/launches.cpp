// Launches: what the runtime refuses when they are enqueued, and what their parameters name when
// their turn comes.
#include <algorithm>
#include <cstring>

#include "tests/support/mock_cuda/runtime.h"

namespace versieve::mock_cuda {
namespace {

template <class Use>
void for_each_word(const void* data, std::size_t bytes, const Use& use) {
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const char* word = nullptr;
    std::memcpy(&word, static_cast<const char*>(data) + at, sizeof word);
    use(at, word);
  }
}

// Memory that a launch names and that the host filled with pointers: those too.
void check_block(AddressSpace::Block& block, const std::string& who, const ParameterWord& word) {
  for (const auto& [at, pointer] : block.pointers) {
    const std::string wrong = runtime().device.complaint(pointer, 0);
    if (!wrong.empty()) {
      runtime().findings.add(
          Rule::kMemory,
          who + runtime().during + " reads memory that the host filled: the pointer at " + "byte " +
              std::to_string(at) + " of its " + std::to_string(block.bytes) + " bytes " + wrong,
          &word);
      return;  // a table's other pointers say no more
    }
  }
}

void check_word(const char* pointer, std::size_t at, const std::string& who, ParameterWord& word) {
  Runtime& state = runtime();
  AddressSpace* const space = state.device.covers(pointer)   ? &state.device
                              : state.pinned.covers(pointer) ? &state.pinned
                                                             : nullptr;
  if (space == nullptr) {
    word.was_no_pointer = word.was_no_pointer || pointer != nullptr;
    return;
  }
  if (word.was_no_pointer || AddressSpace::may_be_integers(pointer)) {
    return;
  }
  const std::string wrong = space->complaint(pointer, 0);
  if (!wrong.empty()) {
    state.findings.add(Rule::kMemory,
                       who + state.during + ": the pointer at byte " + std::to_string(at) +
                           " of a parameter " + wrong,
                       &word);
    return;
  }
  word.was_live = true;
  if (space == &state.device) {
    check_block(*space->block_of(pointer), who, word);
  }
}

class KernelLaunch final : public Work {
 public:
  KernelLaunch(Kernel& kernel, dim3 grid, void** arguments) : kernel_(&kernel), grid_(grid) {
    for (std::size_t i = 0; i < kernel.facts->parameter_bytes.size(); ++i) {
      const std::byte* const bytes = static_cast<const std::byte*>(arguments[i]);
      parameters_.emplace_back(bytes, bytes + kernel.facts->parameter_bytes[i]);
    }
  }
  void run() override {
    Runtime& state = runtime();
    ++state.counts.launches;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::vector<std::byte>& bytes = parameters_[i];
      std::deque<ParameterWord>& words = kernel_->words[i];
      words.resize(std::max(words.size(), bytes.size() / sizeof(void*)));
      for_each_word(bytes.data(), bytes.size(), [&](std::size_t at, const char* word) {
        check_word(word, at, kernel_->name, words[at / sizeof(void*)]);
      });
    }
    const auto body = state.bodies.find(kernel_->name);
    if (body != state.bodies.end()) {
      body->second({kernel_->name, kernel_->signature, grid_, parameters_});
    }
  }
  bool uses(const char* begin, const char* end) const override {
    bool found = false;
    for (const std::vector<std::byte>& bytes : parameters_) {
      for_each_word(bytes.data(), bytes.size(), [&](std::size_t, const char* word) {
        found = found || (word >= begin && word < end && !AddressSpace::may_be_integers(word));
      });
    }
    return found;
  }

 private:
  Kernel* kernel_;
  dim3 grid_;
  std::vector<std::vector<std::byte>> parameters_;
};

std::string shape_text(dim3 d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

// Empty, or why the runtime refuses grid and block.
std::string shape_complaint(const KernelFacts& kernel, const CallConfiguration& call) {
  const auto& [grid, block, shared_bytes, stream] = call;
  constexpr unsigned kMostX = 0x7FFFFFFF, kMostYz = 65535;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMostX || grid.y > kMostYz ||
      grid.z > kMostYz) {
    return "a grid of " + shape_text(grid) + " blocks";
  }
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) {
    return "blocks of " + shape_text(block) + " threads";
  }
  if (threads > static_cast<std::size_t>(kernel.max_threads)) {
    return "blocks of " + std::to_string(threads) + " threads, above the kernel's bound of " +
           std::to_string(kernel.max_threads);
  }
  return {};
}

std::string cluster_complaint(const Kernel& kernel, dim3 grid, unsigned cluster) {
  if (cluster == 0 || cluster > 16 || (cluster > 8 && !kernel.large_clusters)) {
    return "clusters of " + std::to_string(cluster) + " blocks";
  }
  if (grid.x % cluster != 0) {
    return "a grid of " + shape_text(grid) + " blocks in clusters of " + std::to_string(cluster);
  }
  return {};
}

std::string shared_complaint(const Kernel& kernel, std::size_t dynamic) {
  const std::size_t own = kernel.facts->static_shared_bytes;
  const std::size_t most = kernel.asked_for_shared ? kernel.most_dynamic_shared
                           : own < 48 * 1024       ? 48 * 1024 - own
                                                   : 0;
  if (dynamic > most || own + dynamic > kSharedOfBlock) {
    return std::to_string(dynamic) + " bytes of dynamic shared memory beside " +
           std::to_string(own) + " of its own, " + std::to_string(most) + " allowed";
  }
  return {};
}

}  // namespace

const KernelFacts* facts_of(Kernel& kernel) {
  if (!kernel.facts) {
    Runtime& state = runtime();
    auto [image, is_new] = state.images.try_emplace(kernel.image);
    if (is_new) {
      image->second = kernels_of(kernel.image);
    }
    const auto at = image->second.find(kernel.mangled);
    if (at == image->second.end()) {
      return nullptr;
    }
    kernel.facts = at->second;
  }
  return &*kernel.facts;
}

unsigned cluster_of(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      const auto& cluster = config.attrs[i].val.clusterDim;
      return cluster.x * cluster.y * cluster.z;
    }
  }
  return 1;
}

cudaError_t launch(const void* function, const CallConfiguration& call, unsigned cluster,
                   void** arguments) {
  Runtime& state = runtime();
  const auto at = state.kernels.find(function);
  if (at == state.kernels.end()) {
    return refuse(Rule::kLaunch, cudaErrorInvalidDeviceFunction, "a kernel that nobody registered");
  }
  Kernel& kernel = at->second;
  const KernelFacts* const facts = facts_of(kernel);
  if (facts == nullptr) {
    return refuse(Rule::kLaunch, cudaErrorInvalidDeviceFunction,
                  kernel.mangled + ": the fat binary has no cubin of it that can be read");
  }
  for (const std::string& wrong :
       {shape_complaint(*facts, call), cluster_complaint(kernel, call.grid, cluster),
        shared_complaint(kernel, call.shared_bytes)}) {
    if (!wrong.empty()) {
      return refuse(Rule::kLaunch, cudaErrorInvalidConfiguration, kernel.name + ": " + wrong);
    }
  }
  return enqueue(call.stream, std::make_shared<KernelLaunch>(kernel, call.grid, arguments),
                 kernel.name.c_str());
}

}  // namespace versieve::mock_cuda
