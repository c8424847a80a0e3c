// ReSA at the 1B geometry with dense attention, bf16, batch 1: one layer's launches, whole decoding
// steps against dense split decoding, and bytes against the memory model. Random weights and
// caches; sixteen layers' caches are walked over, so L2 is cold at every length that is timed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>

#include "engine/measure/sweep/observe.h"
#include "engine/run/model/synthetic.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/rectify.h"
#include "profiler/counter_access.h"
#include "profiler/gpu_timer.h"
#include "profiler/metric_group.h"
#include "profiler/range_counters.h"
#include "tests/gpu/device.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kLongest = 262144;
constexpr std::int64_t kEvery = 32;
constexpr std::int64_t kMostEvery = 128;
const kernels::ResaSelection kSelection;  // the defaults: b 16, p 0.1, n_min 16, n_local 1

// What a step is timed with: Rectified Sparse Attention's default, and sparser settings of its
// ablation's range.
struct Setting {
  kernels::ResaSelection selection;
  std::int64_t every = kEvery;
};
const Setting kSettings[] = {{kSelection, kEvery},
                             {{.key_block = 32, .active_ratio = 0.05}, 64},
                             {{.key_block = 64, .active_ratio = 0.02}, 128}};

double microseconds_of(const std::function<void()>& work) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  work();
  return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

LlmShape dense_1b() {
  LlmShape shape = named_llm_shape("nsa-1b");
  shape.attention = AttentionKind::kDense;
  shape.max_position = 1 << 20;
  return shape;
}

// A target of that geometry whose cache is filled once, to be looked at up to any length.
struct Bench {
  profiler::GpuStream stream;
  std::unique_ptr<kernels::Ops<Bf16>> ops = kernels::make_cuda_ops<Bf16>(stream.handle());
  LlmShape shape = dense_1b();
  Target<Bf16> target = make_synthetic_target(*ops, shape, draft_shape_for(shape), 1);
  kernels::OpsBuffer<Bf16> q{*ops, test::random_elements<Bf16>(kMostEvery * 2048, 5)};
  kernels::OpsBuffer<Bf16> tree{*ops, test::random_elements<Bf16>(kMostEvery * 512, 6)};
  kernels::OpsBuffer<Bf16> out{*ops, kMostEvery * 2048};
  kernels::OpsBuffer<Bf16, std::int32_t> indices{*ops, 8 * 16384};

  Bench() {
    target.cache().reserve(kLongest + 512);
    fill_context(*ops, target, kLongest, 7);
  }
  void set_length(std::int64_t length, std::int64_t key_block = kSelection.key_block) {
    target.cache().set_length(length);
    target.keep_block_keys(key_block);
  }
  // `pass`: as rectification asks for it, else as a step that keeps its bits.
  kernels::TreeAttentionParams<Bf16> dense(std::int64_t layer, std::int64_t queries,
                                           bool pass = false) {
    return {.num_heads = 32,
            .num_kv_heads = 8,
            .head_dim = 64,
            .context_len = target.length() - queries + 1,
            .num_queries = queries,
            .num_nodes = queries,
            .q = q.data(),
            .k = target.cache().k(layer),
            .v = target.cache().v(layer),
            .k_tree = tree.data(),
            .v_tree = tree.data(),
            .out = out.data(),
            .splits_chain = true,
            .dense_pass = pass};
  }
  kernels::ResaDecodeParams<Bf16> sparse(std::int64_t layer) {
    return {.selection = kSelection,
            .num_heads = 32,
            .num_kv_heads = 8,
            .head_dim = 64,
            .context_len = target.length(),
            .q = q.data(),
            .k = target.cache().k(layer),
            .v = target.cache().v(layer),
            .k_new = tree.data(),
            .v_new = tree.data(),
            .kmin = target.block_keys().kmin(layer),
            .kmax = target.block_keys().kmax(layer),
            .out = out.data(),
            .indices = indices.data()};
  }
  // us a layer, of a graph over all layers.
  double layer_us(const std::function<void(std::int64_t)>& call) {
    call(0);
    const std::unique_ptr<kernels::Recording> graph = ops->record([&] {
      for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        call(layer);
      }
    });
    graph->launch();
    ops->synchronize();
    std::vector<double> samples;
    for (int i = 0; i < 9; ++i) {
      samples.push_back(microseconds_of([&] {
        graph->launch();
        graph->launch();
        graph->launch();
        ops->synchronize();
      }));
    }
    std::sort(samples.begin(), samples.end());
    return samples[4] / 3.0 / static_cast<double>(shape.layers);
  }
};

