// Speed of linear and of a whole step outside attention, nsa-1b geometry, bf16. Run on request:
// test_gpu_ops "[bench]". Times are of captured graphs; each graph walks over more weights than the
// second-level cache holds, all of them random.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <utility>

#include "kernels/common/cuda_check.h"
#include "model/words/llm_shape.h"
#include "tests/gpu/device.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

// Random bf16 values of a few ulps around +-0.02, a block of them again and again.
OpsBuffer<Bf16> random_buffer(Ops<Bf16>& ops, std::int64_t count) {
  constexpr std::int64_t kBlock = 1 << 22;
  static const std::vector<Bf16> block = test::random_elements<Bf16>(kBlock, 11, 0.02);
  OpsBuffer<Bf16> buffer(ops, count);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    ops.upload(buffer.data() + at, block.data(),
               static_cast<std::size_t>(std::min(kBlock, count - at)) * sizeof(Bf16));
  }
  return buffer;
}

// Best of some replays of a graph of what `enqueue` launches, in microseconds.
double graph_us(Ops<Bf16>& ops, const std::function<void()>& enqueue) {
  enqueue();  // scratch and modules are there before the capture
  ops.synchronize();
  cudaStream_t stream = static_cast<cudaStream_t>(stream_of(ops));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  enqueue();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float best_ms = 1e9F;
  for (int repetition = 0; repetition < 9; ++repetition) {
    float ms = 0.0F;
    check(cudaEventRecord(begin, stream));
    check(cudaGraphLaunch(executable, stream));
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, begin, end));
    best_ms = std::min(best_ms, ms);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
  return 1e3 * static_cast<double>(best_ms);
}

struct Matrix {
  const char* name;
  std::int64_t k, m;
  bool swiglu;
};

// Each call reads what the call before wrote (its first K columns), as in a model.
double call_us(Ops<Bf16>& ops, const Matrix& matrix, std::int64_t n, const OpsBuffer<Bf16>& pool) {
  const std::int64_t size = matrix.k * matrix.m * (matrix.swiglu ? 2 : 1);
  const std::int64_t copies = std::min<std::int64_t>(64, pool.count() / size);
  const OpsBuffer<Bf16> x = random_buffer(ops, n * matrix.k);
  const OpsBuffer<Bf16> y(ops, n * matrix.m);
  const double us = graph_us(ops, [&] {
    for (std::int64_t i = 0; i < copies; ++i) {
      ops.linear({.n = n,
                  .k = matrix.k,
                  .m = matrix.m,
                  .swiglu = matrix.swiglu,
                  .x = x.data(),
                  .w = pool.data() + i * size,
                  .y = y.data()});
    }
  });
  return us / static_cast<double>(copies);
}

// The weights of a model and its activations for n nodes.
struct Chain {
  struct Layer {
    OpsBuffer<Bf16> norm, joint, output, post_norm, gate_up, down;
  };
  LlmShape shape;
  std::vector<Layer> layers = {};
  OpsBuffer<Bf16> norm = {}, head = {};
  std::array<OpsBuffer<Bf16, SquareSum>, 2> squares = {};
  OpsBuffer<Bf16> hidden = {}, weighted = {}, row = {}, q = {}, k = {}, k_raw = {}, v = {};
  OpsBuffer<Bf16> gates = {}, mlp = {}, logits = {};
  OpsBuffer<Bf16, float> cosine = {}, sine = {}, log_probability = {};
  OpsBuffer<Bf16, std::int32_t> position = {}, index = {};

  std::int64_t joint_width() const {
    return shape.q_width() + 2 * shape.kv_width() + 3 * shape.num_heads;
  }
  double weight_bytes() const {
    const double layer = static_cast<double>(
        shape.hidden * (joint_width() + shape.q_width() + 3 * shape.intermediate));
    return 2.0 * (static_cast<double>(shape.layers) * layer +
                  static_cast<double>(shape.vocab * shape.hidden));
  }
};

