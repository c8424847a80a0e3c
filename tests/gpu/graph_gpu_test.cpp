// Ops in a CUDA graph.
#include <cuda_runtime.h>

#include <catch2/catch.hpp>

#include "kernels/common/cuda_check.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {

using Ints = std::vector<std::int32_t>;

TEST_CASE("ops captured in a CUDA graph give the bits of a plain run", "[graph]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const std::int64_t n = 6, k = 512, m = 1000;
  const OpsBuffer<Bf16> x(*ops, test::random_elements<Bf16>(n * k, 10));
  const OpsBuffer<Bf16> w(*ops, test::random_elements<Bf16>(m * k, 11));
  OpsBuffer<Bf16> logits = test::poisoned<Bf16>(*ops, n * m);
  OpsBuffer<Bf16> values = test::poisoned<Bf16>(*ops, n * 32);
  OpsBuffer<Bf16, std::int32_t> chosen(*ops, Ints(static_cast<std::size_t>(n * 32), -9));
  const auto step = [&] {
    ops->linear({.n = n, .k = k, .m = m, .x = x.data(), .w = w.data(), .y = logits.data()});
    ops->topk({.rows = n,
               .length = m,
               .k = 32,
               .scores = logits.data(),
               .indices = chosen.data(),
               .values = values.data()});
  };
  step();  // scratch grows here
  const Ints want = chosen.read();
  chosen.write(Ints(want.size(), -9));
  const cudaStream_t stream = static_cast<cudaStream_t>(stream_of(*ops));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  step();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(chosen.read() == Ints(want.size(), -9));  // captured, not run
  check(cudaGraphLaunch(executable, stream));
  CHECK(chosen.read() == want);
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
}

}  // namespace versieve::kernels
