// Has a request the same text alone, in any batch and in any order? What may join, and when?
#include "engine/run/batch/batch_session.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <numeric>

#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/batch/batch_cases.h"

namespace versieve::engine {
namespace {

template <class T>
void check_batches(const LlmShape& shape, int batches, std::uint64_t seed) {
  tiny::Engine<T> engine(shape);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, 150, seed);
  INFO(tally.requests << " requests, seed " << seed);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.yielded > tally.steps);  // trees were accepted, not only roots
  std::printf("%d requests in %d batches, %d identical, %.2f tokens a drafted step\n",
              tally.requests, batches, tally.identical,
              static_cast<double>(tally.yielded) / static_cast<double>(tally.steps));
}

TEMPLATE_TEST_CASE("a request's text is the same alone and in any batch, nsa", "", float, Bf16) {
  check_batches<TestType>(tiny::shape(), 30, 1);
}

TEMPLATE_TEST_CASE("a request's text is the same alone and in any batch, dense", "", float, Bf16) {
  check_batches<TestType>(tiny::shape(AttentionKind::kDense), 30, 2);
}

// Texts that end before their limit and requests that join undo what was prepared.
TEMPLATE_TEST_CASE("requests whose next step is prepared ahead have the text that they have alone",
                   "", float, Bf16) {
  for (const AttentionKind attention : {AttentionKind::kNsa, AttentionKind::kDense}) {
    tiny::Engine<TestType> engine(tiny::shape(attention));
    const std::vector<std::string> strategies =
        attention == AttentionKind::kNsa ? std::vector<std::string>{"nsa/ar", "nsa/ar/bfs/c1/FRR"}
                                         : std::vector<std::string>{"dense/ar"};
    std::mt19937_64 random(31);
    tiny::BatchTally tally;
    for (int batch = 0; batch < 12; ++batch) {
      std::vector<BatchRequest> requests;
      while (requests.size() < 7) {
        requests.push_back(tiny::random_request(strategies, 120, random));
        if (batch % 4 == 3) {
          requests.back().prompt = tiny::prompt_with_prefix(
              static_cast<std::int64_t>(requests.back().prompt.size()), 2, random);
        }
      }
      tiny::compare_batch(engine, requests,
                          {.concurrency = 1 + batch % 5,
                           .pages = 40,
                           .prefill_rows = 1 + static_cast<std::int64_t>(random() % 200)},
                          1 + random() % 7, tally);
    }
    CHECK(tally.identical == tally.requests);
    CHECK(tally.steps_ahead > 300);
  }
}

// Keys that each chooses by, passes that several have in one step, chains that the target drafts
// for itself, beside requests of dense attention with drafts.
TEMPLATE_TEST_CASE("requests that choose tokens have the text that they have alone", "", float,
                   Bf16) {
  tiny::Engine<TestType> engine(tiny::shape(AttentionKind::kDense));
  const std::vector<std::string> strategies = {"resa:b4p0.1f8n_min2/ar",
                                               "indexer:k24w8/ar",
                                               "dense/d5k1n6/bfs/c1/F*/draft=resa:b4p0.1n_min2",
                                               "resa:b16p0.1f5n_min1n_local2/ar",
                                               "indexer:k16w4/d3k2n6/bfs/c1/F*",
                                               "dense/d4k3n12/bfs/c1/F*"};
  std::vector<BatchRequest> requests;
  for (std::uint64_t i = 0; i < 24; ++i) {
    requests.push_back({.prompt = tiny::prompt(90 + 7 * static_cast<std::int64_t>(i % 5), i),
                        .options = tiny::options(strategies[i % strategies.size()], 45)});
    requests.back().options.temperature = i % 4 == 0 ? 0.8 : 0.0;
    requests.back().options.seed = i;
  }
  tiny::BatchTally tally;
  tiny::compare_batch(engine, requests, {.concurrency = 9, .pages = 60, .prefill_rows = 120}, 5,
                      tally);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.rectifications > 8 * 4);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {  // they read less than all
    engine.generator.prefill(requests[i].prompt);
    const Generation sparse = engine.generator.run(requests[i].options);
    GenerateOptions dense = requests[i].options;
    dense.strategy = Strategy::parse("dense/ar");
    CHECK(engine.generator.run(dense).tokens != sparse.tokens);
  }
}

