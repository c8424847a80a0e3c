// A token-level indexer in the engine: its choice against a naive one, what it leaves of dense
// decoding, recorded steps, and the launches that the cost model composes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/measure/sweep/ranges.h"
#include "engine/run/speculate/token_lists.h"
#include "model/launches/launch_work.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "tests/engine/run/recorded_steps.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPrompt = 150;

// A dense target behind a prompt.
template <class T>
struct Prompted : tiny::Engine<T> {
  explicit Prompted(std::int64_t prompt = kPrompt)
      : tiny::Engine<T>(tiny::shape(AttentionKind::kDense)) {
    this->generator.prefill(tiny::prompt(prompt));
  }
};

// The choice by its definition: in double, over all of a key, sorted. A key's part of the score is
// that of the rotary pairs d/2 - pairs and up.
template <class T>
class NaiveSelector final : public ListSelector<T> {
 public:
  NaiveSelector(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t k, std::int64_t newest)
      : ListSelector<T>(ops), shape_(shape), k_(k), newest_(newest) {}

  std::vector<TokenList> lists;  // of the layers so far

 protected:
  const TokenList* tokens_of(const LayerQueries<T>& layer) override {
    const std::int64_t scored = layer.context_len - newest_;
    std::vector<double> score;
    for (std::int64_t s = 0; s < scored; ++s) {
      double sum = 0.0;
      for (std::int64_t h = 0; h < shape_.num_heads; ++h) {
        const std::int64_t g = h / (shape_.num_heads / shape_.num_kv_heads);
        const T* q = layer.q + h * shape_.head_dim;  // of the root
        const T* key = layer.k + (s * shape_.num_kv_heads + g) * shape_.head_dim;
        double product = 0.0;
        const std::int64_t half = shape_.head_dim / 2;
        const std::int64_t first = std::max<std::int64_t>(0, half - 64 / shape_.num_kv_heads);
        for (std::int64_t e = first; e < half; ++e) {
          product += static_cast<double>(q[e]) * static_cast<double>(key[e]) +
                     static_cast<double>(q[e + half]) * static_cast<double>(key[e + half]);
        }
        sum += std::max(0.0, product);
      }
      score.push_back(sum);
    }
    TokenList order(static_cast<std::size_t>(scored));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
    });
    order.resize(static_cast<std::size_t>(k_));
    std::sort(order.begin(), order.end());
    for (std::int64_t s = scored; s < layer.context_len; ++s) {
      order.push_back(static_cast<std::int32_t>(s));
    }
    lists.push_back(order);
    return &lists.back();
  }

 private:
  LlmShape shape_;
  std::int64_t k_, newest_;
};

std::vector<double> logits_of(tiny::Engine<double>& engine) {
  std::vector<double> logits(
      static_cast<std::size_t>(engine.target.node_count() * engine.target.shape().vocab));
  engine.ops->download(logits.data(), engine.target.logits(), logits.size() * sizeof(double));
  return logits;
}

}  // namespace

TEST_CASE("an indexer's verify is dense attention over the best tokens and the newest ones") {
  std::mt19937_64 random(4);
  for (const std::int64_t nodes : {1, 9}) {
    for (const std::int64_t newest : {0, 5}) {
      CAPTURE(nodes, newest);
      const DraftTree tree = tiny::random_tree(nodes, 4, 7, random);
      Prompted<double> indexed, naive;
      VerifyOptions options{.index = IndexSelection{.chosen = 20, .newest = newest}};
      indexed.target.keep_choice_keys(options);
      indexed.target.verify(tree, options);
      NaiveSelector<double> selector(*naive.ops, naive.target.shape(), 20, newest);
      naive.target.set_token_selector(&selector);
      naive.target.verify(tree, {});
      naive.target.set_token_selector(nullptr);
      REQUIRE(selector.lists.size() == 3);
      for (std::int64_t layer = 0; layer < 3; ++layer) {
        CHECK(indexed.target.indexed_tokens(layer) ==
              selector.lists[static_cast<std::size_t>(layer)]);
      }
      CHECK(logits_of(indexed) == logits_of(naive));
      naive.target.verify(tree, {});
      CHECK(logits_of(indexed) != logits_of(naive));  // all tokens
    }
  }
}

TEMPLATE_TEST_CASE("an indexer that chooses all tokens gives the text of dense decoding", "",
                   double, float) {
  Prompted<TestType> engine;
  const Generation dense = engine.generator.run(tiny::options("dense/ar", 60));
  for (const char* rest : {"/ar", "/d4k1n5/bfs/c1/F*", "/d4k3n14/dfs/c1/F*"}) {
    CAPTURE(rest);
    for (const bool records : {false, true}) {
      GenerateOptions options = tiny::options("indexer:k2048" + std::string(rest), 60);
      options.records_steps = records;
      const Generation run = engine.generator.run(options);
      CHECK(run.recorded == records);
      CHECK(run.tokens == dense.tokens);
      CHECK(run.reads_saved == 0.0);
    }
    const Generation few =
        engine.generator.run(tiny::options("indexer:k8w4" + std::string(rest), 60));
    CHECK(few.tokens != dense.tokens);
    CHECK(few.reads_saved > 0.9);
  }
}

