// Steps that run whole on the GPU: do its draft_tree kernels what the host's code does, are the
// tokens of recorded steps those of host-led ones, and what does a step take either way?
#include <algorithm>
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/synthetic_session.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/device_tree_checks.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

double seconds_of(const std::function<void()>& work) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_CASE("the GPU grows and lays out the host's trees", "[draft_tree]") {
  const std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  if (ops == nullptr) {
    return;
  }
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    for (const DraftChoice choice :
         {DraftChoice{4, 3, 12}, DraftChoice{6, 2, 20}, DraftChoice{3, 5, 6}, DraftChoice{7, 1, 5},
          DraftChoice{1, 4, 5}, DraftChoice{6, 8, 64}, DraftChoice{5, 16, 256},
          DraftChoice{3, 64, 200}}) {
      test::check_growth(*ops, choice, 11 + static_cast<std::int64_t>(13 * seed), seed);
    }
  }
}

TEST_CASE("the GPU walks and lists what the host would", "[draft_tree]") {
  const std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  if (ops == nullptr) {
    return;
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    test::check_acceptance(*ops, seed, 0);
    test::check_acceptance(*ops, seed, static_cast<std::int64_t>(seed % 6) + 1);
    test::check_acceptance(*ops, seed, static_cast<std::int64_t>(seed % 7), true);
  }
}

// Caches after steps that accept long paths, against the host-led steps of the same engine type.
template <class T>
void check_caches(AttentionKind kind) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  constexpr std::int64_t kContext = 37;
  const DraftChoice choice{6, 3, 18};
  tiny::Engine<T> host(std::move(ops), tiny::shape(kind));
  tiny::Engine<T> device(test::try_gpu_ops<T>(), tiny::shape(kind));
  const DeviceStepOptions options{.choice = choice, .order = Traversal::kDfs, .forced_yield = 4};
  const std::string reason = DeviceStepRunner<T>::refusal(device.target, options, kContext + 100);
  if (!reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return;
  }
  DeviceStepRunner<T> recorded(*device.ops, device.target, &device.draft, options);
  const std::vector<T> values = test::random_elements<T>(3 * 32, 7);
  const kernels::OpsBuffer<T> host_seen(*host.ops, values);
  const kernels::OpsBuffer<T> device_seen(*device.ops, values);
  for (tiny::Engine<T>* engine : {&host, &device}) {
    engine->generator.prefill(tiny::prompt(kContext));
    engine->draft.reserve(kContext + 200);
    engine->draft.set_length(kContext);
  }
  DraftSource<T> source(*host.ops, host.draft, {.choice = choice, .order = Traversal::kDfs});
  StepRunner<T> steps(*host.ops, host.target);
  source.observe(
      {.first = kContext - 1, .next_token = {5}, .captured = host_seen.data(), .rows = {0}});
  recorded.begin({.context_len = kContext,
                  .token = 5,
                  .captured = device_seen.data(),
                  .max_context = kContext + 100});
  std::int32_t token = 5;
  for (int step = 0; step < 8; ++step) {
    const StepResult led = steps.run(source, token, {.forced_yield = 4});
    token = led.acceptance.next_token;
    recorded.launch();
    const kernels::StepYield yield = recorded.wait();
    REQUIRE(yield.count == led.acceptance.yield());
    CHECK(yield.token[yield.count - 1] == token);
  }
  device.target.cache().set_length(recorded.length());
  const LlmShape& shape = host.target.shape();
  const auto rows = [&](tiny::Engine<T>& engine, const T* from, std::int64_t count) {
    std::vector<T> out(static_cast<std::size_t>(count * shape.kv_width()));
    engine.ops->download(out.data(), from, out.size() * sizeof(T));
    return test::widen_all(out);
  };
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    KvCache<T>& a = host.target.cache();
    KvCache<T>& b = device.target.cache();
    const std::int64_t length = a.length();
    CHECK(rows(host, a.k(layer), length) == rows(device, b.k(layer), length));
    CHECK(rows(host, a.v(layer), length) == rows(device, b.v(layer), length));
    if (kind == AttentionKind::kNsa) {
      const std::int64_t blocks = a.compressed_length();
      CHECK(rows(host, a.k_raw(layer), length) == rows(device, b.k_raw(layer), length));
      CHECK(rows(host, a.k_cmp(layer), blocks) == rows(device, b.k_cmp(layer), blocks));
      CHECK(rows(host, a.v_cmp(layer), blocks) == rows(device, b.v_cmp(layer), blocks));
    }
  }
}

