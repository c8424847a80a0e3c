// Speed of the samplers against the baseline's launches and against reading the logits. Run on
// request: test_gpu_samplers "[bench]"; "[wide]": large vocabularies and batches against a launch
// that reads the same logits. `graph`: per call, from a graph that walks over more logits than
// three times the second-level cache; `eager`: one call at a time with events around it. The rows
// of both models are independent, so nearly every position rejects and draws: the slow case.
#include <cuda_runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>

#include "kernels/common/cuda_check.h"
#include "tests/gpu/empty_launch.h"
#include "tests/gpu/sampler_run.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kPoolBytes = 768 << 20;
constexpr int kRepetitions = 11;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double between_us(cudaStream_t stream, const std::function<void()>& work) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (begin == nullptr) {
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
  }
  float ms = 0.0F;
  check(cudaEventRecord(begin, stream));
  work();
  check(cudaEventRecord(end, stream));
  check(cudaEventSynchronize(end));
  check(cudaEventElapsedTime(&ms, begin, end));
  return 1e3 * static_cast<double>(ms);
}

// Median over replays of a graph of `calls` calls, a call.
double graph_us(cudaStream_t stream, std::int64_t calls,
                const std::function<void(std::int64_t)>& call) {
  call(0);  // scratch and modules are there before the capture
  check(cudaStreamSynchronize(stream));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (std::int64_t i = 0; i < calls; ++i) {
    call(i);
  }
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  std::vector<double> us;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    us.push_back(between_us(stream, [&] { check(cudaGraphLaunch(executable, stream)); }));
  }
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
  return median(us) / static_cast<double>(calls);
}

double eager_us(cudaStream_t stream, std::int64_t calls,
                const std::function<void(std::int64_t)>& call) {
  std::vector<double> us;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(calls, 40); ++i) {
    us.push_back(between_us(stream, [&] { call(i); }));
    check(cudaStreamSynchronize(stream));
  }
  return median(us);
}

template <class T>
struct Bench {
  using Engine = test::EngineOf<T>;
  std::unique_ptr<Ops<Engine>> ops = test::try_gpu_ops<Engine>();
  OpsBuffer<Engine, T> pool;
  OpsBuffer<Engine, std::int32_t> ints;
  OpsBuffer<Engine, float> uniforms, tau;
  std::int64_t batch = 1;
  Truncation truncation = {};

  bool ready() {
    if (!ops) {
      return false;
    }
    constexpr std::int64_t kBlock = 1 << 21;
    const std::vector<T> block = test::random_elements<T>(kBlock + 64, 90, 2.0);
    pool = OpsBuffer<Engine, T>(*ops, kPoolBytes / static_cast<std::int64_t>(sizeof(T)));
    for (std::int64_t at = 0; at + kBlock <= pool.count(); at += kBlock) {
      ops->upload(pool.data() + at, block.data() + at / kBlock % 64,
                  static_cast<std::size_t>(kBlock) * sizeof(T));
    }
    std::vector<std::int32_t> numbers;
    for (std::int32_t i = 0; i < 1 << 14; ++i) {
      numbers.push_back(i * 37 % 200);
    }
    ints = OpsBuffer<Engine, std::int32_t>(*ops, numbers);
    uniforms = OpsBuffer<Engine, float>(*ops, test::random_uniforms<float>(1 << 12, 91));
    tau = OpsBuffer<Engine, float>(*ops, 1 << 12);
    return true;
  }
  cudaStream_t stream() { return static_cast<cudaStream_t>(stream_of(*ops)); }

  void chain(SpecSampleVariant variant, std::int64_t samples, std::int64_t gamma,
             std::int64_t vocab, std::int64_t set) {
    SpecSampleParams<T> p;
    p.variant = variant;
    p.samples = samples;
    p.gamma = gamma;
    p.vocab = vocab;
    p.batch = batch;
    p.truncation = truncation;
    p.target_logits = pool.data() + set * batch * (2 * gamma + 1) * vocab;
    p.draft_logits = p.target_logits + batch * (gamma + 1) * vocab;
    p.draft_tokens = ints.data();
    p.uniforms = uniforms.data();
    p.accepted = ints.data() + 4096;
    p.tokens = ints.data() + 6144;
    p.tau = tau.data();
    test::run_sampler(*ops, p);
  }
  void tree(TreeSampleVariant variant, const std::int32_t* parent, std::int64_t nodes,
            std::int64_t vocab, std::int64_t set) {
    TreeSampleParams<T> p;
    p.variant = variant;
    p.num_nodes = nodes;
    p.vocab = vocab;
    p.target_logits = pool.data() + set * nodes * vocab;
    p.parent = parent;
    p.token = ints.data();
    p.uniforms = uniforms.data();
    p.accepted = ints.data() + 4096;
    p.tokens = ints.data() + 6144;
    p.path = ints.data() + 8192;
    p.tau = tau.data();
    test::run_sampler(*ops, p);
  }
};