bool missing() {
  const std::string reason = profiler::gpu_missing_because();
  if (!reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
  }
  return !reason.empty();
}

struct StepTimes {
  double sparse = 0.0, rectify = 0.0;  // us: a step, a pass
  std::int64_t every = kEvery;
  double resa() const { return sparse + rectify / static_cast<double>(every); }
};

// Dense over ReSA, a step, with room to what was measured (kernels/resa_decode/MEASURED.md).
double least_ratio(std::int64_t length) {
  return length < 65536 ? 0.93 : length < kLongest ? 1.07 : 1.5;
}

double step_us(Bench& bench, std::int64_t context, const VerifyOptions& verify) {
  DeviceStepRunner<Bf16> steps(*bench.ops, bench.target, nullptr, {.verify = verify});
  steps.begin({.context_len = context, .token = 1, .max_context = context + 128});
  for (int i = 0; i < 4; ++i) {
    steps.launch();
    steps.wait();
  }
  constexpr int kSteps = 40;
  steps.launch();
  const double all = microseconds_of([&] {
    for (int i = 0; i < kSteps; ++i) {
      steps.launch();
      steps.wait();
    }
  });
  steps.wait();
  return all / kSteps;
}

double dense_step_us(Bench& bench, std::int64_t context) {
  bench.target.drop_block_keys();
  bench.target.cache().set_length(context);
  return step_us(bench, context, {.splits_chain = true});
}

StepTimes resa_step_times(Bench& bench, std::int64_t context, const Setting& setting) {
  StepTimes times{.every = setting.every};
  bench.set_length(context, setting.selection.key_block);
  times.sparse = step_us(bench, context, {.splits_chain = true, .resa = setting.selection});
  bench.set_length(context, setting.selection.key_block);
  Rectifier<Bf16> rectifier(bench.target, setting.every);
  rectifier.reserve();
  bench.ops->synchronize();
  std::vector<double> samples;
  for (int pass = 0; pass < 5; ++pass) {
    for (std::int64_t i = 1; i < setting.every; ++i) {
      rectifier.committed(static_cast<std::int32_t>(i));
    }
    samples.push_back(microseconds_of([&] {
      rectifier.committed(0);
      bench.ops->synchronize();
    }));
  }
  std::sort(samples.begin(), samples.end());
  times.rectify = samples[2];
  return times;
}

}  // namespace

