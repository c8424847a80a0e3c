// Does the mock of the CUDA runtime find each kind of fault that it is there for, and none where
// there is none?
#include <cuda.h>
#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/host_side/planted_kernels.h"
#include "tests/support/mock_cuda/mock_cuda.h"

namespace versieve::test {
namespace {

using mock_cuda::Finding;
using mock_cuda::Rule;

constexpr std::size_t kBytes = 4096;

// A stream and two blocks of memory.
struct Fixture {
  Fixture() {
    mock_cuda::take_findings();
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    in = block();
    out = block();
  }
  ~Fixture() {
    cudaStreamDestroy(stream);
    cudaStreamDestroy(other);
    cudaFree(in);
    cudaFree(out);
    mock_cuda::take_findings();
    cudaGetLastError();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  static int* block() {
    void* memory = nullptr;
    cudaMalloc(&memory, kBytes);
    return static_cast<int*>(memory);
  }
  cudaError_t sum(const int* from, int* to, dim3 grid = 1, dim3 threads = kPlantedThreads,
                  std::size_t shared = 1024) const {
    void* arguments[] = {static_cast<void*>(&from), static_cast<void*>(&to)};
    return cudaLaunchKernel(planted_sum(), grid, threads, arguments, shared, stream);
  }
  // Hands its launch to `call`.
  template <class Call>
  cudaError_t with_clusters(unsigned blocks, unsigned cluster, Call call) const {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = kPlantedThreads;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return call(config);
  }
  cudaError_t clustered(unsigned blocks, unsigned cluster) const {
    const int* from = in;
    int* to = out;
    void* arguments[] = {static_cast<void*>(&from), static_cast<void*>(&to)};
    return with_clusters(blocks, cluster, [&](const cudaLaunchConfig_t& config) {
      return cudaLaunchKernelExC(&config, planted_sum(), arguments);
    });
  }
  cudaError_t clusters_that_fit(unsigned cluster) const {
    return with_clusters(cluster, cluster, [&](const cudaLaunchConfig_t& config) {
      int count = 0;
      return cudaOccupancyMaxActiveClusters(&count, planted_sum(), &config);
    });
  }
  cudaError_t upload(void* to, const void* from, std::size_t bytes) const {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  void begin() const { cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal); }
  // Of what was captured, or null.
  cudaGraphExec_t end() const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) {
      cudaGraphInstantiate(&executable, graph, 0);
    }
    cudaGraphDestroy(graph);
    return executable;
  }

  cudaStream_t stream = nullptr, other = nullptr;
  int *in = nullptr, *out = nullptr;
};

// Nothing since the last time, or exactly that one finding, whose sentence has the text within.
void check_none() {
  const std::vector<Finding> found = mock_cuda::take_findings();
  INFO(mock_cuda::text_of(found));
  CHECK(found.empty());
}
void check_one(Rule rule, const std::string& text) {
  const std::vector<Finding> found = mock_cuda::take_findings();
  INFO("wanted: " << text << "\nfound: " << mock_cuda::text_of(found));
  CHECK(found.size() == 1);
  CHECK((!found.empty() && found[0].rule == rule &&
         found[0].sentence.find(text) != std::string::npos));
  cudaGetLastError();
}

}  // namespace

TEST_CASE("a launch beyond what a GPU takes is found") {
  const Fixture f;
  CHECK(f.sum(f.in, f.out, {0x7FFFFFFF, 65535, 65535}) == cudaSuccess);
  check_none();
  CHECK(f.sum(f.in, f.out, {1, 70000, 1}) == cudaErrorInvalidConfiguration);
  check_one(Rule::kLaunch, "planted_sum_kernel: a grid of 1 x 70000 x 1 blocks");
  f.sum(f.in, f.out, {1, 1, 65536});
  check_one(Rule::kLaunch, "1 x 1 x 65536");
  f.sum(f.in, f.out, {0x80000000U, 1, 1});
  check_one(Rule::kLaunch, "2147483648 x 1 x 1");
  f.sum(f.in, f.out, {0, 1, 1});
  check_one(Rule::kLaunch, "a grid of 0 x 1 x 1");
  f.sum(f.in, f.out, 1, 1025);
  check_one(Rule::kLaunch, "blocks of 1025 x 1 x 1 threads");
  f.sum(f.in, f.out, 1, kPlantedThreads + 1);
  check_one(Rule::kLaunch, "257 threads, above the kernel's bound of 256");
  CHECK(cudaLaunchKernel(&f, 1, 1, nullptr, 0, f.stream) == cudaErrorInvalidDeviceFunction);
  check_one(Rule::kLaunch, "a kernel that nobody registered");
}

