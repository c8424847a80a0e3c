// spec_sample and tree_sample on CUDA against the CPU forms, the law of their output, and ops in a
// CUDA graph.
#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/common/cuda_check.h"
#include "kernels/spec_sample/categorical.h"
#include "kernels/spec_sample/cpu.h"
#include "kernels/tree_sample/cpu.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/kernels/chi_square.h"

namespace versieve::kernels {
namespace {

using Ints = std::vector<std::int32_t>;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Outcome {
  Ints accepted, tokens, path;
  std::vector<float> tau;
};

template <class T>
struct Chain {
  std::int64_t samples, gamma, vocab;
  double temperature;
  std::vector<T> target, draft;
  Ints drafted;
  std::vector<float> uniforms;

  Outcome blank() const {
    return {Ints(static_cast<std::size_t>(samples), -9),
            Ints(static_cast<std::size_t>(samples * (gamma + 1)), -9),
            {},
            std::vector<float>(static_cast<std::size_t>(samples * gamma), -9.0F)};
  }
  Outcome on_cpu() const {
    Outcome o = blank();
    spec_sample_cpu(SpecSampleParams<T>{.samples = samples,
                                        .gamma = gamma,
                                        .vocab = vocab,
                                        .temperature = temperature,
                                        .target_logits = target.data(),
                                        .draft_logits = draft.data(),
                                        .draft_tokens = drafted.data(),
                                        .uniforms = uniforms.data(),
                                        .accepted = o.accepted.data(),
                                        .tokens = o.tokens.data(),
                                        .tau = o.tau.data()},
                    2);
    return o;
  }
  Outcome on_gpu(Ops<T>& ops) const {
    const Outcome o = blank();
    const OpsBuffer<T> t(ops, target), d(ops, draft);
    const OpsBuffer<T, std::int32_t> x(ops, drafted), a(ops, o.accepted), tokens(ops, o.tokens);
    const OpsBuffer<T, float> u(ops, uniforms), tau(ops, o.tau);
    ops.spec_sample({.samples = samples,
                     .gamma = gamma,
                     .vocab = vocab,
                     .temperature = temperature,
                     .target_logits = t.data(),
                     .draft_logits = d.data(),
                     .draft_tokens = x.data(),
                     .uniforms = u.data(),
                     .accepted = a.data(),
                     .tokens = tokens.data(),
                     .tau = tau.data()});
    return {a.read(), tokens.read(), {}, tau.read()};
  }
};

template <class T>
Chain<T> random_chain(std::int64_t samples, std::int64_t gamma, std::int64_t vocab,
                      double temperature) {
  Chain<T> c{samples,
             gamma,
             vocab,
             temperature,
             test::random_elements<T>((gamma + 1) * vocab, 1, 2.0),
             test::random_elements<T>(gamma * vocab, 2, 2.0),
             {},
             test::random_uniforms<float>(samples * (gamma + 1), 3)};
  for (std::int64_t i = 0; i < samples * gamma; ++i) {
    const T* row = c.draft.data() + i % gamma * vocab;
    std::int32_t token = static_cast<std::int32_t>(i * 37 % vocab);
    for (std::int32_t x = 0; i % 2 == 0 && x < vocab; ++x) {  // often the draft's favourite
      token = test::widen(row[x]) > test::widen(row[token]) ? x : token;
    }
    c.drafted.push_back(token);
  }
  return c;
}

void check_tau(const std::vector<float>& got, const std::vector<float>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    REQUIRE(std::abs(got[i] - want[i]) <= std::max(1e-5F, 1e-4F * want[i]));
  }
}

// Samples whose tokens differ: only rounding at a boundary may do that.
std::int64_t differing(const Outcome& a, const Outcome& b) {
  std::int64_t count = 0;
  const std::size_t width = a.tokens.size() / a.accepted.size();
  for (std::size_t r = 0; r < a.accepted.size(); ++r) {
    const auto first = static_cast<std::ptrdiff_t>(r * width);
    const auto last = static_cast<std::ptrdiff_t>((r + 1) * width);
    count +=
        std::equal(a.tokens.begin() + first, a.tokens.begin() + last, b.tokens.begin() + first) &&
                a.accepted[r] == b.accepted[r]
            ? 0
            : 1;
  }
  return count;
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA spec_sample decides as the CPU does", "[spec_sample]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [gamma, vocab] :
       {std::pair<std::int64_t, std::int64_t>{0, 5}, {1, 2}, {3, 100}, {5, 4097}, {4, 40000}}) {
    for (const double temperature : {1.0, 0.6, 0.01, 0.0}) {
      const auto chain = random_chain<TestType>(200, gamma, vocab, temperature);
      const Outcome cpu = chain.on_cpu(), gpu = chain.on_gpu(*ops);
      INFO("gamma " << gamma << " V " << vocab << " T " << temperature);
      check_tau(gpu.tau, cpu.tau);
      CHECK(differing(cpu, gpu) <= 2);
    }
  }
}