TEST_CASE("long pieces of prompts are attended at once beside trees, and no text changes") {
  const auto check = []<class T>(T) {
    tiny::Engine<T> engine(tiny::shape());
    std::mt19937_64 random(23);
    std::vector<BatchRequest> requests;
    for (std::int64_t i = 0; i < 6; ++i) {
      requests.push_back(
          {.prompt = tiny::prompt_with_prefix(290 + 131 * i, 2, random),
           .options = tiny::options(i % 2 == 0 ? "nsa/d4k3n12/bfs/c4e/FRR" : "nsa/ar", 12)});
    }
    tiny::BatchTally tally;
    tiny::compare_batch(engine, requests,
                        {.concurrency = 4, .pages = 80, .prefill_rows = 700, .shuffled_pages = 3},
                        3, tally);
    CHECK(tally.identical == tally.requests);
    CHECK(tally.shared_tokens > 0);
  };
  check(float{});
  check(Bf16{});
}

// A plan that moves between dense and sparse attention: keys are made when they are asked for.
TEST_CASE("a request that comes to sparse attention late reads its whole context's block keys") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  KvPool<float> pool(*engine.ops, engine.target.shape(), nullptr, 12, 2, 5);  // shuffled pages
  std::vector<KvCache<float>> caches;
  std::vector<ChoiceKeys<float>> keys;
  caches.reserve(2);
  keys.reserve(2);
  const kernels::ResaSelection sparse{.key_block = 4, .active_ratio = 0.1, .n_min = 2};
  std::vector<std::vector<float>> alone;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::vector<std::int32_t> prompt =
        tiny::prompt(70 + 30 * static_cast<std::int64_t>(i), i);
    std::vector<std::int32_t> path(prompt.size());
    std::iota(path.begin(), path.end(), 0);
    caches.push_back(pool.cache_in(pool.take(3)));
    engine.target.verify_batch({{.tree = chain_tree(prompt), .options = {}, .cache = &caches[i]}});
    engine.target.commit_batch(std::span(&path, 1));
    keys.emplace_back(*engine.ops, engine.target.shape());
    keys.back().keep(caches[i], {.resa = sparse});
    engine.target.cache().truncate(0);
    engine.target.verify(chain_tree(prompt), {});
    engine.target.commit(path);
    engine.target.keep_block_keys(sparse.key_block);
    engine.target.verify(chain_tree({5}), {.resa = sparse});
    alone.push_back(engine.target.hidden_states());
  }
  engine.target.verify_batch({{.tree = chain_tree({5}),
                               .options = {.resa = sparse},
                               .cache = caches.data(),
                               .choice = keys.data()},
                              {.tree = chain_tree({5}),
                               .options = {.resa = sparse},
                               .cache = caches.data() + 1,
                               .choice = keys.data() + 1}});
  alone[0].insert(alone[0].end(), alone[1].begin(), alone[1].end());
  CHECK(engine.target.hidden_states() == alone[0]);
}

TEST_CASE("a family that compresses after rotary has the same text in any batch") {
  LlmShape shape = tiny::shape();
  shape.compress_stage = CompressStage::kAfterRope;
  check_batches<float>(shape, 15, 3);
}

TEST_CASE("layers with windows have the same text in any batch") {
  LlmShape shape = tiny::shape(AttentionKind::kDense);
  shape.dense_layers = {{.window = 20}, {}, {.window = 33}};
  check_batches<float>(shape, 15, 4);
}

TEST_CASE("the order of requests changes no text") {
  tiny::Engine<float> engine;
  std::mt19937_64 random(7);
  std::vector<BatchRequest> requests;
  while (requests.size() < 12) {
    requests.push_back(tiny::random_request(tiny::batch_strategies(tiny::shape()), 100, random));
  }
  tiny::BatchTally tally;
  for (int round = 0; round < 6; ++round) {
    std::shuffle(requests.begin(), requests.end(), random);
    tiny::compare_batch(engine, requests, {.concurrency = 12, .pages = 60}, 12, tally);
  }
  CHECK(tally.identical == tally.requests);
}

TEST_CASE("a draft that takes fewer positions falls silent for each request in its turn") {
  const LlmShape llm = tiny::shape();
  DraftShape drafts = tiny::draft_shape(llm);
  drafts.max_position = 80;
  tiny::Engine<float> engine(kernels::make_cpu_ops<float>(1), llm, drafts, 11);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, 20, 90, 5);
  CHECK(tally.identical == tally.requests);
}

// A clock that counts its readings.
SessionOptions counted(std::int64_t concurrency, std::int64_t pages) {
  return {.concurrency = concurrency, .pages = pages, .now = [time = 0.0]() mutable {
            return time += 1.0;
          }};
}