TEST_CASE("shared memory that was not asked for, or is not there, is found") {
  const Fixture f;
  const int most = 227 * 1024 - kPlantedSharedBytes;
  const auto ask = [](int bytes) {
    return cudaFuncSetAttribute(planted_sum(), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  f.sum(f.in, f.out, 1, 32, 48 * 1024 - kPlantedSharedBytes);
  check_none();
  f.sum(f.in, f.out, 1, 32, 48 * 1024);  // with its own arrays too much
  check_one(Rule::kLaunch, "49152 bytes of dynamic shared memory beside 4096 of its own");
  CHECK(ask(most) == cudaSuccess);
  f.sum(f.in, f.out, 1, 32, static_cast<std::size_t>(most));
  check_none();
  f.sum(f.in, f.out, 1, 32, static_cast<std::size_t>(most) + 1);
  check_one(Rule::kLaunch, "bytes of dynamic shared memory");
  CHECK(ask(most + 1) == cudaErrorInvalidValue);
  check_one(Rule::kLaunch, "bytes of dynamic shared memory asked for");
}

TEST_CASE("a cluster that no launch may have is found") {
  const Fixture f;
  f.clustered(16, 8);
  check_none();
  f.clustered(12, 8);
  check_one(Rule::kLaunch, "a grid of 12 x 1 x 1 blocks in clusters of 8");
  f.clustered(32, 16);
  check_one(Rule::kLaunch, "clusters of 16 blocks");
  f.clusters_that_fit(16);
  check_one(Rule::kLaunch, "how many clusters of 16 blocks fit");
  cudaFuncSetAttribute(planted_sum(), cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  f.clustered(32, 16);
  f.clusters_that_fit(16);
  check_none();
  f.clustered(32, 32);
  check_one(Rule::kLaunch, "clusters of 32 blocks");
}

TEST_CASE("a launch that names memory which is not there is found") {
  const Fixture f;
  f.sum(f.in, f.in + kBytes / sizeof(int));  // the end is no fault
  check_none();
  f.sum(f.in, f.out + kBytes / sizeof(int) + 1);
  check_one(Rule::kMemory, "ends 4 bytes beyond a block of 4096 bytes of device memory");
  int* const gone = Fixture::block();
  cudaFree(gone);
  f.sum(gone + 3, f.out);
  check_one(Rule::kMemory,
            "planted_sum_kernel: the pointer at byte 0 of a parameter is in a block");
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 64, cudaHostAllocDefault);
  f.sum(static_cast<int*>(pinned), f.out);
  check_none();
  cudaFreeHost(pinned);
  f.sum(static_cast<int*>(pinned), f.out);
  check_one(Rule::kMemory, "64 bytes of pinned host memory that was freed");
}

TEST_CASE("pointers within a launch's arguments and within memory that the host filled are read") {
  const Fixture f;
  int* const gone = Fixture::block();
  PlantedTable table{.count = 640};
  table.in[639] = gone;
  int* to = f.out;
  void* arguments[] = {&table, static_cast<void*>(&to)};
  const auto launch = [&] { cudaLaunchKernel(planted_table(), 1, 1, arguments, 0, f.stream); };
  launch();
  check_none();
  const std::vector<const int*> list = {f.in, gone, f.out};
  f.upload(f.in, list.data(), list.size() * sizeof list[0]);
  f.sum(f.in, f.out);
  check_none();
  cudaStreamSynchronize(f.stream);
  cudaFree(gone);
  launch();
  check_one(Rule::kMemory, "at byte 5120 of a parameter is in a block");
  f.sum(f.in, f.out);
  check_one(Rule::kMemory, "reads memory that the host filled: the pointer at byte 8");
  f.upload(f.in, list.data(), sizeof list[0]);  // a shorter list in its place
  f.sum(f.in, f.out);
  check_none();
}

TEST_CASE("numbers are no pointers, whatever another instance of a kernel's template takes") {
  const Fixture f;
  int* const gone = Fixture::block();
  const auto launch = [&](bool pointer, std::uintptr_t word) {
    void* arguments[] = {&word};
    cudaLaunchKernel(planted_either(pointer), 1, 1, arguments, 0, f.stream);
  };
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(gone);
  launch(true, address);
  launch(false, address);  // bytes that nobody wrote may hold one
  launch(false, 12345);
  cudaStreamSynchronize(f.stream);
  cudaFree(gone);
  launch(false, address);
  check_none();
  launch(true, address / 256 * 256 + 1);        // a flag in front of what is left of a pointer
  launch(true, (address >> 32 << 32) + 70000);  // an index in front of another number
  check_none();
  launch(true, address);
  check_one(Rule::kMemory, "planted_either_kernel: the pointer at byte 0");
}

TEST_CASE("a copy or a memset beyond its memory is found") {
  const Fixture f;
  std::vector<char> host(2 * kBytes);
  CHECK(f.upload(f.in, host.data(), kBytes) == cudaSuccess);
  check_none();
  CHECK(f.upload(f.in, host.data(), kBytes + 1) == cudaErrorInvalidValue);
  check_one(Rule::kMemory, "the destination of a copy of 4097 bytes ends 1 bytes beyond");
  cudaMemcpyAsync(host.data(), f.in + 1, kBytes, cudaMemcpyDeviceToHost, f.stream);
  check_one(Rule::kMemory, "the source of a copy of 4096 bytes ends 4 bytes beyond");
  cudaMemcpyAsync(f.in, host.data(), 8, cudaMemcpyDeviceToHost, f.stream);
  check_one(Rule::kMemory, "a copy's kind");
  cudaMemsetAsync(f.in + 1, 0, kBytes, f.stream);
  CHECK(mock_cuda::text_of(mock_cuda::take_findings()).find("what a memset sets, of 4096 bytes") !=
        std::string::npos);
  cudaMemsetAsync(host.data(), 0, 8, f.stream);
  check_one(Rule::kMemory, "a memset of what is no device memory");
  int* const gone = Fixture::block();
  cudaFree(gone);
  f.upload(gone, host.data(), 8);
  check_one(Rule::kMemory, "that was freed");
  CHECK(cudaFree(gone) == cudaErrorInvalidValue);
  check_one(Rule::kMemory, "cudaFree of what is no block that is there");
  CHECK(cudaFree(f.in + 1) == cudaErrorInvalidValue);
  check_one(Rule::kMemory, "cudaFree of what is no block that is there");
}

TEST_CASE("what may not be done under a capture is found, and the capture fails") {
  Fixture f;
  void* memory = nullptr;
  int* const spare = Fixture::block();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, f.other);
  const std::vector<char> host(8);
  const std::vector<std::pair<std::string, std::function<void()>>> faults = {
      {"cudaMalloc while a graph is captured", [&] { cudaMalloc(&memory, 8); }},
      {"cudaFree while", [&] { cudaFree(spare); }},
      {"cudaHostAlloc while", [&] { cudaHostAlloc(&memory, 8, cudaHostAllocDefault); }},
      {"cudaStreamSynchronize while", [&] { cudaStreamSynchronize(f.other); }},
      {"cudaDeviceSynchronize while", [] { cudaDeviceSynchronize(); }},
      {"cudaEventSynchronize while", [&] { cudaEventSynchronize(event); }},
      {"cudaMemcpy while",
       [&] { cudaMemcpy(f.in, host.data(), host.size(), cudaMemcpyHostToDevice); }},
      {"cudaMemsetAsync on the legacy stream", [&] { cudaMemsetAsync(f.in, 0, 8, nullptr); }}};
  for (const auto& [sentence, fault] : faults) {
    f.begin();
    f.sum(f.in, f.out);
    fault();
    CHECK(f.end() == nullptr);
    check_one(Rule::kCapture, sentence);
  }
  f.begin();
  cudaStreamWaitEvent(f.stream, event);
  check_one(Rule::kCapture, "waits in a capture for an event that was recorded outside of it");
  f.upload(f.in, host.data(), host.size());
  check_one(Rule::kCapture, "a copy of pageable host memory");
  f.end();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(f.stream, &graph) == cudaErrorStreamCaptureUnmatched);
  check_one(Rule::kCapture, "ended where none began");
  cudaEventDestroy(event);
  cudaFree(spare);
}

