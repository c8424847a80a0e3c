// Has a request that chooses what it reads (ReSA, an indexer, a target that drafts for itself) the
// same text alone and in a batch of such requests, on the GPU, in scattered pages that are shared?
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>

#include "tests/engine/run/batch/batch_cases.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

const std::vector<std::string> kStrategies = {"resa:b16p0.1f8/ar",
                                              "resa:b16p0.2f0n_min2/ar",
                                              "resa:b32p0.05f5n_min1n_local2/ar",
                                              "indexer:k96w16/ar",
                                              "indexer:k40w8/ar/bfs/c1/F*/topk=radix",
                                              "indexer:k40w8/ar/bfs/c1/F*/topk=sort",
                                              "indexer:k64w32/d4k3n12/bfs/c1/F*",
                                              "indexer:k32w4/d5k1n6/bfs/c1/F*",
                                              "dense/ar",
                                              "dense/d5k1n6/bfs/c1/F*/draft=resa:b16p0.1n_min2"};

LlmShape shape_of(std::int64_t layers) {
  LlmShape shape = named_llm_shape("demo");
  shape.layers = layers;
  shape.attention = AttentionKind::kDense;
  return shape;
}

// `prefixes`: so many beginnings of the prompts.
template <class T>
void check(int batches, std::int64_t longest, std::int64_t prefixes, std::uint64_t seed) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<T> engine(std::move(ops), shape_of(3));
  std::mt19937_64 random(seed);
  tiny::BatchTally tally;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<BatchRequest> requests;
    while (requests.size() < 12) {
      requests.push_back(tiny::random_request(kStrategies, longest, random));
      requests.back().prompt =
          tiny::prompt_with_prefix(std::ssize(requests.back().prompt), prefixes, random);
    }
    tiny::compare_batch(engine, requests,
                        {.concurrency = 10,
                         .pages = 12 * pages_of(longest + 80),
                         .prefill_rows = 700,
                         .shuffled_pages = 1 + random() % 1000},
                        8, tally);
  }
  CHECK(tally.identical == tally.requests);
  CHECK(tally.rectifications > 0);
  CHECK(tally.shared_tokens > 0);
  std::printf(
      "%zu-byte elements: %d of %d choosing requests identical, %d of %d prompt tokens shared\n",
      sizeof(T), tally.identical, tally.requests, static_cast<int>(tally.shared_tokens),
      static_cast<int>(tally.prompt_tokens));
}

TEST_CASE("requests that choose what they read have the text that they have alone on the GPU",
          "[choosing]") {
  check<Bf16>(8, 900, 2, 31);
  check<float>(5, 400, 2, 32);
}

TEMPLATE_TEST_CASE("four requests that choose, for the checker of races [race]",
                   "[choosing_race][race]", float, Bf16) {
  const auto tokens_of = [](tiny::Engine<TestType>& engine, std::int64_t concurrency) {
    BatchSession<TestType> session(*engine.ops, engine.target, &engine.draft,
                                   {.concurrency = concurrency, .pages = 16, .shuffled_pages = 3});
    const char* const strategies[] = {"resa:b8p0.1f2n_min1/ar", "indexer:k8w4/ar",
                                      "indexer:k8w4/d1k2n3/bfs/c1/F*", "resa:b8p0.2f0n_min1/ar"};
    for (std::size_t i = 0; i < std::size(strategies); ++i) {
      session.submit(static_cast<std::int64_t>(i),
                     {.prompt = tiny::prompt(30 + 4 * static_cast<std::int64_t>(i), i),
                      .options = tiny::options(strategies[i], 3)});
    }
    std::vector<std::vector<std::int32_t>> tokens(std::size(strategies));
    while (session.running() + session.waiting() > 0) {
      for (const FinishedRequest& finished : session.step()) {
        tokens[static_cast<std::size_t>(finished.id)] = finished.generation.tokens;
      }
    }
    return tokens;
  };
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  const LlmShape shape = shape_of(2);
  tiny::Engine<TestType> engine(std::move(ops), shape, draft_shape_for(shape), 11);
  CHECK(tokens_of(engine, 4) == tokens_of(engine, 1));
}

}  // namespace
}  // namespace versieve::engine
