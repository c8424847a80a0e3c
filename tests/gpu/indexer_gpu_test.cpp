// A token-level indexer on the GPU: keys and queries bit for bit as on the CPU, scores behind a
// length in device memory, recorded steps against led ones, and the CPU engine's text in f32.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/run/speculate/step.h"
#include "kernels/cpu.h"
#include "kernels/index_scores/cpu.h"
#include "tests/engine/run/recorded_steps.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

LlmShape dense_shape(std::int64_t heads = 4, std::int64_t kv_heads = 2) {
  LlmShape shape = tiny::shape(AttentionKind::kDense);
  shape.num_heads = heads;
  shape.num_kv_heads = kv_heads;
  shape.head_dim = 64;  // what the split attention takes
  return shape;
}

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(test::narrow<T>(normal(random)));
  }
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA index_keys and index_query copy what the CPU copies", "[race]", float,
                   Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  constexpr std::int64_t kHeads = 9, kKvHeads = 3, kDim = 64, kLayers = 2, kRows = 70;
  constexpr std::int64_t kChosen = 300, kNewest = 17;
  const IndexShape index = index_shape(kHeads, kKvHeads, kDim);
  const std::vector<TestType> k = random_values<TestType>(kLayers * kRows * kKvHeads * kDim, 1);
  const std::vector<TestType> q = random_values<TestType>(kHeads * kDim, 2);
  const std::vector<double> wide_k = test::widen_all(k), wide_q = test::widen_all(q);
  const kernels::OpsBuffer<TestType> on_k(*ops, k), on_q(*ops, q);
  for (const bool counted : {false, true}) {
    CAPTURE(counted);
    const kernels::StepCounts counts{.context_len = 66};
    kernels::OpsBuffer<TestType, kernels::StepCounts> on_counts(
        *ops, std::vector<kernels::StepCounts>{counts});
    const std::int64_t first = counted ? 0 : 3, length = counted ? 5 : 66;
    std::vector<double> want(static_cast<std::size_t>(kLayers * kRows * index.dim), 7.0);
    kernels::index_keys_cpu<double>({.counts = counted ? &counts : nullptr,
                                     .layers = kLayers,
                                     .num_kv_heads = kKvHeads,
                                     .head_dim = kDim,
                                     .index = index,
                                     .first_token = first,
                                     .length = length,
                                     .k_layer_rows = kRows,
                                     .key_layer_rows = kRows,
                                     .k = wide_k.data(),
                                     .keys = want.data()},
                                    1);
    kernels::OpsBuffer<TestType> keys(
        *ops, std::vector<TestType>(want.size(), test::narrow<TestType>(7.0F)));
    ops->index_keys({.counts = counted ? on_counts.data() : nullptr,
                     .layers = kLayers,
                     .num_kv_heads = kKvHeads,
                     .head_dim = kDim,
                     .index = index,
                     .first_token = first,
                     .length = length,
                     .k_layer_rows = kRows,
                     .key_layer_rows = kRows,
                     .k = on_k.data(),
                     .keys = keys.data()});
    CHECK(test::widen_all(keys.read()) == want);

    std::vector<double> query(static_cast<std::size_t>(index.heads * index.dim), 7.0);
    std::vector<std::int32_t> list(kChosen + kNewest, -5), hint(kChosen, -6);
    for (std::size_t i = 0; i < static_cast<std::size_t>(kChosen); ++i) {
      list[i] = static_cast<std::int32_t>(3 * i);
    }
    kernels::OpsBuffer<TestType, std::int32_t> on_list(*ops, list), on_hint(*ops, hint);
    kernels::OpsBuffer<TestType, std::int32_t> on_count(*ops, std::vector<std::int32_t>{-1});
    kernels::OpsBuffer<TestType> on_query = test::poisoned<TestType>(*ops, index.heads * index.dim);
    std::int32_t count = 0;
    kernels::index_query_cpu<double>({.counts = counted ? &counts : nullptr,
                                      .context_len = 700,
                                      .num_heads = kHeads,
                                      .num_kv_heads = kKvHeads,
                                      .head_dim = kDim,
                                      .index = index,
                                      .chosen = kChosen,
                                      .newest = kNewest,
                                      .q = wide_q.data(),
                                      .index_q = query.data(),
                                      .list = list.data(),
                                      .hint = hint.data(),
                                      .count = &count});
    ops->index_query({.counts = counted ? on_counts.data() : nullptr,
                      .context_len = 700,
                      .num_heads = kHeads,
                      .num_kv_heads = kKvHeads,
                      .head_dim = kDim,
                      .index = index,
                      .chosen = kChosen,
                      .newest = kNewest,
                      .q = on_q.data(),
                      .index_q = on_query.data(),
                      .list = on_list.data(),
                      .hint = on_hint.data(),
                      .count = on_count.data()});
    CHECK(test::widen_all(on_query.read()) == query);
    CHECK(on_list.read() == list);
    CHECK(on_hint.read() == hint);
    CHECK(on_count.read() == std::vector<std::int32_t>{count});
  }
}

