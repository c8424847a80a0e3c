// Do steps that run whole on the device give the tokens of steps that the host leads?
#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/observe.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/tree_growth.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/support/device_tree_checks.h"
#include "tests/support/growth_check.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

TEST_CASE("device code grows and lays out the host's trees") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const DraftChoice choice :
         {DraftChoice{4, 3, 12}, DraftChoice{6, 2, 20}, DraftChoice{3, 5, 6}, DraftChoice{7, 1, 5},
          DraftChoice{1, 4, 5}, DraftChoice{5, 4, 50}, DraftChoice{6, 8, 64}}) {
      test::check_growth(*ops, choice, static_cast<std::int64_t>(seed) + 1, seed);
    }
  }
}

TEST_CASE("device code grows the same trees from logits as from lists") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  test::check_growth_from_logits(*ops);
}

TEST_CASE("device code walks and lists what the host would") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::check_acceptance(*ops, seed, 0);
    test::check_acceptance(*ops, seed, static_cast<std::int64_t>(seed % 6) + 1);
    test::check_acceptance(*ops, seed, static_cast<std::int64_t>(seed % 7), true);
  }
}

TEST_CASE("a recording's bound lies above its context and not far") {
  for (std::int64_t context_len = 1; context_len < 300000; context_len += 1 + context_len / 7) {
    const std::int64_t bound = recording_bound(context_len);
    CHECK(bound > context_len);
    CHECK(bound <= context_len + context_len / 16 + 1024);
    CHECK(recording_bound(bound) > bound);
  }
}

template <class T>
void check_recorded(tiny::Engine<T>& engine, GenerateOptions options, std::int64_t prompt_len) {
  INFO(options.strategy.text() << ", prompt " << prompt_len);
  const Generation host = engine.generator.run(options);
  options.records_steps = true;
  const Generation device = engine.generator.run(options);
  CHECK(!host.recorded);
  CHECK(device.recorded);
  CHECK(device.tokens == host.tokens);
  CHECK(device.accepted_histogram == host.accepted_histogram);
  CHECK(device.steps == host.steps);
  CHECK(device.stopped == host.stopped);
}

TEST_CASE("recorded steps generate the host's tokens from tiny random models") {
  for (const AttentionKind kind : {AttentionKind::kNsa, AttentionKind::kDense}) {
    tiny::Engine<float> engine(tiny::shape(kind));
    const bool nsa = kind == AttentionKind::kNsa;
    for (const std::int64_t prompt_len : {1, 8, 61}) {
      engine.generator.prefill(tiny::prompt(prompt_len));
      for (const char* rest : {"/ar", "/d3k2n8/bfs/c1/F*", "/d4k4n20/dfs/c1/F*",
                               "/d7k1n8/bfs/c1/F*", "/d1k5n6/dfs/c1/F*"}) {
        const std::string text = (nsa ? "nsa" : "dense") + std::string(rest);
        check_recorded(engine, tiny::options(text, 70), prompt_len);
      }
      if (nsa) {
        check_recorded(engine, tiny::options("nsa/d4k3n14/dfs/c4e/FRR", 70), prompt_len);
        check_recorded(engine, tiny::options("nsa/d4k3n14/dfs/c4a/FRF", 70), prompt_len);
      }
    }
  }
}

TEST_CASE("recorded steps stop where the host's do") {
  tiny::Engine<float> engine;
  engine.generator.prefill(tiny::prompt(30));
  GenerateOptions options = tiny::options("nsa/d3k2n8/bfs/c1/F*", 60);
  const Generation whole = engine.generator.run(options);
  options.eos = {whole.tokens[40]};
  check_recorded(engine, options, 30);
  for (const std::int64_t limit : {1, 2, 3}) {
    check_recorded(engine, tiny::options("nsa/d3k2n8/bfs/c1/F*", limit), 30);
  }
  LlmShape shape = tiny::shape();
  shape.max_position = 48;
  tiny::Engine<float> small(shape);
  small.generator.prefill(tiny::prompt(30));
  check_recorded(small, tiny::options("nsa/d3k2n8/bfs/c1/F*", 60), 30);
}