// The least that a call of one launch can take by these timers.
void time_nothing(cudaStream_t stream) {
  for (const unsigned cluster : {1U, 16U}) {
    for (const unsigned blocks : {32U, 272U}) {
      const auto call = [&](std::int64_t) { test::launch_empty(blocks, cluster, stream); };
      std::printf(
          "an empty launch, %3u blocks in clusters of %2u: %8.2f %8.1f us, graph and eager\n",
          blocks, cluster, graph_us(stream, 64, call), eager_us(stream, 40, call));
    }
  }
}

template <class T>
void time_chains(const char* dtype) {
  Bench<T> bench;
  if (!bench.ready()) {
    return;
  }
  time_nothing(bench.stream());
  std::printf("%-5s %7s %5s %3s | %8s | %17s | %17s | %17s   us, graph and eager\n", "dtype", "V",
              "gamma", "R", "MB read", "baseline", "exact", "sigmoid");
  for (const std::int64_t vocab : {128256, 128255, 32000}) {
    for (const std::int64_t gamma : {1, 4, 8, 16}) {
      for (const std::int64_t samples : {1, 8}) {
        if ((samples == 8 || vocab == 128255) && gamma != 4 && gamma != 16) {
          continue;
        }
        const std::int64_t elements = (2 * gamma + 1) * vocab;
        const std::int64_t sets = bench.pool.count() / elements;
        const auto times = [&](SpecSampleVariant variant) {
          const auto call = [&](std::int64_t set) {
            bench.chain(variant, samples, gamma, vocab, set);
          };
          const double busy = graph_us(bench.stream(), std::min<std::int64_t>(sets, 64), call);
          return std::pair(busy, eager_us(bench.stream(), sets, call));
        };
        const auto baseline = times(SpecSampleVariant::kBaseline);
        const auto exact = times(SpecSampleVariant::kExact);
        const auto sigmoid = times(SpecSampleVariant::kSigmoid);
        std::printf("%-5s %7d %5d %3d | %8.2f | %8.2f %8.1f | %8.2f %8.1f | %8.2f %8.1f\n", dtype,
                    static_cast<int>(vocab), static_cast<int>(gamma), static_cast<int>(samples),
                    static_cast<double>(elements) * sizeof(T) / 1e6, baseline.first,
                    baseline.second, exact.first, exact.second, sigmoid.first, sigmoid.second);
      }
    }
  }
}

// Large vocabularies and batches; all sets of the pool in turn, so that none is in a cache.
template <class T>
void time_wide(const char* dtype) {
  Bench<T> bench;
  if (!bench.ready()) {
    return;
  }
  std::printf("%-5s %7s %3s %5s | %8s | %7s %7s %7s %7s %8s   us a call, in graphs\n", "dtype", "V",
              "B", "gamma", "MB read", "read", "exact", "sigmoid", "cut", "baseline");
  for (const std::int64_t vocab : {128256, 151936, 262144}) {
    for (const auto& [batch, gamma] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                       {1, 4},
                                       {1, 8},
                                       {1, 16},
                                       {1, 20},
                                       {4, 4},
                                       {16, 4},
                                       {16, 8},
                                       {16, 20}}) {
      bench.batch = batch;
      const std::int64_t elements = batch * (2 * gamma + 1) * vocab;
      const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
      const std::int64_t sets = bench.pool.count() / elements;
      if (sets == 0) {
        continue;
      }
      const auto time = [&, g = gamma](SpecSampleVariant variant, std::int64_t calls) {
        return graph_us(bench.stream(), std::min(sets, calls),
                        [&](std::int64_t set) { bench.chain(variant, 1, g, vocab, set); });
      };
      const double read =
          graph_us(bench.stream(), std::min<std::int64_t>(sets, 256), [&](std::int64_t set) {
            test::launch_read(bench.pool.data() + set * elements, bytes,
                              reinterpret_cast<unsigned*>(bench.tau.data()), bench.stream());
          });
      const double exact = time(SpecSampleVariant::kExact, 256);
      const double sigmoid = time(SpecSampleVariant::kSigmoid, 256);
      bench.truncation = {.top_k = 50, .top_p = 0.95, .min_p = 0.0};
      const double cut = time(SpecSampleVariant::kExact, 64);
      bench.truncation = {};
      const double baseline = time(SpecSampleVariant::kBaseline, 16);
      std::printf("%-5s %7d %3d %5d | %8.2f | %7.2f %7.2f %7.2f %7.2f %8.1f   exact / read %.2f\n",
                  dtype, static_cast<int>(vocab), static_cast<int>(batch), static_cast<int>(gamma),
                  static_cast<double>(bytes) / 1e6, read, exact, sigmoid, cut, baseline,
                  exact / read);
    }
  }
}

