// ReSA in the engine on the GPU: recorded steps write the text of led ones, and rectification
// brings the cache back to the dense run's.
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/run/speculate/rectify.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

LlmShape dense_shape() {
  LlmShape shape = tiny::shape(AttentionKind::kDense);
  shape.head_dim = 64;  // what the split attention takes
  return shape;
}

template <class T>
std::vector<double> newest_keys(kernels::Ops<T>& ops, Target<T>& target, std::int64_t layer,
                                std::int64_t first) {
  const std::int64_t width = target.shape().kv_width();
  std::vector<T> rows(static_cast<std::size_t>((target.length() - first) * width));
  ops.download(rows.data(), target.cache().k(layer) + first * width, rows.size() * sizeof(T));
  return test::widen_all(rows);
}

}  // namespace

TEMPLATE_TEST_CASE("generation with ReSA on the GPU: recorded and led steps agree", "", float,
                   Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<TestType> engine(std::move(ops), dense_shape());
  engine.generator.prefill(tiny::prompt(600));
  for (const char* strategy : {"resa:b4p0.05f5/ar", "resa:b16p0.1f32/ar", "dense/ar"}) {
    CAPTURE(strategy);
    GenerateOptions options = tiny::options(strategy, 70);
    const Generation led = engine.generator.run(options);
    options.records_steps = true;
    const Generation recorded = engine.generator.run(options);
    CHECK(recorded.recorded);
    CHECK(recorded.tokens == led.tokens);
    CHECK(recorded.rectifications == led.rectifications);
  }
}

TEMPLATE_TEST_CASE("a text that the target drafts for itself on the GPU is the dense text",
                   "[self]", float, Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<TestType> engine(std::move(ops), dense_shape());
  for (const std::uint64_t seed : {5, 6, 7}) {
    engine.generator.prefill(tiny::prompt(600, seed));
    for (const double temperature : {0.0, 0.8}) {
      GenerateOptions options = tiny::options("dense/ar", 70);
      options.temperature = temperature;
      options.seed = seed;
      const std::vector<std::int32_t> dense = engine.generator.run(options).tokens;
      for (const char* strategy : {"dense/d5k1n6/bfs/c1/F*/draft=resa:b4p0.05n_min2",
                                   "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p1",
                                   "dense/d32k1n33/bfs/c1/F*/draft=resa:b16p0.1n_min3n_local2"}) {
        CAPTURE(seed, temperature, strategy);
        options.strategy = Strategy::parse(strategy);
        options.records_steps = false;
        const Generation led = engine.generator.run(options);
        options.records_steps = true;
        const Generation recorded = engine.generator.run(options);
        CHECK(led.tokens == dense);
        CHECK(recorded.tokens == dense);
        CHECK(recorded.accepted_histogram == led.accepted_histogram);
        CHECK(recorded.record_seconds >= 0.0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("rectification on the GPU brings the cache back to dense decoding", "", float,
                   Bf16) {
  constexpr std::int64_t kPrompt = 400;
  constexpr std::int64_t kEvery = 24;
  std::vector<std::vector<double>> keys;
  double before = 0.0;
  for (const bool sparse : {false, true}) {
    std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
    if (ops == nullptr) {
      return;
    }
    tiny::Engine<TestType> engine(std::move(ops), dense_shape());
    Target<TestType>& target = engine.target;
    engine.generator.prefill(tiny::prompt(kPrompt));
    target.cache().reserve(kPrompt + kEvery);
    const kernels::ResaSelection selection{
        .key_block = 4, .active_ratio = 0.05, .n_min = 2, .n_local = 1};
    VerifyOptions options{.splits_chain = true};
    if (sparse) {
      target.keep_block_keys(4);
      options.resa = selection;
    }
    Rectifier<TestType> rectifier(target, kEvery);
    const std::int32_t root = 0;
    for (const std::int32_t token : tiny::prompt(kEvery, 9)) {
      target.verify(chain_tree({token}), options);
      target.commit({&root, 1});
      if (sparse && rectifier.steps_left() == 1) {
        before = test::relative_error(newest_keys(*engine.ops, target, 2, kPrompt), keys[0]);
      }
      if (sparse) {
        rectifier.committed(token);
      }
    }
    keys.push_back(newest_keys(*engine.ops, target, 2, kPrompt));
  }
  const double after = test::relative_error(keys[1], keys[0]);
  std::printf("keys of the last layer against dense decoding: before %.3g, after %.3g\n", before,
              after);
  CHECK(before > 1e-4);
  CHECK(after <= test::kTolerance<TestType>);
}

}  // namespace versieve::engine