TEST_CASE("graphs of steps leave the caches that the host leaves", "[draft_tree]") {
  check_caches<float>(AttentionKind::kDense);
  check_caches<Bf16>(AttentionKind::kDense);
  check_caches<Bf16>(AttentionKind::kNsa);
}

// `draft_vocab`: tokens that the draft knows, 0: all.
template <class T>
void check_tokens(AttentionKind kind, std::int64_t draft_vocab = 0) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  DraftShape drafts = tiny::draft_shape(tiny::shape(kind));
  drafts.vocab = draft_vocab > 0 ? draft_vocab : drafts.vocab;
  tiny::Engine<T> engine(std::move(ops), tiny::shape(kind), drafts, 11);
  REQUIRE(engine.draft.has_own_vocabulary() == (draft_vocab > 0));
  const std::string method = kind == AttentionKind::kNsa ? "nsa" : "dense";
  engine.generator.prefill(tiny::prompt(400));
  for (const char* rest : {"/ar", "/d4k4n20/dfs/c1/F*", "/d7k1n8/bfs/c1/F*"}) {
    // Past two bounds of recordings.
    GenerateOptions options = tiny::options(method + rest, 700);
    const Generation host = engine.generator.run(options);
    options.records_steps = true;
    const Generation device = engine.generator.run(options);
    std::printf("%s %s: %s\n", sizeof(T) == 2 ? "bf16" : "f32", options.strategy.text().c_str(),
                device.recorded ? "in graphs" : "led by the host");
    CHECK(device.tokens == host.tokens);
    CHECK(device.accepted_histogram == host.accepted_histogram);
    // Sampled, also by a seed that is not the recording's.
    for (const std::uint64_t seed : {3, 4}) {
      options.max_new_tokens = 150;
      options.temperature = 0.4;
      options.seed = seed;
      options.records_steps = false;
      const Generation led = engine.generator.run(options);
      options.records_steps = true;
      const Generation sampled = engine.generator.run(options);
      CHECK(sampled.recorded == device.recorded);
      CHECK(sampled.tokens == led.tokens);
      CHECK(sampled.accepted_histogram == led.accepted_histogram);
      CHECK(sampled.tokens != device.tokens);
    }
  }
}

TEST_CASE("graphs of steps generate the host's tokens from tiny random models", "[long]") {
  check_tokens<float>(AttentionKind::kDense);
  check_tokens<Bf16>(AttentionKind::kDense);
  check_tokens<Bf16>(AttentionKind::kNsa);
}

TEST_CASE("graphs of steps generate the host's tokens by a draft with fewer tokens", "[long]") {
  check_tokens<float>(AttentionKind::kDense, 23);
  check_tokens<Bf16>(AttentionKind::kNsa, 23);
}