TEST_CASE("recordings serve later runs until memory is released") {
  tiny::Engine<float> engine;
  engine.generator.prefill(tiny::prompt(60));
  GenerateOptions options = tiny::options("nsa/d3k2n8/bfs/c1/F*", 60);
  options.records_steps = true;
  const Generation first = engine.generator.run(options);
  CHECK(first.record_seconds > 0.0);
  const Generation second = engine.generator.run(options);
  CHECK(second.record_seconds == 0.0);
  CHECK(second.tokens == first.tokens);
  CHECK(second.accepted_histogram == first.accepted_histogram);
  engine.generator.prefill(tiny::prompt(41, 9));
  const Generation other = engine.generator.run(options);
  CHECK(other.record_seconds == 0.0);
  // A wider tree has the target's buffers made anew, which the recordings name.
  GenerateOptions wide = tiny::options("nsa/d6k8n120/bfs/c1/F*", 20);
  wide.records_steps = true;
  CHECK(engine.generator.run(wide).record_seconds > 0.0);
  const Generation again = engine.generator.run(options);
  CHECK(again.record_seconds > 0.0);
  CHECK(again.tokens == other.tokens);
  // So does a context beyond the bound.
  options.max_new_tokens = 1200;
  CHECK(engine.generator.run(options).record_seconds > 0.0);
}

// What a prompt needs grows in powers of two, so a longer one of that size releases nothing.
TEST_CASE("prompts of about one length keep what was recorded") {
  tiny::Engine<double> engine;
  GenerateOptions options = tiny::options("nsa/d4k4n20/dfs/c1/F*", 12);
  options.records_steps = true;
  const auto run = [&](std::int64_t prompt_len) {
    engine.generator.prefill(tiny::prompt(prompt_len, static_cast<std::uint64_t>(prompt_len)));
    return engine.generator.run(options).record_seconds;
  };
  CHECK(run(300) > 0.0);
  for (const std::int64_t prompt_len : {320, 290, 310}) {
    INFO(prompt_len);
    CHECK(run(prompt_len) == 0.0);
  }
}

TEST_CASE("recorded steps sample the host's tokens, whatever seed a recording was made with") {
  for (const AttentionKind kind : {AttentionKind::kNsa, AttentionKind::kDense}) {
    tiny::Engine<float> engine(tiny::shape(kind));
    const std::string attention = kind == AttentionKind::kNsa ? "nsa" : "dense";
    engine.generator.prefill(tiny::prompt(70));
    std::vector<std::vector<std::int32_t>> texts;
    for (const std::uint64_t seed : {1, 2, 3}) {
      for (const double temperature : {0.0, 0.2, 1.0}) {
        for (const char* tuple : {"/ar", "/d5k1n6/bfs/c1/F*", "/d4k3n12/dfs/c4e/F*"}) {
          GenerateOptions options = tiny::options(attention + tuple, 40);
          options.temperature = temperature;
          options.seed = seed;
          check_recorded(engine, options, 70);
          options.records_steps = true;
          texts.push_back(engine.generator.run(options).tokens);
        }
        // Of one seed and temperature one text; the next differs.
        const std::size_t count = texts.size();
        CHECK(texts[count - 1] == texts[count - 2]);
        CHECK(texts[count - 2] == texts[count - 3]);
        CHECK((temperature == 0.0 || count < 12 || texts[count - 1] != texts[count - 10]));
      }
    }
  }
}