TEST_CASE("whatever finds an indexer's tokens, and with whatever hints, the text is the same") {
  Prompted<float> engine;
  for (const char* rest : {"/ar", "/d3k2n7"}) {
    const std::string tuple = "indexer:k24w6" + std::string(rest) + "/bfs/c1/F*";
    const Generation sorted = engine.generator.run(tiny::options(tuple + "/topk=sort", 60));
    for (const char* option : {"/topk=radix", "/topk=gvr"}) {
      CAPTURE(rest, option);
      CHECK(engine.generator.run(tiny::options(tuple + option, 60)).tokens == sorted.tokens);
      // Hints of another text.
      engine.generator.prefill(tiny::prompt(kPrompt, 99));
      engine.generator.run(tiny::options(tuple + option, 30));
      engine.generator.prefill(tiny::prompt(kPrompt));
      CHECK(engine.generator.run(tiny::options(tuple + option, 60)).tokens == sorted.tokens);
    }
  }
}

TEST_CASE("recorded steps of an indexer give the led steps' tokens, from short contexts on") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  for (const std::int64_t prompt : {1, 20, 90, 600}) {
    engine.generator.prefill(tiny::prompt(prompt));
    for (const char* tuple : {"indexer:k40w8/ar", "indexer:k40w0/d3k2n8/bfs/c1/F*",
                              "indexer:k60w30/d7k1n8/bfs/c1/F*", "indexer:k700w3/ar"}) {
      CAPTURE(prompt, tuple);
      const auto [led, recorded] =
          tiny::led_and_recorded(engine.generator, tiny::options(tuple, 90));
      CHECK(recorded.reads_saved == Approx(led.reads_saved));
    }
  }
}

TEST_CASE("index keys follow every token that is appended, in a cache that grows") {
  Prompted<double> engine(40);
  const VerifyOptions options{.index = IndexSelection{.chosen = 12, .newest = 3}};
  engine.target.keep_choice_keys(options);
  for (const std::int32_t token : tiny::prompt(120, 31)) {  // past the first capacity
    const std::int32_t root = 0;
    engine.target.verify(chain_tree({token}), options);
    engine.target.commit({&root, 1});
  }
  engine.target.verify(chain_tree({3}), options);
  const std::vector<double> kept = logits_of(engine);
  engine.target.keep_choice_keys(options);  // all made anew
  engine.target.verify(chain_tree({3}), options);
  CHECK(logits_of(engine) == kept);
}

TEST_CASE("a step with an indexer is composed of the launches that the engine makes") {
  Prompted<float> engine;
  // Radix: of so short a row a GPU looks at no hint, while the CPU does.
  const Strategy strategy = Strategy::parse("indexer:k24w6/ar/bfs/c1/F*/topk=radix");
  const LlmShape& shape = engine.target.shape();
  const VerifyOptions options = verify_options(strategy, shape);
  engine.target.cache().reserve(2 * kPrompt);  // a cache that grows has its index keys made anew
  engine.target.keep_choice_keys(options);
  const std::int32_t root = 0;
  engine.target.verify(chain_tree({5}), options);  // makes room
  LaunchLog log;
  engine.ops->set_observer(&log);
  engine.target.verify(chain_tree({5}), options);
  engine.target.commit({&root, 1});
  engine.ops->set_observer(nullptr);
  const std::vector<RangeMeasurement> ranges = ranges_of(log);

  StepShape s = asked_step(strategy, shape, tiny::draft_shape(shape), kPrompt, 4);
  s.dense.method = strategy.attention;
  set_indexer(strategy, s.dense);
  StepWork work;
  add_step(s, 1.0, work);
  int compared = 0;
  for (const char* path : {"index_keys", "index_query", "index_scores", "topk"}) {
    CAPTURE(path);
    const auto range = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const RangeMeasurement& r) { return r.path == path; });
    REQUIRE(range != ranges.end());
    double launches = 0.0;
    Traffic moved;
    for (const LaunchWork& launch : work) {
      if (std::string(path_of(launch.kind)) == path) {
        launches += launch.launches;
        for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
          moved.read_bytes[i] += launch.launches * launch.unique.read_bytes[i];
          moved.write_bytes[i] += launch.launches * launch.unique.write_bytes[i];
        }
        ++compared;
      }
    }
    CHECK(launches == static_cast<double>(range->launches));
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {  // by term
      CHECK(moved.read_bytes[i] == Approx(range->predicted.read_bytes[i]));
      CHECK(moved.write_bytes[i] == Approx(range->predicted.write_bytes[i]));
    }
  }
  CHECK(compared == 4);
}

TEST_CASE("an indexer is refused where it has nothing to score, with a sentence") {
  LlmShape many = tiny::shape(AttentionKind::kDense);
  many.num_heads = many.num_kv_heads = 65;
  CHECK_THAT(illegal_because(Strategy::parse("indexer:k64/ar"), many),
             Catch::Contains("more than 64 KV heads"));
  CHECK_THAT(illegal_because(Strategy::parse("indexer:k64/ar"), tiny::shape()),
             Catch::Contains("needs a dense target"));
  LlmShape windowed = tiny::shape(AttentionKind::kDense);
  windowed.dense_layers = {{.window = 8}, {}, {}};
  CHECK_THAT(illegal_because(Strategy::parse("indexer:k64/ar"), windowed),
             Catch::Contains("see a window"));
  CHECK_THAT(illegal_because(Strategy::parse("indexer:k64/ar/bfs/c1/(FR)*"),
                             tiny::shape(AttentionKind::kDense)),
             Catch::Contains("nothing for an R layer"));
}

}  // namespace versieve::engine