// Requests of several prompts and tuples in turn through the same graphs; memory that earlier
// graphs name is released on the way.
TEST_CASE("graphs serve later requests with the host's tokens") {
  struct Request {
    const char* strategy;
    std::int64_t prompt_len;
    bool replays;
  };
  const char* const tree = "nsa/d4k4n20/dfs/c1/F*";
  const std::vector<Request> requests = {
      {"nsa/d6k8n100/bfs/c4e/F*", 300, false},
      {tree, 300, false},
      {"nsa/ar", 120, false},
      {tree, 320, true},
      {"nsa/ar", 200, true},
      {tree, 290, true},
      {"nsa/d6k8n256/bfs/c4e/F*", 300, false},  // more rows than any before: buffers made anew
      {tree, 61, false},
      {"nsa/ar", 200, false},
      {tree, 290, true}};
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const auto run = [](tiny::Engine<Bf16>& engine, const Request& request, bool records) {
    engine.generator.prefill(
        tiny::prompt(request.prompt_len, static_cast<std::uint64_t>(request.prompt_len)));
    GenerateOptions options = tiny::options(request.strategy, 60);
    options.records_steps = records;
    return engine.generator.run(options);
  };
  tiny::Engine<Bf16> host(test::try_gpu_ops<Bf16>());
  tiny::Engine<Bf16> device(std::move(ops));
  device.generator.prefill(tiny::prompt(300));
  device.generator.prefill(tiny::prompt(256));  // the most scratch: more tokens share one launch
  for (const Request& request : requests) {
    INFO(request.strategy << " after " << request.prompt_len);
    const Generation led = run(host, request, false);
    const Generation recorded = run(device, request, true);
    CHECK(recorded.recorded);
    CHECK(recorded.tokens == led.tokens);
    CHECK(recorded.accepted_histogram == led.accepted_histogram);
    CHECK((recorded.record_seconds == 0.0) == request.replays);
  }
}

// A prompt of up to 256 tokens is read as a tree, by launches whose scratch grows with it.
TEST_CASE("prompts that are a little longer each time leave graphs as they are") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<Bf16> engine(std::move(ops));
  int recorded_anew = 0;
  for (std::int64_t tokens = 130; tokens <= 250; tokens += 20) {
    engine.generator.prefill(tiny::prompt(tokens));
    GenerateOptions options = tiny::options("nsa/ar", 40);
    const Generation led = engine.generator.run(options);
    options.records_steps = true;
    const Generation recorded = engine.generator.run(options);
    CHECK(recorded.tokens == led.tokens);
    recorded_anew += recorded.record_seconds > 0.0 ? 1 : 0;
  }
  CHECK(recorded_anew >= 1);
  CHECK(recorded_anew <= 2);  // scratch of 250 tokens is less than twice that of 130
}

TEST_CASE("the trained pair generates the same text in graphs in bf16", "[timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  const Checkpoint checkpoint = load_target(demo / "nsa");
  const DraftCheckpoint draft_checkpoint = load_draft(demo / "nsa/draft", checkpoint.shape);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(demo / "nsa", checkpoint.shape);
  Target<Bf16> target = make_target(*ops, checkpoint, &draft_checkpoint);
  Draft<Bf16> draft = make_draft(*ops, draft_checkpoint, target);
  Generator<Bf16> generator(*ops, target, &draft);
  for (const char* prompt : {"chat-1000-3", "code-4000-5"}) {
    generator.prefill(
        tokenizer->encode(read_prompt(demo / "prompts/test" / (std::string(prompt) + ".txt"))));
    // The last ones by the calibrated schedule of engine/demo/nsa_schedule.json.
    for (const char* text :
         {"nsa/ar", "nsa/d7k1n8/bfs/c1/F*", "nsa/d5k4n32/dfs/c1/F*", "nsa/d6k8n64/bfs/c4e/F*",
          "nsa/d10k4n32/bfs/c8e/F*", "nsa/d12k2n24/bfs/c8e/F*", "nsa/d14k8n64/bfs/c8e/F*",
          "nsa/d15k2n32/dfs/c8e/F*", "nsa/ar/bfs/c1/FRRRRRRF", "nsa/d5k4n32/bfs/c8e/FRRRRRRF",
          "nsa/d12k4n32/bfs/c8e/FRRRRRRF", "nsa/d14k8n64/bfs/c8e/FRRRRRRF",
          "nsa/d10k4n32/bfs/c8e/FRRRRRRF", "nsa/d10k4n32/bfs/c8a/FRRRRRRF",
          "nsa/d6k8n64/bfs/c4e/FRRRRRRF", "nsa/d6k8n64/bfs/c8a/FRRRRRRF",
          "nsa/d10k8n64/bfs/c8a/FRRRRRRF"}) {
      GenerateOptions options = tiny::options(text, 192);
      const Generation host = generator.run(options);
      options.records_steps = true;
      generator.run(options);  // loads what is loaded lazily
      const Generation device = generator.run(options);
      INFO(prompt << " " << text);
      CHECK(device.tokens == host.tokens);
      CHECK(device.accepted_histogram == host.accepted_histogram);
      const auto step_us = [](const Generation& run) {
        return 1e6 * run.decode_seconds() / static_cast<double>(run.steps);
      };
      std::printf(
          "demo bf16 %s %s: %.2f tokens a step, host-led %.0f us a step, %s %.0f us (%.0f "
          "tokens/s), recording %.1f ms\n",
          prompt, text, device.accepted_per_step(), step_us(host),
          device.recorded ? "graph" : "HOST-LED AGAIN", step_us(device), device.tokens_per_second(),
          1e3 * device.record_seconds);
    }
  }
}