TEST_CASE("requests wait for a place and for memory, in their order, and none is lost") {
  tiny::Engine<float> engine;
  BatchSession<float> session(*engine.ops, engine.target, &engine.draft, counted(3, 5));
  for (std::int64_t id = 0; id < 7; ++id) {
    // 60 + 20 + a path of 33 tokens: two pages each
    session.submit(id, {.prompt = tiny::prompt(60, static_cast<std::uint64_t>(id)),
                        .options = tiny::options("nsa/d4k3n12/bfs/c1/F*", 20)});
  }
  std::vector<std::int64_t> joined;
  double last_join = 0.0;
  std::size_t finished = 0;
  while (session.running() + session.waiting() > 0) {
    for (const FinishedRequest& request : session.step()) {
      ++finished;
      CHECK(request.generation.tokens.size() == 20);
      CHECK(request.submitted < request.joined);
      CHECK(request.joined < request.first_token);
      CHECK(request.first_token < request.finished);
      CHECK(request.gaps.size() == 19);
      joined.push_back(request.id);
      last_join = std::max(last_join, request.joined);
    }
    CHECK(session.running() <= 2);
  }
  CHECK(finished == 7);
  CHECK(session.most_running() == 2);
  std::sort(joined.begin(), joined.end());
  CHECK(std::unique(joined.begin(), joined.end()) == joined.end());
}

TEST_CASE("a request that never fits is refused with what there is") {
  tiny::Engine<float> engine;
  BatchSession<float> session(*engine.ops, engine.target, &engine.draft, counted(2, 2));
  const auto refusal = [&](std::int64_t prompt, const char* strategy, double temperature = 0.0) {
    BatchRequest request{.prompt = tiny::prompt(prompt), .options = tiny::options(strategy, 20)};
    request.options.temperature = temperature;
    return session.refusal(request);
  };
  CHECK(refusal(60, "nsa/ar").empty());
  CHECK(refusal(100, "nsa/ar") ==
        "it may come to hold 192 tokens, and there is memory for the keys and values of 128");
  CHECK(refusal(5000, "nsa/ar") == "the prompt has 5000 tokens, the model takes 1 to 4096");
  CHECK(refusal(0, "nsa/ar") == "the prompt has 0 tokens, the model takes 1 to 4096");
  CHECK(!refusal(60, "dense/ar").empty());
  CHECK(refusal(60, "nsa/d4k1n5/bfs/c1/F*/sampling=greedy", 0.7).find("temperature 0") !=
        std::string::npos);
  tiny::Engine<float> dense(tiny::shape(AttentionKind::kDense));
  BatchSession<float> other(*dense.ops, dense.target, nullptr, counted(2, 2));
  CHECK(other.refusal(
            {.prompt = tiny::prompt(9), .options = tiny::options("dense/d4k3n12/bfs/c1/F*", 20)}) ==
        "the model has no draft, so a batch of it can only decode with ar");
}

TEST_CASE("a request that ends at its first token gives its pages back") {
  tiny::Engine<float> engine;
  BatchSession<float> session(*engine.ops, engine.target, &engine.draft, counted(1, 2));
  for (std::int64_t id = 0; id < 3; ++id) {
    session.submit(id, {.prompt = tiny::prompt(40), .options = tiny::options("nsa/ar", 1)});
  }
  std::size_t finished = 0;
  for (int step = 0; step < 3; ++step) {
    finished += session.step().size();
  }
  CHECK(finished == 3);
  CHECK(session.step().empty());
}

template <class Pair>
void check_long(Pair&& engine) {
  const tiny::BatchTally tally = tiny::compare_long(engine, 150);
  CHECK(tally.requests > 0);
  CHECK(tally.identical == tally.requests);
}

TEMPLATE_TEST_CASE("2,000 sampled batches leave every request the text that it has alone [long]",
                   "[.long]", float, Bf16) {
  check_long(tiny::Engine<TestType>());
}

// Every class that a batch takes: dense, ReSA, an indexer, chains that the target drafts for
// itself, by the draft head; those and SpecAttn by a draft model.
TEMPLATE_TEST_CASE("2,000 sampled batches of dense targets leave every text as it is alone [long]",
                   "[.long]", float, Bf16) {
  SECTION("a draft head") {
    check_long(tiny::Engine<TestType>(tiny::shape(AttentionKind::kDense)));
  }
  SECTION("a draft model") {
    check_long(tiny::ChoosingEngine<TestType>(12));
  }
}

}  // namespace
}  // namespace versieve::engine
