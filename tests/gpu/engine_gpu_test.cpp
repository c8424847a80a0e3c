// Is speculation lossless on the GPU: in f32 token for token, in bf16 how often? Does the GPU's
// engine compute what the CPU's does?
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "engine/run/speculate/generate_request.h"
#include "engine/run/speculate/synthetic_session.h"
#include "profiler/environment.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kTokens = 90;

// Runs every prompt length, order and shape on tiny random weights; counts the identical ones.
template <class T>
void count_identical(tiny::Engine<T>& engine, int& identical, int& runs) {
  for (const std::int64_t prompt_len : {1, 8, 61, 300}) {
    for (const char* rest : {"/c1/F*", "/c4e/F*", "/c1/FRR"}) {
      for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
        const tiny::TwoRuns both =
            tiny::scripted_runs(engine, prompt_len, rest, order, false, kTokens);
        identical += first_divergence(both.tree, both.plain) ? 0 : 1;
        ++runs;
      }
    }
  }
}

TEST_CASE("deep accepted paths keep the autoregressive text on the GPU in f32") {
  std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  if (ops == nullptr) {
    return;
  }
  int identical = 0;
  int runs = 0;
  tiny::Engine<float> engine(std::move(ops));
  count_identical(engine, identical, runs);
  CHECK(identical == runs);
}

TEST_CASE("deep accepted paths keep the autoregressive text on the GPU in bf16") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  int identical = 0;
  int runs = 0;
  tiny::Engine<Bf16> engine(std::move(ops));
  count_identical(engine, identical, runs);
  CHECK(identical == runs);  // every op is batch invariant in bf16 too
}

template <class T>
void check_guarded(std::unique_ptr<kernels::Ops<T>> ops) {
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<T> engine(std::move(ops));
  for (const bool records : {false, true}) {
    for (const char* second : {"nsa/d2k2n5/dfs/c4e/F*", "nsa/ar"}) {
      const tiny::GuardedRuns runs = tiny::impatient_runs(
          engine, kTokens, records, {"nsa/d4k3n12/bfs/c1/F*", second, "nsa/d5k1n6/bfs/c2e/F*"});
      CHECK(runs.guarded.moves.size() >= 2);
      CHECK(!first_divergence(runs.guarded, runs.plain));
      std::printf("guarded, %s: %s\n", second, runs.guarded.recorded ? "recorded" : "by the host");
    }
  }
}

TEST_CASE("a guard that changes the tuple keeps the autoregressive text on the GPU") {
  check_guarded(test::try_gpu_ops<float>());
  check_guarded(test::try_gpu_ops<Bf16>());
}

void check_logits(const LlmShape& shape) {
  std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<float> gpu(std::move(ops), shape);
  tiny::Engine<float> cpu(shape);
  std::mt19937_64 random(2);
  const DraftTree tree = tiny::random_tree(40, 12, 3, random);
  const auto logits = [&](tiny::Engine<float>& engine) {
    engine.generator.prefill(tiny::prompt(333));
    engine.target.verify(tree, {});
    std::vector<float> values(static_cast<std::size_t>(tree.size() * engine.target.shape().vocab));
    engine.ops->download(values.data(), engine.target.logits(), values.size() * sizeof(float));
    return values;
  };
  const std::vector<float> a = logits(gpu);
  const std::vector<float> b = logits(cpu);
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  CHECK(std::sqrt(difference / norm) < 1e-4);
}

// SmolLM2-135M as an NSA target: 9 query heads on 3 KV heads, a joint projection of 987 rows.
LlmShape smollm2_shape(std::int64_t layers) {
  return {.name = "smollm2",
          .layers = layers,
          .hidden = 576,
          .intermediate = 1536,
          .vocab = 49152,
          .num_heads = 9,
          .num_kv_heads = 3,
          .head_dim = 64,
          .max_position = 8192,
          .rope_theta = 1e5};
}
DraftShape smollm2_draft(const LlmShape& target) {
  DraftShape draft = draft_shape_for(target);
  draft.vocab = 16384;
  return draft;
}

TEST_CASE("GPU and CPU verify the same tree to the same logits in f32") {
  check_logits(tiny::shape());
  LlmShape windowless = tiny::shape();
  windowless.nsa.window = 0;
  check_logits(windowless);
  LlmShape smollm2 = smollm2_shape(2);
  smollm2.vocab = 4096;
  check_logits(smollm2);
}