TEST_CASE("what asks for phases, blocks or gaps is led by the host") {
  tiny::Engine<float> engine;
  engine.generator.prefill(tiny::prompt(30));
  GenerateOptions options = tiny::options("nsa/d3k2n8/bfs/c1/F*", 12);
  options.records_steps = true;
  CHECK(engine.generator.run(options).recorded);
  for (int what = 0; what < 4; ++what) {
    GenerateOptions asking = options;
    asking.measures_blocks = what == 0;
    asking.measures_gaps = what == 1;
    if (what == 2) {
      asking.temperature = 0.7;
      asking.strategy = Strategy::parse("nsa/d3k2n8/bfs/c1/F*/sampling=exact");
    }
    if (what == 3) {
      asking.on_step = [](const StepResult&) {};
    }
    CHECK(!engine.generator.run(asking).recorded);
  }
}

// Committed rows and entries of steps that accept long paths, whatever the model says; half of the
// steps by a runner that takes over from the first.
TEST_CASE("forced paths leave the caches that the host leaves") {
  const std::int64_t context_len = 37;
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    for (const std::int64_t forced : {1, 2, 4, 7}) {
      INFO("forced " << forced);
      tiny::Engine<float> host;
      tiny::Engine<float> device;
      const DraftChoice choice{6, 3, 18};
      std::vector<float> captured(3 * 32);
      for (std::size_t i = 0; i < captured.size(); ++i) {
        captured[i] = 0.01F * static_cast<float>(i % 17);
      }
      for (tiny::Engine<float>* engine : {&host, &device}) {
        engine->generator.prefill(tiny::prompt(context_len));
        engine->draft.reserve(context_len + 200);
        engine->draft.set_length(context_len);
      }
      DraftSource<float> source(*host.ops, host.draft, {.choice = choice, .order = order});
      StepRunner<float> steps(*host.ops, host.target);
      const bool records = forced != 2;  // else enqueued anew each time, to be watched
      const DeviceStepOptions options{
          .choice = choice, .order = order, .forced_yield = forced, .records = records};
      DeviceStepRunner<float> first(*device.ops, device.target, &device.draft, options);
      DeviceStepRunner<float> second(*device.ops, device.target, &device.draft, options);
      source.observe(
          {.first = context_len - 1, .next_token = {5}, .captured = captured.data(), .rows = {0}});
      first.begin({.context_len = context_len,
                   .token = 5,
                   .captured = captured.data(),
                   .max_context = context_len + 100});
      std::int32_t token = 5;
      for (int step = 0; step < 8; ++step) {
        const StepResult led = steps.run(source, token, {.forced_yield = forced});
        token = led.acceptance.next_token;
        if (step == 4) {
          second.begin(first.stop());
        }
        DeviceStepRunner<float>& runner = step < 4 ? first : second;
        runner.launch();
        const kernels::StepYield yield = runner.wait();
        REQUIRE(yield.count == led.acceptance.yield());
        CHECK(yield.token[yield.count - 1] == token);
      }
      CHECK((first.recordings() > 0) == records);
      REQUIRE(second.length() == host.target.length());
      const std::int64_t draft_width =
          host.draft.shape().num_kv_heads * host.draft.shape().head_dim;
      CHECK(std::equal(host.draft.k() + context_len * draft_width,
                       host.draft.k() + host.draft.length() * draft_width,
                       device.draft.k() + context_len * draft_width));
      const LlmShape& shape = host.target.shape();
      for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        const auto same = [&](const float* a, const float* b, std::int64_t rows) {
          return std::equal(a, a + rows * shape.kv_width(), b);
        };
        KvCache<float>& a = host.target.cache();
        KvCache<float>& b = device.target.cache();
        CHECK(same(a.k(layer), b.k(layer), a.length()));
        CHECK(same(a.v(layer), b.v(layer), a.length()));
        CHECK(same(a.k_raw(layer), b.k_raw(layer), a.length()));
        CHECK(same(a.k_cmp(layer), b.k_cmp(layer), a.compressed_length()));
        CHECK(same(a.v_cmp(layer), b.v_cmp(layer), a.compressed_length()));
      }
    }
  }
}