Chain make_chain(Ops<Bf16>& ops, std::int64_t n) {
  Chain c{.shape = named_llm_shape("nsa-1b")};
  const LlmShape& s = c.shape;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    c.layers.push_back({.norm = random_buffer(ops, s.hidden),
                        .joint = random_buffer(ops, c.joint_width() * s.hidden),
                        .output = random_buffer(ops, s.hidden * s.q_width()),
                        .post_norm = random_buffer(ops, s.hidden),
                        .gate_up = random_buffer(ops, 2 * s.intermediate * s.hidden),
                        .down = random_buffer(ops, s.hidden * s.intermediate)});
  }
  c.norm = random_buffer(ops, s.hidden);
  c.head = random_buffer(ops, s.vocab * s.hidden);
  c.hidden = random_buffer(ops, n * s.hidden);
  for (OpsBuffer<Bf16>* kv : {&c.k, &c.k_raw, &c.v}) {
    *kv = OpsBuffer<Bf16>(ops, n * s.kv_width());
  }
  c.weighted = OpsBuffer<Bf16>(ops, n * s.hidden);
  for (OpsBuffer<Bf16, SquareSum>& squares : c.squares) {
    squares = OpsBuffer<Bf16, SquareSum>(ops, n);
  }
  c.row = OpsBuffer<Bf16>(ops, n * c.joint_width());
  c.q = OpsBuffer<Bf16>(ops, n * s.q_width());
  c.gates = OpsBuffer<Bf16>(ops, n * 3 * s.num_heads);
  c.mlp = OpsBuffer<Bf16>(ops, n * s.intermediate);
  c.logits = OpsBuffer<Bf16>(ops, n * s.vocab);
  c.cosine = OpsBuffer<Bf16, float>(ops, n * s.head_dim / 2);
  c.sine = OpsBuffer<Bf16, float>(ops, n * s.head_dim / 2);
  c.position = OpsBuffer<Bf16, std::int32_t>(
      ops, std::vector<std::int32_t>(static_cast<std::size_t>(n), 16384));
  c.index = OpsBuffer<Bf16, std::int32_t>(ops, n);
  c.log_probability = OpsBuffer<Bf16, float>(ops, n);
  return c;
}

void enqueue_linear(Ops<Bf16>& ops, const OpsBuffer<Bf16>& x, const OpsBuffer<Bf16>& w,
                    const OpsBuffer<Bf16>& y, LinearParams<Bf16> p) {
  p.x = x.data();
  p.w = w.data();
  p.y = y.data();
  ops.linear(p);
}

// All launches of a verification step of n nodes outside attention; the output projection reads the
// queries in attention's place.
void enqueue_chain(Ops<Bf16>& ops, const Chain& c, std::int64_t n) {
  const LlmShape& s = c.shape;
  SquareSum* read = c.squares[0].data();
  SquareSum* made = c.squares[1].data();
  const auto of_norm = [&](const OpsBuffer<Bf16>& w, const OpsBuffer<Bf16>& y, std::int64_t m,
                           bool swiglu) {
    enqueue_linear(ops, c.weighted, w, y,
                   {.n = n,
                    .k = s.hidden,
                    .m = m,
                    .swiglu = swiglu,
                    .norm = {.x_squares = read, .cleared = made}});
  };
  const auto to_norm = [&](const OpsBuffer<Bf16>& x, const OpsBuffer<Bf16>& w, std::int64_t k,
                           const OpsBuffer<Bf16>& norm) {
    std::swap(read, made);
    enqueue_linear(
        ops, x, w, c.hidden,
        {.n = n,
         .k = k,
         .m = s.hidden,
         .residual = c.hidden.data(),
         .norm = {.y_weight = norm.data(), .y_weighted = c.weighted.data(), .y_squares = read}});
  };
  ops.embed({.token = {.n = n,
                       .k = s.hidden,
                       .x = c.hidden.data(),
                       .weight = c.layers.front().norm.data(),
                       .y = c.weighted.data(),
                       .squares = read},
             .angles = {.n = n,
                        .head_dim = s.head_dim,
                        .theta = s.rope_theta,
                        .position = c.position.data(),
                        .cosine = c.cosine.data(),
                        .sine = c.sine.data()}});
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const Chain::Layer& layer = c.layers[i];
    of_norm(layer.joint, c.row, c.joint_width(), false);
    ops.rope_append({.n = n,
                     .num_heads = s.num_heads,
                     .num_kv_heads = s.num_kv_heads,
                     .head_dim = s.head_dim,
                     .gate_count = 3 * s.num_heads,
                     .x = c.row.data(),
                     .cosine = c.cosine.data(),
                     .sine = c.sine.data(),
                     .q = c.q.data(),
                     .k_raw = c.k_raw.data(),
                     .k = c.k.data(),
                     .v = c.v.data(),
                     .gates = c.gates.data()});
    to_norm(c.q, layer.output, s.q_width(), layer.post_norm);
    of_norm(layer.gate_up, c.mlp, s.intermediate, true);
    to_norm(c.mlp, layer.down, s.intermediate,
            i + 1 < c.layers.size() ? c.layers[i + 1].norm : c.norm);
  }
  of_norm(c.head, c.logits, s.vocab, false);
}

