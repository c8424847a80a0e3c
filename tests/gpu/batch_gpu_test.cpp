// Has a request the same text alone, in any batch and in any order, on the GPU?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>
#include <tuple>

#include "engine/run/model/kv_pool.h"
#include "engine/run/model/synthetic.h"
#include "tests/engine/run/batch/batch_cases.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

// The demo pair's geometry, whose kernels are those of real models, with few layers.
LlmShape demo_shape(AttentionKind attention) {
  LlmShape shape = named_llm_shape("demo");
  shape.layers = 3;
  shape.attention = attention;
  return shape;
}

template <class T>
void check(const LlmShape& shape, int batches, std::int64_t longest, std::uint64_t seed) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<T> engine(std::move(ops), shape);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, longest, seed);
  CHECK(tally.identical == tally.requests);
  CHECK((batches == 1 || tally.yielded > tally.steps));  // a small batch may accept roots alone
  std::printf("%s, %zu-byte elements: %d of %d requests identical, %.2f tokens a drafted step\n",
              shape.name.c_str(), sizeof(T), tally.identical, tally.requests,
              static_cast<double>(tally.yielded) / static_cast<double>(tally.steps));
}

TEST_CASE("a request's text is the same alone and in any batch on the GPU, tiny") {
  check<float>(tiny::shape(), 20, 150, 1);
  check<Bf16>(tiny::shape(), 20, 150, 2);
  check<float>(tiny::shape(AttentionKind::kDense), 10, 150, 3);
  check<Bf16>(tiny::shape(AttentionKind::kDense), 10, 150, 4);
}

TEST_CASE("a request's text is the same alone and in any batch on the GPU, a real geometry") {
  check<Bf16>(demo_shape(AttentionKind::kNsa), 20, 900, 5);
  check<Bf16>(demo_shape(AttentionKind::kDense), 10, 900, 6);
  check<float>(demo_shape(AttentionKind::kNsa), 5, 400, 7);
}

// Requests that join one step after the other; contexts pass bounds of recorded steps on the way.
void check_recorded(const LlmShape& shape, const std::vector<std::string>& strategies,
                    std::int64_t least_replays, std::int64_t concurrency = 20) {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<Bf16> engine(std::move(ops), shape);
  std::mt19937_64 random(12);
  std::vector<BatchRequest> requests;
  for (std::size_t i = 0; i < 24; ++i) {
    requests.push_back(
        {.prompt = tiny::prompt(970 + static_cast<std::int64_t>(random() % 60), random()),
         .options = tiny::options(strategies[i % strategies.size()],
                                  20 + static_cast<std::int64_t>(random() % 40))});
  }
  tiny::BatchTally tally;
  tiny::compare_batch(
      engine, requests,
      {.concurrency = concurrency, .pages = 24 * pages_of(1200), .prefill_rows = 2000}, 16, tally);
  CHECK(tally.identical == tally.requests);
  CHECK(engine.target.recordings().replays() >= least_replays);
  std::printf("%s: %d of %d requests identical, %d steps replayed, %d recorded, %d ahead\n",
              strategies.front().c_str(), tally.identical, tally.requests,
              static_cast<int>(engine.target.recordings().replays()),
              static_cast<int>(engine.target.recordings().recordings()),
              static_cast<int>(tally.steps_ahead));
}

TEST_CASE("a request's text is the same alone and in steps that are recorded") {
  const LlmShape nsa = demo_shape(AttentionKind::kNsa);
  check_recorded(nsa, {"nsa/ar"}, 21);
  check_recorded(nsa, {"nsa/d4k3n12/bfs/c4e/F*"}, 0);
  check_recorded(
      nsa, {"nsa/ar", "nsa/ar/bfs/c1/FRR", "nsa/d3k4n16/dfs/c4e/F*", "nsa/d5k2n9/bfs/c2e/FRR"}, 0);
  // Calls of the vanilla form run apart, with scratch of their own size.
  check_recorded(nsa,
                 {"nsa/ar", "nsa/d4k3n12/bfs/c1/F*/form=vanilla", "nsa/d3k4n16/dfs/c4e/F*",
                  "nsa/ar/bfs/c1/FRR/form=vanilla"},
                 0);
  const LlmShape dense = demo_shape(AttentionKind::kDense);
  check_recorded(dense, {"dense/ar"}, 21);
  check_recorded(dense, {"dense/d4k3n12/bfs/c1/F*"}, 0);
  check_recorded(dense, {"dense/ar", "dense/d3k4n16/dfs/c1/F*", "dense/d6k1n7/bfs/c1/F*"}, 0);
}