TEST_CASE("a capture's branches are followed, and one that is not joined is found") {
  Fixture f;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  const auto branch = [&](bool joins) {
    f.begin();
    f.sum(f.in, f.out);
    cudaEventRecord(fork, f.stream);
    cudaStreamWaitEvent(f.other, fork);
    cudaMemsetAsync(f.out, 0, 8, f.other);
    cudaEventRecord(join, f.other);
    if (joins) {
      cudaStreamWaitEvent(f.stream, join);
      f.sum(f.in, f.out);
    }
    return f.end();
  };
  const cudaGraphExec_t joined = branch(true);
  REQUIRE(joined != nullptr);
  const std::int64_t before = mock_cuda::counts().launches;
  cudaGraphLaunch(joined, f.stream);
  cudaGraphLaunch(joined, f.stream);
  CHECK(mock_cuda::counts().launches == before + 4);
  check_none();
  CHECK(cudaEventSynchronize(join) == cudaErrorCapturedEvent);
  check_one(Rule::kCapture, "an event that was recorded in a capture");
  CHECK(branch(false) == nullptr);
  check_one(Rule::kCapture, "before its first stream waits for the others");
  f.begin();
  cudaGraphLaunch(joined, f.stream);
  check_one(Rule::kCapture, "a graph is launched while another is captured");
  f.end();
  cudaGraphExecDestroy(joined);
  CHECK(cudaGraphLaunch(joined, f.stream) == cudaErrorInvalidResourceHandle);
  check_one(Rule::kHandle, "cudaGraphLaunch of a handle that is not there");
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaEventRecord(join, f.stream);
  check_one(Rule::kHandle, "cudaEventRecord of a handle that is not there");
}