template <class T>
void check_smollm2() {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  const LlmShape shape = smollm2_shape(6);
  tiny::Engine<T> engine(std::move(ops), shape, smollm2_draft(shape), 21);
  for (const std::int64_t prompt_len : {61, 2500}) {
    for (const char* rest : {"/c1/F*", "/c8e/F*", "/c4e/(FR)*"}) {
      CAPTURE(prompt_len, rest);
      const tiny::TwoRuns runs =
          tiny::scripted_runs(engine, prompt_len, rest, Traversal::kBfs, false, 40);
      CHECK(!first_divergence(runs.tree, runs.plain));
    }
    engine.generator.prefill(tiny::prompt(prompt_len));
    for (const char* text : {"nsa/ar", "nsa/d6k8n64/bfs/c4e/F*", "nsa/d7k1n8/dfs/c1/(FR)*"}) {
      CAPTURE(prompt_len, text);
      GenerateOptions options = tiny::options(text, 40);
      const Generation host = engine.generator.run(options);
      options.records_steps = true;
      const Generation device = engine.generator.run(options);
      CHECK(device.recorded == (sizeof(T) == 2));
      CHECK(device.tokens == host.tokens);
      options.records_steps = false;
      options.temperature = 0.7;
      CHECK(engine.generator.run(options).tokens.size() == 40);
    }
  }
}

TEST_CASE("SmolLM2's geometry with a draft of 16,384 tokens is lossless on the GPU", "[smollm2]") {
  check_smollm2<float>();
  check_smollm2<Bf16>();
}

// The demo pair on a prompt of each regime.
void run_demo(const std::string& dtype, int& identical, int& runs) {
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  for (const char* prompt : {"chat-1000-3", "plan-1000-3", "prose-4000-5", "code-4000-5"}) {
    const GenerateReport report = run_request(
        {.model = demo / "nsa",
         .prompt = {.text = demo / "prompts/test" / (std::string(prompt) + ".txt")},
         .strategies = {"nsa/d7k1n8/bfs/c1/F*", "nsa/d5k4n32/dfs/c1/F*", "nsa/d6k8n64/bfs/c4e/F*"},
         .compares_ar = true,
         .max_new_tokens = 200,
         .backend = "cuda",
         .dtype = dtype});
    for (const StrategyRun& run : report.runs) {
      identical += run.identical() ? 1 : 0;
      ++runs;
      std::printf("%s %s %s: %.2f tokens a step, %.0f tokens/s, autoregressive %.0f; %s\n",
                  dtype.c_str(), prompt, run.strategy.text().c_str(),
                  run.generation.accepted_per_step(), run.generation.tokens_per_second(),
                  run.reference->tokens_per_second(), run.identical() ? "identical" : "different");
    }
  }
}

TEST_CASE("the demo pair is lossless on the GPU in f32 and bf16") {
  if (!profiler::describe_gpu()) {
    std::printf("skipped: no GPU here\n");
    return;
  }
  int identical = 0;
  int runs = 0;
  run_demo("f32", identical, runs);
  CHECK(identical == runs);
  identical = runs = 0;
  run_demo("bf16", identical, runs);
  CHECK(identical == runs);
}

TEST_CASE("a session of the 1B geometry fills and steps in bf16") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  SyntheticSession<Bf16> session(*ops, named_llm_shape("nsa-1b"), 1);
  session.set_context(8192);
  for (const char* text : {"nsa/ar", "nsa/d6k8n64/bfs/c1/F*"}) {
    const Strategy strategy = Strategy::parse(text);
    StepResult step;
    for (int i = 0; i < 3; ++i) {
      step = session.step(strategy, strategy.draft.speculates() ? 4 : 1);
    }
    std::printf("nsa-1b %s: draft %.2f ms, verify %.2f ms, accept %.2f ms, commit %.2f ms\n", text,
                1e3 * step.seconds[0], 1e3 * step.seconds[1], 1e3 * step.seconds[2],
                1e3 * step.seconds[3]);
    CHECK(step.context_len == 8192);
  }
}

}  // namespace
}  // namespace versieve::engine