void enqueue_best(Ops<Bf16>& ops, const Chain& c, std::int64_t n, bool with_probabilities) {
  ops.top_logits({.rows = n,
                  .vocab = c.shape.vocab,
                  .k = 1,
                  .logits = c.logits.data(),
                  .index = c.index.data(),
                  .log_probability = with_probabilities ? c.log_probability.data() : nullptr});
}

}  // namespace

TEST_CASE("CUDA linear streams the weights of nsa-1b near the memory's rate", "[.][bench]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const double rate = testing::stream_read_rate();
  const OpsBuffer<Bf16> pool = random_buffer(*ops, std::int64_t{128256} * 2048 * 2);
  std::printf("linear bf16\n%-10s %6s %7s %5s %9s %7s %7s\n", "matrix", "K", "M", "N", "us", "TB/s",
              "bound");
  for (const Matrix& matrix : {Matrix{"q|k|v|gate", 2048, 3168, false},
                               {"output", 2048, 2048, false},
                               {"gate|up", 2048, 8192, true},
                               {"down", 8192, 2048, false},
                               {"head", 2048, 128256, false},
                               {"key", 2048, 512, false}}) {
    for (const std::int64_t n : {1, 4, 16, 64, 128}) {
      const double us = call_us(*ops, matrix, n, pool);
      const double bytes = static_cast<double>(matrix.k * matrix.m * (matrix.swiglu ? 2 : 1)) * 2.0;
      std::printf("%-10s %6lld %7lld %5lld %9.2f %7.2f %6.0f%%\n", matrix.name,
                  static_cast<long long>(matrix.k), static_cast<long long>(matrix.m),
                  static_cast<long long>(n), us, bytes / us * 1e-6, 100.0 * bytes / rate / us);
      if (n == 1 && bytes > 6e7) {
        CHECK(bytes / us > 0.7 * rate);
      }
    }
  }
}

TEST_CASE("a step of nsa-1b outside attention takes little longer than its weights' read",
          "[.][bench]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const Chain chain = make_chain(*ops, 128);
  const double bound = chain.weight_bytes() / testing::stream_read_rate();
  std::printf("16 layers + head, without attention; the weights' bound is %.0f us\n", bound);
  std::printf("%5s %9s %7s %12s %12s\n", "N", "us", "bound", "top 1, us", "with log p");
  for (const std::int64_t n : {1, 16, 64, 128}) {
    const double us = graph_us(*ops, [&] { enqueue_chain(*ops, chain, n); });
    const double best = graph_us(*ops, [&] { enqueue_best(*ops, chain, n, false); });
    const double law = graph_us(*ops, [&] { enqueue_best(*ops, chain, n, true); });
    std::printf("%5lld %9.1f %6.1f%% %12.2f %12.2f\n", static_cast<long long>(n), us,
                100.0 * bound / us, best, law);
    CHECK(us < (n <= 16 ? 1.8 : n <= 64 ? 2.2 : 3.2) * bound);
  }
}

}  // namespace versieve::kernels