TEST_CASE("a replay that names memory which was freed since is found") {
  Fixture f;
  int* const scratch = Fixture::block();
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 64, cudaHostAllocDefault);
  f.begin();
  f.sum(scratch, f.out);
  const cudaGraphExec_t names_scratch = f.end();
  f.begin();
  f.upload(f.in, pinned, 64);
  const cudaGraphExec_t reads_host = f.end();
  cudaGraphLaunch(names_scratch, f.stream);
  cudaGraphLaunch(reads_host, f.stream);
  check_none();
  static_cast<int*>(pinned)[3] = 7;  // a replay reads what is there then
  cudaGraphLaunch(reads_host, f.stream);
  check_none();
  CHECK(f.in[3] == 7);
  cudaFree(scratch);
  cudaGraphLaunch(names_scratch, f.stream);
  check_one(Rule::kMemory, "planted_sum_kernel in a replay: the pointer at byte 0");
  cudaFreeHost(pinned);
  cudaGraphLaunch(reads_host, f.stream);
  check_one(Rule::kMemory, "the source of a copy in a replay of 64 bytes is in a block of 64");
  cudaGraphExecDestroy(names_scratch);
  cudaGraphExecDestroy(reads_host);
}

TEST_CASE("memory that goes or changes while work in flight uses it is found") {
  const Fixture f;
  int* const first = Fixture::block();
  f.sum(first, f.out);
  cudaFree(first);
  check_one(Rule::kOrder, "cudaFree of a block of 4096 bytes that work in flight uses");
  int* const second = Fixture::block();
  f.sum(second, f.out);
  cudaStreamSynchronize(f.stream);
  cudaFree(second);
  check_none();
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 64, cudaHostAllocDefault);
  std::memset(pinned, 1, 64);
  f.upload(f.in, pinned, 64);
  std::memset(pinned, 2, 64);
  check_one(Rule::kOrder, "the host wrote to pinned memory before a copy of 64 bytes");
  f.upload(f.in, pinned, 64);
  cudaEvent_t copied = nullptr;
  cudaEventCreate(&copied);
  cudaEventRecord(copied, f.stream);
  cudaEventSynchronize(copied);
  std::memset(pinned, 3, 64);
  check_none();
  f.upload(f.in, pinned, 64);
  cudaFreeHost(pinned);
  check_one(Rule::kOrder, "cudaFreeHost of a block of 64 bytes that work in flight uses");
  cudaEventDestroy(copied);
}

TEST_CASE("a stream waits for an event of another before it goes on") {
  const Fixture f;
  int written = 0, seen = -1;
  std::pair<int*, int*> both{&written, &seen};
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  const auto write = [](void* to) { *static_cast<int*>(to) = 5; };
  const auto look = [](void* at) {
    const auto& [from, to] = *static_cast<std::pair<int*, int*>*>(at);
    *to = *from;
  };
  cudaLaunchHostFunc(f.other, write, &written);
  cudaEventRecord(event, f.other);
  cudaStreamWaitEvent(f.stream, event);
  cudaLaunchHostFunc(f.stream, look, &both);
  CHECK(written == 0);  // nothing runs before somebody waits
  cudaStreamSynchronize(f.stream);
  CHECK(seen == 5);
  cudaEventDestroy(event);
  check_none();
}

TEST_CASE("a tensor map that breaks the encoder's rules, or leaves its block, is found") {
  const Fixture f;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                   &result);
  REQUIRE(function != nullptr);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  const auto try_map = [&](char* address, cuuint64_t rows, cuuint64_t row_bytes) {
    CUtensorMap map;
    const cuuint64_t sizes[2] = {64, rows};
    const cuuint32_t box[2] = {64, 8}, steps[2] = {1, 1};
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, address, sizes, &row_bytes, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  char* const at = reinterpret_cast<char*>(f.in);
  CHECK(try_map(at, kBytes / 128, 128) == CUDA_SUCCESS);
  check_none();
  try_map(at, kBytes / 128 + 1, 128);
  check_one(Rule::kMemory, "the tensor of a map ends 128 bytes beyond a block");
  CHECK(try_map(at + 8, 1, 128) == CUDA_ERROR_INVALID_VALUE);
  check_one(Rule::kLaunch, "an address that is not on 16 bytes");
  CHECK(try_map(at, 8, 136) == CUDA_ERROR_INVALID_VALUE);
  check_one(Rule::kLaunch, "strides that are no multiples of 16 bytes");
}

}  // namespace versieve::test