TEST_CASE("CUDA spec_sample keeps the rules at zero probabilities", "[spec_sample]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  // Position 0: q = 0, p > 0; position 1: p = 0 at r = 0, then p = q leaves no residual.
  const Chain<float> c{1,
                       2,
                       3,
                       1.0,
                       {0, 0, 0, 0, 0, kNever, 0, 0, 0},
                       {0, 0, kNever, 0, 0, kNever},
                       {2, 2},
                       {0.999F, 0.0F, 0.4F}};
  const Outcome o = c.on_gpu(*ops);
  CHECK(o.tau == std::vector<float>{1.0F, 0.0F});
  CHECK(o.accepted == Ints{1});
  CHECK(o.tokens == Ints{2, 0, -1});
}

TEST_CASE("CUDA spec_sample's output follows the target's law and a wrong law does not fit it",
          "[spec_sample]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const std::int64_t samples = 200000, vocab = 24;
  Chain<float> c{samples,
                 1,
                 vocab,
                 1.0,
                 test::random_tensor<float>(2 * vocab, 4, 1.5),
                 test::random_tensor<float>(vocab, 5, 1.5),
                 {},
                 test::random_uniforms<float>(samples * 2, 6)};
  const std::vector<double> q = softmax_row(c.draft.data(), vocab, 1.0);
  for (const float u : test::random_uniforms<float>(samples, 7)) {
    c.drafted.push_back(draw(q, static_cast<double>(u)));
  }
  const Outcome o = c.on_gpu(*ops);
  std::vector<std::int64_t> counts(24);
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    ++counts[static_cast<std::size_t>(o.tokens[2 * i])];
  }
  CHECK(test::chi_square_deviate(counts, softmax_row(c.target.data(), vocab, 1.0)) < 4.0);
  CHECK(test::chi_square_deviate(counts, softmax_row(c.target.data(), vocab, 1.1)) > 20.0);
}

TEMPLATE_TEST_CASE("CUDA tree_sample decides as the CPU does", "[tree_sample]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [nodes, vocab] :
       {std::pair<std::int64_t, std::int64_t>{1, 3}, {7, 6}, {33, 50}, {64, 4097}, {20, 20000}}) {
    for (const double temperature : {1.0, 0.5, 0.01, 0.0}) {
      const std::int64_t samples = 100;
      const auto logits = test::random_elements<TestType>(nodes * vocab, 8, 3.0);
      Ints parent = {-1}, token;
      for (std::int32_t i = 1; i < nodes; ++i) {
        parent.push_back((i - 1) / 3);
      }
      for (std::int64_t r = 0; r < samples; ++r) {
        for (std::size_t i = 0; i < parent.size(); ++i) {
          // Near the top of the parent's row, with repeats.
          const TestType* row = logits.data() + (i == 0 ? 0 : parent[i]) * vocab;
          std::int32_t best = static_cast<std::int32_t>((r * 13) % vocab);
          for (std::int32_t x = static_cast<std::int32_t>(i % 3); x < vocab; x += 3) {
            best = test::widen(row[x]) > test::widen(row[best]) ? x : best;
          }
          token.push_back(best);
        }
      }
      const auto uniforms = test::random_uniforms<float>(samples * nodes, 9);
      Outcome cpu{Ints(100), Ints(token.size()), Ints(token.size()),
                  std::vector<float>(token.size())};
      tree_sample_cpu(TreeSampleParams<TestType>{.samples = samples,
                                                 .num_nodes = nodes,
                                                 .vocab = vocab,
                                                 .temperature = temperature,
                                                 .target_logits = logits.data(),
                                                 .parent = parent.data(),
                                                 .token = token.data(),
                                                 .uniforms = uniforms.data(),
                                                 .accepted = cpu.accepted.data(),
                                                 .tokens = cpu.tokens.data(),
                                                 .path = cpu.path.data(),
                                                 .tau = cpu.tau.data()},
                      2);
      const OpsBuffer<TestType> device_logits(*ops, logits);
      const OpsBuffer<TestType, std::int32_t> device_parent(*ops, parent),
          device_token(*ops, token);
      const OpsBuffer<TestType, float> device_uniforms(*ops, uniforms);
      const Ints poison(token.size(), -9);
      OpsBuffer<TestType, std::int32_t> accepted(*ops, Ints(100, -9)), tokens(*ops, poison),
          path(*ops, poison);
      OpsBuffer<TestType, float> tau(*ops, std::vector<float>(token.size(), -9.0F));
      ops->tree_sample({.samples = samples,
                        .num_nodes = nodes,
                        .vocab = vocab,
                        .temperature = temperature,
                        .target_logits = device_logits.data(),
                        .parent = device_parent.data(),
                        .token = device_token.data(),
                        .uniforms = device_uniforms.data(),
                        .accepted = accepted.data(),
                        .tokens = tokens.data(),
                        .path = path.data(),
                        .tau = tau.data()});
      const Outcome gpu{accepted.read(), tokens.read(), path.read(), tau.read()};
      INFO("N " << nodes << " V " << vocab << " T " << temperature);
      check_tau(gpu.tau, cpu.tau);
      CHECK(differing(cpu, gpu) <= 2);
      std::int64_t paths = 0;
      for (std::size_t i = 0; i < gpu.path.size(); ++i) {
        paths += gpu.path[i] == cpu.path[i] ? 0 : 1;
      }
      CHECK(paths <= 2 * 4);
    }
  }
}

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