TEST_CASE("a request alone in a session has the same text in steps that are recorded") {
  const LlmShape nsa = demo_shape(AttentionKind::kNsa);
  check_recorded(nsa, {"nsa/ar", "nsa/ar/bfs/c1/FRR"}, 300, 1);
  check_recorded(nsa, {"nsa/ar", "nsa/d4k3n12/bfs/c4e/F*"}, 100, 1);
  check_recorded(demo_shape(AttentionKind::kDense), {"dense/ar"}, 300, 1);
}

// Contexts that pass a bound one after the other, each asking for a little more scratch memory.
TEST_CASE("recordings hold while contexts pass a bound in their turns") {
  for (const AttentionKind attention : {AttentionKind::kDense, AttentionKind::kNsa}) {
    std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
    if (ops == nullptr) {
      return;
    }
    tiny::Engine<Bf16> engine(std::move(ops), demo_shape(attention));
    const bool dense = attention == AttentionKind::kDense;
    std::vector<BatchRequest> requests;
    for (std::int64_t i = 0; i < 12; ++i) {
      requests.push_back({.prompt = tiny::prompt(1000 + 2 * i, static_cast<std::uint64_t>(i)),
                          .options = tiny::options(dense ? "dense/ar" : "nsa/ar", 60)});
    }
    tiny::BatchTally tally;
    tiny::compare_batch(engine, requests,
                        {.concurrency = 12, .pages = 12 * pages_of(1200), .prefill_rows = 13000},
                        12, tally);
    CHECK(tally.identical == tally.requests);
    const StepRecordings<Bf16>& recordings = engine.target.recordings();
    CHECK((!dense || recordings.replays() >= 40));
    std::printf("%s: %d steps replayed, %d recorded\n", dense ? "dense" : "nsa",
                static_cast<int>(recordings.replays()), static_cast<int>(recordings.recordings()));
  }
}

TEST_CASE("a small batch, for the checker of memory [small]", "[small]") {
  check<Bf16>(demo_shape(AttentionKind::kNsa), 1, 200, 8);
  check<Bf16>(demo_shape(AttentionKind::kDense), 1, 200, 9);
  check<float>(tiny::shape(), 1, 60, 10);
}

// Tokens of the requests in sessions of so many at once.
template <class Pair>
std::vector<std::vector<std::int32_t>> tokens_of(Pair& engine,
                                                 const std::vector<BatchRequest>& requests,
                                                 std::int64_t concurrency) {
  auto session = tiny::session_of(engine, {.concurrency = concurrency, .pages = 16});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    session.submit(static_cast<std::int64_t>(i), requests[i]);
  }
  std::vector<std::vector<std::int32_t>> tokens(requests.size());
  while (session.running() + session.waiting() > 0) {
    for (const FinishedRequest& finished : session.step()) {
      tokens[static_cast<std::size_t>(finished.id)] = finished.generation.tokens;
    }
  }
  return tokens;
}

TEST_CASE("two requests of a few tokens, for the checker of races [race]", "[race]") {
  const auto [attention, plain, drafted] =
      GENERATE(std::tuple(AttentionKind::kNsa, "nsa/ar/bfs/c1/FR", "nsa/d1k2n3/bfs/c1/F*"),
               std::tuple(AttentionKind::kDense, "dense/ar", "dense/d1k2n3/bfs/c1/F*"));
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  LlmShape shape = demo_shape(attention);
  shape.layers = 2;
  DraftShape draft = draft_shape_for(shape);
  tiny::Engine<Bf16> engine(std::move(ops), shape, draft, 11);
  const std::vector<BatchRequest> requests = {
      {.prompt = tiny::prompt(50, 1), .options = tiny::options(plain, 3)},
      {.prompt = tiny::prompt(40, 2), .options = tiny::options(drafted, 3)}};
  CHECK(tokens_of(engine, requests, 2) == tokens_of(engine, requests, 1));
}