TEMPLATE_TEST_CASE("CUDA index_scores knows a length that lies on the device", "[race]", float,
                   Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  constexpr std::int64_t kLength = 500, kHeads = 8, kDim = 64;
  const std::vector<TestType> q = random_values<TestType>(kHeads * kDim, 1);
  const std::vector<TestType> keys = random_values<TestType>(kLength * kDim, 2);
  const std::vector<float> weights(kHeads, 1.0F);
  const kernels::OpsBuffer<TestType> on_q(*ops, q), on_keys(*ops, keys);
  const kernels::OpsBuffer<TestType, float> on_weights(*ops, weights);
  const std::vector<double> wide_q = test::widen_all(q), wide_keys = test::widen_all(keys);
  for (const std::int32_t context : {3, 10, 260, 500}) {
    CAPTURE(context);
    const kernels::StepCounts counts{.context_len = context};
    const kernels::OpsBuffer<TestType, kernels::StepCounts> on_counts(
        *ops, std::vector<kernels::StepCounts>{counts});
    std::vector<double> want(kLength);
    kernels::index_scores_cpu<double>({.counts = &counts,
                                       .newest = 7,
                                       .rows = 1,
                                       .length = kLength,
                                       .num_heads = kHeads,
                                       .head_dim = kDim,
                                       .q = wide_q.data(),
                                       .weights = weights.data(),
                                       .keys = wide_keys.data(),
                                       .scores = want.data()},
                                      1);
    kernels::OpsBuffer<TestType> scores = test::poisoned<TestType>(*ops, kLength);
    ops->index_scores({.counts = on_counts.data(),
                       .newest = 7,
                       .rows = 1,
                       .length = kLength,
                       .num_heads = kHeads,
                       .head_dim = kDim,
                       .q = on_q.data(),
                       .weights = on_weights.data(),
                       .keys = on_keys.data(),
                       .scores = scores.data()});
    const std::vector<double> got = test::widen_all(scores.read());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool scored = static_cast<std::int32_t>(i) < context - 7;
      REQUIRE(std::isinf(want[i]) == !scored);
      REQUIRE((scored ? std::abs(got[i] - want[i]) < 2.0 : got[i] == -INFINITY));
    }
  }
}

TEMPLATE_TEST_CASE("generation with an indexer on the GPU: recorded and led steps agree", "[text]",
                   float, Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<TestType> engine(std::move(ops), dense_shape());
  for (const std::int64_t prompt : {20, 600}) {
    engine.generator.prefill(tiny::prompt(prompt));
    for (const char* strategy :
         {"indexer:k48w8/ar", "indexer:k64w0/d4k1n5/bfs/c1/F*", "indexer:k100w30/d4k3n14/dfs/c1/F*",
          "indexer:k48w8/ar/bfs/c1/F*/topk=radix", "indexer:k48w8/ar/bfs/c1/F*/topk=sort"}) {
      CAPTURE(prompt, strategy);
      const auto [led, recorded] =
          tiny::led_and_recorded(engine.generator, tiny::options(strategy, 70));
      CHECK(recorded.reads_saved == Approx(led.reads_saved));
    }
    GenerateOptions all = tiny::options("dense/ar", 70);
    const Generation dense = engine.generator.run(all);
    for (const bool records : {false, true}) {
      all = tiny::options("indexer:k2048/ar", 70);
      all.records_steps = records;
      CHECK(engine.generator.run(all).tokens == dense.tokens);
    }
  }
}

TEST_CASE("an indexer's text on the GPU is the CPU engine's", "[text]") {
  std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  if (ops == nullptr) {
    return;
  }
  for (const std::int64_t kv_heads : {1, 3}) {
    const LlmShape shape = dense_shape(3, kv_heads);
    tiny::Engine<float> device(ops != nullptr ? std::move(ops) : test::try_gpu_ops<float>(), shape);
    tiny::Engine<float> host(shape);
    for (tiny::Engine<float>* engine : {&device, &host}) {
      engine->generator.prefill(tiny::prompt(400));
    }
    for (const char* strategy : {"indexer:k48w8/ar", "indexer:k32w0/d4k1n5/bfs/c1/F*",
                                 "indexer:k64w16/d4k3n14/dfs/c1/F*"}) {
      CAPTURE(kv_heads, strategy);
      const GenerateOptions options = tiny::options(strategy, 50);
      CHECK(device.generator.run(options).tokens == host.generator.run(options).tokens);
    }
  }
}

}  // namespace versieve::engine