// Proposes the tree of recorded steps without a draft.
class RankedSource final : public TreeSource<float> {
 public:
  RankedSource(const DraftChoice& choice, Traversal order, std::int64_t vocab)
      : choice_(choice), order_(order), vocab_(vocab) {}
  DraftTree propose(std::int64_t, std::int32_t token) override {
    const DraftTree tree = ranked_tree(choice_, vocab_, token);
    return reordered(tree, traversal_order(tree, order_));
  }
  void observe(const Observation<float>&) override {}

 private:
  DraftChoice choice_;
  Traversal order_;
  std::int64_t vocab_;
};

TEST_CASE("recorded steps without a draft verify the ranked tree and launch no draft") {
  const std::int64_t context_len = 37;
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    for (const DraftChoice choice : {DraftChoice{6, 3, 18}, DraftChoice{7, 1, 5}, DraftChoice{}}) {
      tiny::Engine<float> host;
      tiny::Engine<float> device;
      for (tiny::Engine<float>* engine : {&host, &device}) {
        engine->generator.prefill(tiny::prompt(context_len));
      }
      RankedSource source(choice, order, host.target.shape().vocab);
      StepRunner<float> steps(*host.ops, host.target);
      DeviceStepRunner<float> recorded(
          *device.ops, device.target, nullptr,
          {.choice = choice, .order = order, .forced_yield = 4, .drafts = false});
      recorded.begin({.context_len = context_len, .token = 5, .max_context = context_len + 100});
      LaunchLog log;
      std::int32_t token = 5;
      for (int step = 0; step < 6; ++step) {
        const StepResult led = steps.run(source, token, {.forced_yield = 4});
        CHECK(led.tree.size() == choice.nodes);
        token = led.acceptance.next_token;
        device.ops->set_observer(step == 5 ? &log : nullptr);
        recorded.launch();
        const kernels::StepYield yield = recorded.wait();
        REQUIRE(yield.count == led.acceptance.yield());
        CHECK(yield.token[yield.count - 1] == token);
      }
      for (const LaunchLog::Launch& launch : log.launches()) {
        CHECK(launch.path != "grow_tree");
        CHECK(launch.path != "tree_attention");  // the draft's: the target is sparse
      }
      const KvCache<float>& a = host.target.cache();
      REQUIRE(recorded.length() == host.target.length());
      const std::int64_t count = a.length() * host.target.shape().kv_width();
      for (std::int64_t layer = 0; layer < host.target.shape().layers; ++layer) {
        const float* k = device.target.cache().k(layer);
        CHECK(std::equal(k, k + count, host.target.cache().k(layer)));
      }
    }
  }
}

TEST_CASE("the trained pair generates the same text through recorded steps") {
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(2);
  const Checkpoint checkpoint = load_target(demo / "nsa");
  const DraftCheckpoint draft_checkpoint = load_draft(demo / "nsa/draft", checkpoint.shape);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(demo / "nsa", checkpoint.shape);
  Target<float> target = make_target(*ops, checkpoint, &draft_checkpoint);
  Draft<float> draft = make_draft(*ops, draft_checkpoint, target);
  Generator<float> generator(*ops, target, &draft);
  const std::string text = "| id | name | value |\n| 1 | alpha | 10 |\n| 2 | beta | 20 |\n| 3 |";
  generator.prefill(tokenizer->encode(text));
  for (const char* strategy :
       {"nsa/ar", "nsa/d7k1n8/bfs/c1/F*", "nsa/d5k4n32/dfs/c1/F*", "nsa/d4k3n12/bfs/c2e/(FR)*"}) {
    INFO(strategy);
    GenerateOptions options = tiny::options(strategy, 48);
    const Generation host = generator.run(options);
    options.records_steps = true;
    const Generation device = generator.run(options);
    CHECK(device.recorded);
    CHECK(device.tokens == host.tokens);
    CHECK(device.accepted_histogram == host.accepted_histogram);
  }
}

}  // namespace
}  // namespace versieve::engine