TEST_CASE("ReSA's layers and steps against dense split decoding", "[timing]") {
  if (missing()) {
    return;
  }
  Bench bench;
  std::printf("us a layer (graph of 16): L, dense, ReSA, rectify of 32, its share; KV floor\n");
  for (const std::int64_t length : {std::int64_t{16384}, std::int64_t{65536}, kLongest}) {
    bench.set_length(length);
    const double dense =
        bench.layer_us([&](std::int64_t l) { bench.ops->tree_attention(bench.dense(l, 1)); });
    const double sparse =
        bench.layer_us([&](std::int64_t l) { bench.ops->resa_decode(bench.sparse(l)); });
    const double rectify = bench.layer_us(
        [&](std::int64_t l) { bench.ops->tree_attention(bench.dense(l, kEvery, true)); });
    std::printf("%7lld %8.2f %8.2f %8.2f %6.3f %8.2f   attention ratio %.2f\n",
                static_cast<long long>(length), dense, sparse, rectify,
                rectify / kEvery / (sparse + rectify / kEvery),
                static_cast<double>(length) * 2048 / testing::stream_read_rate(),
                dense / (sparse + rectify / kEvery));
  }
  std::printf("us a layer: L, f, flash_decode, dense_pass, TFLOP/s\n");
  for (const std::int64_t length : {std::int64_t{16384}, std::int64_t{65536}, kLongest}) {
    bench.set_length(length);
    for (const std::int64_t every : {std::int64_t{32}, std::int64_t{64}, kMostEvery}) {
      double us[2];
      for (const bool pass : {false, true}) {
        us[pass] = bench.layer_us(
            [&](std::int64_t l) { bench.ops->tree_attention(bench.dense(l, every, pass)); });
      }
      std::printf("%7lld %4lld %8.2f %8.2f %6.0f\n", static_cast<long long>(length),
                  static_cast<long long>(every), us[0], us[1],
                  4e-6 * 32.0 * 64.0 * static_cast<double>(every * length) / us[1]);
      CHECK(us[1] < us[0]);
    }
  }
  std::printf("us a step: L, b, p, f, dense, sparse, rectification pass, ReSA, end to end ratio\n");
  for (const std::int64_t length : {std::int64_t{16384}, std::int64_t{65536}, kLongest}) {
    const double dense = dense_step_us(bench, length - 192);
    for (const Setting& setting : kSettings) {
      const StepTimes t = resa_step_times(bench, length - 192, setting);
      std::printf("%7lld %3lld %.2f %4lld %8.1f %8.1f %8.1f %8.1f %6.3f\n",
                  static_cast<long long>(length),
                  static_cast<long long>(setting.selection.key_block),
                  setting.selection.active_ratio, static_cast<long long>(setting.every), dense,
                  t.sparse, t.rectify, t.resa(), dense / t.resa());
      CHECK(dense / t.resa() > least_ratio(length));
    }
  }
}

TEST_CASE("the bytes that ReSA reads are KV (1/b + p + 1/f)", "[bytes]") {
  if (missing()) {
    return;
  }
  const profiler::CounterAccess access = profiler::probe_counter_access();
  if (!access.ok()) {
    std::printf("skipped: %s\n", access.sentence.c_str());
    return;
  }
  Bench bench;
  std::printf("MB read from DRAM a layer: L, launch, predicted, counted, ratio\n");
  for (const std::int64_t length : {std::int64_t{65536}, kLongest}) {
    bench.set_length(length);
    bench.ops->resa_decode(bench.sparse(0));
    bench.ops->tree_attention(bench.dense(0, kEvery, true));
    std::map<std::string, double> counted;
    profiler::RangeCounters counters({kDramBytesRead}, 64);
    CounterObserver observer(counters, [&] { bench.ops->synchronize(); });
    LaunchLog log;
    for (std::int64_t layer = 1; layer < 5; ++layer) {  // layers that are not in L2
      bench.ops->set_observer(&observer);
      counters.begin();
      bench.ops->resa_decode(bench.sparse(layer));
      bench.ops->tree_attention(bench.dense(layer, kEvery, true));
      bench.ops->set_observer(nullptr);
      observer.rethrow();
      for (const profiler::RangeSample& range : counters.end()) {
        REQUIRE(range.counters[0].value);
        counted[range.path] += *range.counters[0].value / 4.0;
      }
    }
    bench.ops->set_observer(&log);
    bench.ops->resa_decode(bench.sparse(0));
    bench.ops->tree_attention(bench.dense(0, kEvery, true));
    bench.ops->set_observer(nullptr);
    for (const LaunchLog::Launch& launch : log.launches()) {
      std::printf("%7lld %-14s %8.3f %8.3f %6.3f\n", static_cast<long long>(length),
                  launch.path.c_str(), 1e-6 * launch.predicted.total_read(),
                  1e-6 * counted[launch.path],
                  counted[launch.path] / launch.predicted.total_read());
    }
    const double sparse = counted["resa_decode"];
    const double dense = counted["dense_pass"] + counted["dense_pass_merge"];
    const double step = sparse + dense / kEvery;
    const double kv = static_cast<double>(length) * 2048.0;
    const double model = kv * (1.0 / 16.0 + 0.1 + 1.0 / kEvery);
    std::printf("%7lld a step: %.3f MB, model %.3f MB, ratio %.4f\n",
                static_cast<long long>(length), 1e-6 * step, 1e-6 * model, step / model);
    CHECK(step == Approx(model).epsilon(0.05));
  }
}

}  // namespace versieve::engine