TEST_CASE("a step of the 1B geometry in graphs in bf16", "[timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  SyntheticSession<Bf16> session(*ops, named_llm_shape("nsa-1b"), 1);
  const kernels::OpsBuffer<Bf16> captured(
      *ops, test::random_elements<Bf16>(3 * session.target().shape().hidden, 3));
  for (const std::int64_t context_len : {4096, 16384}) {
    session.set_context(context_len);
    for (const char* text : {"nsa/ar", "nsa/d7k1n8/bfs/c1/F*", "nsa/d6k8n64/bfs/c1/F*"}) {
      const Strategy strategy = Strategy::parse(text);
      const std::int64_t yield = strategy.draft.speculates() ? 4 : 1;
      session.step(strategy, yield);
      const double led = seconds_of([&] {
        for (int i = 0; i < 5; ++i) {
          session.step(strategy, yield);
        }
      });
      const DeviceStepOptions options{.choice = strategy.draft,
                                      .order = strategy.order,
                                      .scores_by_rank = true,
                                      .forced_yield = yield};
      const std::string reason =
          DeviceStepRunner<Bf16>::refusal(session.target(), options, context_len + 256);
      if (!reason.empty()) {
        std::printf("nsa-1b %s: %s\n", text, reason.c_str());
        continue;
      }
      DeviceStepRunner<Bf16> steps(*ops, session.target(), &session.draft(), options);
      steps.begin({.context_len = context_len,
                   .token = 0,
                   .captured = captured.data(),
                   .max_context = context_len + 256});
      for (int i = 0; i < 3; ++i) {
        steps.launch();
        steps.wait();
      }
      constexpr int kSteps = 30;
      steps.launch();
      const double alone = seconds_of([&] {
        for (int i = 0; i < kSteps; ++i) {
          steps.launch();
          CHECK(steps.wait().count == yield);
        }
      });
      steps.wait();
      std::printf("nsa-1b %s L %lld: host-led %.0f us a step, graph %.0f us a step\n", text,
                  static_cast<long long>(context_len), 1e6 * led / 5, 1e6 * alone / kSteps);
    }
  }
}