TEMPLATE_TEST_CASE("two chains that choose tokens, and one that does not [race]",
                   "[specattn_batch][race]", float, Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  tiny::ChoosingEngine<TestType> engine(std::move(ops), demo_shape(AttentionKind::kDense), 12);
  const std::vector<BatchRequest> requests = {
      {.prompt = tiny::prompt(70, 1),
       .options = tiny::options("specattn:p0.3/d2k1n3/bfs/c1/F*", 4)},
      {.prompt = tiny::prompt(40, 2),
       .options = tiny::options("specattn:p0.5/d1k1n2/bfs/c1/F*", 3)},
      {.prompt = tiny::prompt(50, 3), .options = tiny::options("dense/d1k2n3/bfs/c1/F*", 3)}};
  CHECK(tokens_of(engine, requests, 3) == tokens_of(engine, requests, 1));
}

// Chains that choose tokens among requests of every other class of a dense target, which the same
// model drafts for. `draft_seed` 11: the target's own weights, whose drafts are accepted.
template <class T>
void check_choosing(const LlmShape& shape, std::uint64_t draft_seed, std::int64_t draft_layers,
                    int batches, std::int64_t longest, std::int64_t prefixes) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  tiny::ChoosingEngine<T> engine(std::move(ops), shape, draft_seed, draft_layers);
  const tiny::BatchTally tally =
      tiny::compare_random_batches(engine, batches, longest, 41 + draft_seed, prefixes);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.choosing > batches / 2);
  CHECK(tally.reads_saved > 0.1 * tally.choosing);
  CHECK((prefixes == 0 || tally.shared_tokens > 0));
  CHECK(tally.yielded > tally.steps);
  std::printf(
      "%s, %zu-byte elements, a draft model: %d of %d requests identical, %d of SpecAttn, %.1f %% "
      "of reads saved, %.2f tokens a drafted step\n",
      shape.name.c_str(), sizeof(T), tally.identical, tally.requests, tally.choosing,
      100.0 * tally.reads_saved / tally.choosing,
      static_cast<double>(tally.yielded) / static_cast<double>(tally.steps));
}

TEMPLATE_TEST_CASE("chains choose in a batch on the GPU what they choose alone", "[specattn_batch]",
                   float, Bf16) {
  const LlmShape tiny = tiny::shape(AttentionKind::kDense);
  check_choosing<TestType>(tiny, 12, 2, 12, 250, 0);
  check_choosing<TestType>(tiny, 11, 5, 12, 250, 2);
  const LlmShape demo = demo_shape(AttentionKind::kDense);
  check_choosing<TestType>(demo, 12, 3, 12, 900, 0);
  check_choosing<TestType>(demo, 11, 5, 12, 900, 2);
}

TEST_CASE("prompts that begin alike are read once on the GPU, and no text changes [prefix]",
          "[prefix]") {
  const auto check_alike = []<class T>(std::unique_ptr<kernels::Ops<T>> ops, const LlmShape& shape,
                                       int batches, std::int64_t longest) {
    if (ops == nullptr) {
      return;
    }
    tiny::Engine<T> engine(std::move(ops), shape);
    const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, longest, 11, 2);
    CHECK(tally.identical == tally.requests);
    CHECK(tally.shared_tokens > 0);
    std::printf(
        "%s, %zu-byte elements: %d of %d requests identical, %lld of %lld prompt tokens "
        "shared\n",
        shape.name.c_str(), sizeof(T), tally.identical, tally.requests,
        static_cast<long long>(tally.shared_tokens), static_cast<long long>(tally.prompt_tokens));
  };
  check_alike(test::try_gpu_ops<float>(), tiny::shape(), 10, 400);
  check_alike(test::try_gpu_ops<Bf16>(), tiny::shape(AttentionKind::kDense), 10, 400);
  check_alike(test::try_gpu_ops<Bf16>(), demo_shape(AttentionKind::kNsa), 10, 900);
  check_alike(test::try_gpu_ops<Bf16>(), demo_shape(AttentionKind::kDense), 6, 900);
}

// Pieces of more than 256 tokens, which have an attention launch of their own, beside steps of
// others and over pages that others read.
TEST_CASE("long pieces of prompts that begin alike leave every text as it is alone on the GPU",
          "[long_pieces]") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<Bf16> engine(std::move(ops), demo_shape(AttentionKind::kNsa));
  std::mt19937_64 random(23);
  tiny::BatchTally tally;
  for (int batch = 0; batch < 4; ++batch) {
    std::vector<BatchRequest> requests;
    while (requests.size() < 10) {
      requests.push_back(
          tiny::random_request(tiny::batch_strategies(engine.target.shape()), 1, random));
      requests.back().prompt =
          tiny::prompt_with_prefix(400 + static_cast<std::int64_t>(random() % 1000), 2, random);
    }
    tiny::compare_batch(engine, requests,
                        {.concurrency = 6,
                         .pages = 6 * pages_of(1500),
                         .prefill_rows = 600 + static_cast<std::int64_t>(random() % 1200),
                         .shuffled_pages = 1 + random() % 1000},
                        4, tally);
  }
  CHECK(tally.identical == tally.requests);
  CHECK(tally.shared_tokens > 0);
  std::printf("long pieces: %d of %d requests identical, %d of %d prompt tokens shared\n",
              tally.identical, tally.requests, static_cast<int>(tally.shared_tokens),
              static_cast<int>(tally.prompt_tokens));
}