std::vector<std::int32_t> parents_of(std::int64_t nodes, std::int32_t width) {
  std::vector<std::int32_t> parent = {-1};
  for (std::int32_t i = 1; i < nodes; ++i) {
    parent.push_back((i - 1) / width);
  }
  return parent;
}

template <class T>
void time_trees(const char* dtype) {
  Bench<T> bench;
  if (!bench.ready()) {
    return;
  }
  time_nothing(bench.stream());
  std::printf("%-5s %7s %5s %5s %6s | %8s | %17s | %17s   us, graph and eager\n", "dtype", "V", "N",
              "width", "inner", "MB inner", "baseline", "exact");
  for (const std::int64_t vocab : {128256, 32000}) {
    for (const auto& [nodes, width] :
         {std::pair<std::int64_t, std::int32_t>{8, 1}, {16, 4}, {64, 4}, {64, 8}, {128, 4}}) {
      const std::vector<std::int32_t> parent = parents_of(nodes, width);
      const std::int64_t inner = parent.back() + 1;
      const OpsBuffer<test::EngineOf<T>, std::int32_t> parents(*bench.ops, parent);
      const std::int64_t sets = bench.pool.count() / (nodes * vocab);
      const auto times = [&](TreeSampleVariant variant) {
        const auto call = [&](std::int64_t set) {
          bench.tree(variant, parents.data(), nodes, vocab, set);
        };
        const double busy = graph_us(bench.stream(), std::min<std::int64_t>(sets, 64), call);
        return std::pair(busy, eager_us(bench.stream(), sets, call));
      };
      const auto baseline = times(TreeSampleVariant::kBaseline);
      const auto exact = times(TreeSampleVariant::kExact);
      std::printf("%-5s %7d %5d %5d %6d | %8.2f | %8.2f %8.1f | %8.2f %8.1f\n", dtype,
                  static_cast<int>(vocab), static_cast<int>(nodes), width, static_cast<int>(inner),
                  static_cast<double>(inner * vocab) * sizeof(T) / 1e6, baseline.first,
                  baseline.second, exact.first, exact.second);
    }
  }
}

// For a profiler that lists launches with their counters: three cold calls of each cell, in the
// order that is printed.
template <class T>
void launch_cells(const char* dtype) {
  Bench<T> bench;
  if (!bench.ready()) {
    return;
  }
  constexpr std::int64_t kVocab = 128256;
  for (const std::int64_t gamma : {1, 8, 16}) {
    std::printf("chain, %s, gamma %d\n", dtype, static_cast<int>(gamma));
    for (std::int64_t set = 0; set < 3; ++set) {
      bench.chain(SpecSampleVariant::kExact, 1, gamma, kVocab, set);
    }
  }
  for (const auto& [nodes, width] :
       {std::pair<std::int64_t, std::int32_t>{8, 1}, {64, 4}, {64, 8}, {128, 4}}) {
    const OpsBuffer<test::EngineOf<T>, std::int32_t> parents(*bench.ops, parents_of(nodes, width));
    std::printf("tree, %s, N %d of width %d\n", dtype, static_cast<int>(nodes), width);
    for (std::int64_t set = 0; set < 3; ++set) {
      bench.tree(TreeSampleVariant::kExact, parents.data(), nodes, kVocab, set);
    }
  }
}

}  // namespace

TEST_CASE("launches of the samplers for a profiler", "[.][launches]") {
  launch_cells<float>("f32");
  launch_cells<Bf16>("bf16");
}
TEST_CASE("time of large vocabularies and batches", "[.][wide]") {
  time_wide<float>("f32");
  time_wide<Bf16>("bf16");
  time_wide<F16>("f16");
}
TEST_CASE("time of chains, f32", "[.][bench]") {
  time_chains<float>("f32");
}
TEST_CASE("time of chains, bf16", "[.][bench]") {
  time_chains<Bf16>("bf16");
}
TEST_CASE("time of trees, f32", "[.][bench]") {
  time_trees<float>("f32");
}
TEST_CASE("time of trees, bf16", "[.][bench]") {
  time_trees<Bf16>("bf16");
}

}  // namespace versieve::kernels