TEST_CASE("verification alone of the 1B geometry in graphs in bf16", "[timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  SyntheticSession<Bf16> session(*ops, named_llm_shape("nsa-1b"), 1);
  constexpr std::int64_t kContext = 16384;
  session.set_context(kContext);
  const std::vector<const char*> texts = {"nsa/ar",
                                          "nsa/d5k4n16/bfs/c4e/F*",
                                          "nsa/d6k6n32/bfs/c4e/F*",
                                          "nsa/d6k8n64/bfs/c4e/F*",
                                          "nsa/d6k8n64/bfs/c8e/F*",
                                          "nsa/d6k8n64/bfs/c8a/(FRRR)*",
                                          "nsa/d6k8n64/bfs/c8a/(FRRRRRRR)*",
                                          "nsa/d6k8n64/bfs/c8a/FRRRRRRRRRRRRRRR",
                                          "nsa/d6k8n64/bfs/c4e/FRRRRRRRRRRRRRRR",
                                          "nsa/d6k8n64/bfs/c8e/FRRRRRRRRRRRRRRR"};
  constexpr int kRounds = 3;
  constexpr int kSteps = 50;
  std::vector<std::vector<double>> us(texts.size());
  for (int i = 0; i < kRounds * static_cast<int>(texts.size()); ++i) {  // rounds, so drift shows
    const std::size_t which = static_cast<std::size_t>(i) % texts.size();
    const Strategy strategy = Strategy::parse(texts[which]);
    const std::int64_t yield = strategy.draft.speculates() ? 4 : 1;
    session.target().cache().set_length(kContext);
    DeviceStepRunner<Bf16> steps(*ops, session.target(), nullptr,
                                 {.choice = strategy.draft,
                                  .order = strategy.order,
                                  .verify = verify_options(strategy, session.target().shape()),
                                  .scores_by_rank = true,
                                  .forced_yield = yield,
                                  .drafts = false});
    steps.begin({.context_len = kContext, .max_context = kContext + 256});
    for (int warm = 0; warm < 3; ++warm) {
      steps.launch();
      CHECK(steps.wait().count == yield);
    }
    steps.launch();
    us[which].push_back(1e6 / kSteps * seconds_of([&] {
                          for (int step = 0; step < kSteps; ++step) {
                            steps.launch();
                            steps.wait();
                          }
                        }));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::sort(us[i].begin(), us[i].end());
    std::printf("nsa-1b, 16K, verification of %s: %.0f us (%.0f-%.0f), %.2f plain steps\n",
                texts[i], us[i][1], us[i].front(), us[i].back(), us[i][1] / us[0][1]);
  }
}

TEST_CASE("top_logits takes microseconds", "[timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  constexpr std::int64_t kVocab = 128256;
  const kernels::OpsBuffer<Bf16> logits(*ops, test::random_elements<Bf16>(64 * kVocab, 5, 2.0));
  const kernels::OpsBuffer<Bf16, std::int32_t> index(*ops, 64 * 16);
  const kernels::OpsBuffer<Bf16, float> score(*ops, 64 * 16);
  struct Case {
    std::int64_t rows, k, vocab;
    bool scores;
  };
  for (const Case c : {Case{1, 1, kVocab, false}, Case{1, 8, kVocab, true},
                       Case{8, 8, kVocab, true}, Case{64, 1, kVocab, false}, Case{1, 1, 272, false},
                       Case{8, 8, 272, true}, Case{64, 1, 272, false}}) {
    const auto work = [&] {
      ops->top_logits({.rows = c.rows,
                       .vocab = c.vocab,
                       .k = c.k,
                       .logits = logits.data(),
                       .index = index.data(),
                       .log_probability = c.scores ? score.data() : nullptr});
    };
    const double us = test::us_each(*ops, 50, work);
    std::printf("top_logits %lld rows of %lld, k %lld: %.2f us\n", static_cast<long long>(c.rows),
                static_cast<long long>(c.vocab), static_cast<long long>(c.k), us);
    CHECK(us < 100.0);
  }
}

// Each kernel a hundred times in one graph.
TEST_CASE("the draft_tree kernels take microseconds", "[timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const DraftChoice choice :
       {DraftChoice{7, 1, 8}, DraftChoice{6, 8, 64}, DraftChoice{8, 16, 256}}) {
    test::DeviceGrowth<Bf16> growth(*ops, choice, 3, 1000);
    growth.grow(1);
    const test::KernelTimes times = growth.times(100);
    std::printf(
        "d%lldk%lldn%lld: grow %.2f us, finish bfs %.2f us, finish dfs %.2f us, accept %.2f "
        "us\n",
        static_cast<long long>(choice.depth), static_cast<long long>(choice.width),
        static_cast<long long>(choice.nodes), times.grow_us, times.finish_bfs_us,
        times.finish_dfs_us, times.accept_us);
    CHECK(times.grow_us < 100.0);
  }
}

}  // namespace
}  // namespace versieve::engine