template <class Pair>
void check_long(Pair&& engine) {
  const tiny::BatchTally tally = tiny::compare_long(engine, 150);
  CHECK(tally.requests > 0);
  CHECK(tally.identical == tally.requests);
}

TEMPLATE_TEST_CASE("2,000 sampled batches on the GPU leave every text as it is alone [long]",
                   "[.long]", float, Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  SECTION("NSA") {
    check_long(tiny::Engine<TestType>(std::move(ops), tiny::shape()));
  }
  SECTION("a dense target with a draft head") {
    check_long(tiny::Engine<TestType>(std::move(ops), tiny::shape(AttentionKind::kDense)));
  }
  SECTION("a dense target with a draft model, SpecAttn too") {
    check_long(
        tiny::ChoosingEngine<TestType>(std::move(ops), tiny::shape(AttentionKind::kDense), 12));
  }
}

// Four prompts of 8,192 tokens arrive while eight requests decode (nsa-1b, random weights).
void time_prompts(kernels::Ops<Bf16>& ops, Target<Bf16>& target, std::int64_t rows) {
  constexpr std::int64_t kPrompt = 8192;
  BatchSession<Bf16> session(ops, target, nullptr,
                             {.concurrency = 12,
                              .pages = 12 * pages_of(kPrompt + 100),
                              .prefill_rows = rows,
                              .shares_prefixes = false});
  std::mt19937_64 random(3);
  const auto submit = [&](std::int64_t id, std::int64_t tokens, std::int64_t answer) {
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(tokens));
    for (std::int32_t& token : prompt) {
      token = static_cast<std::int32_t>(random() % 100000);
    }
    session.submit(id, {.prompt = prompt, .options = tiny::options("nsa/ar", answer)});
  };
  for (std::int64_t id = 0; id < 8; ++id) {
    submit(id, 64, 250);
  }
  std::vector<FinishedRequest> all;
  std::int64_t steps = 0;
  while (session.running() + session.waiting() > 0) {
    for (FinishedRequest& finished : session.step()) {
      all.push_back(std::move(finished));
    }
    if (++steps == 20) {
      for (std::int64_t id = 8; id < 12; ++id) {
        submit(id, kPrompt, 4);
      }
    }
  }
  std::vector<double> gaps, first;
  double begin = 1e300, end = 0.0;
  for (const FinishedRequest& request : all) {
    if (request.id >= 8) {
      first.push_back((request.first_token - request.submitted) * 1e3);
      begin = std::min(begin, request.submitted);
      end = std::max(end, request.first_token);
    } else {
      gaps.insert(gaps.end(), request.gaps.begin() + 20, request.gaps.end());
    }
  }
  std::sort(gaps.begin(), gaps.end());
  std::sort(first.begin(), first.end());
  std::printf(
      "%lld rows a step: first tokens after %.0f to %.0f ms, %.0f prompt tokens/s, gaps of "
      "those that decode p50 %.2f, p90 %.2f, p99 %.2f ms\n",
      static_cast<long long>(rows), first.front(), first.back(), 4.0 * kPrompt / (end - begin),
      gaps[gaps.size() / 2] * 1e3, gaps[gaps.size() * 9 / 10] * 1e3,
      gaps[gaps.size() * 99 / 100] * 1e3);
}

TEST_CASE("what prompts take beside requests that decode", "[.timing]") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const LlmShape shape = named_llm_shape("nsa-1b");
  Target<Bf16> target = make_synthetic_target(*ops, shape, draft_shape_for(shape), 1);
  for (const std::int64_t rows : {1024, 256, 512, 1024, 2048}) {  // the first one loads kernels
    time_prompts(*ops, target, rows);
  }
}

}  // namespace
}  // namespace versieve::engine
