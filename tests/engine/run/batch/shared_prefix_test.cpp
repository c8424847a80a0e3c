// Prompts that begin alike: which tokens are not computed again, and is the text the same?
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/engine/run/batch/batch_cases.h"

namespace versieve::engine {
namespace {

template <class T>
void check_prefixes(const LlmShape& shape, int batches, std::int64_t prefixes, std::uint64_t seed) {
  tiny::Engine<T> engine(shape);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, 400, seed, prefixes);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.shared_tokens > tally.prompt_tokens / 8);
  CHECK(tally.yielded > tally.steps);
  std::printf("%d requests, %d identical, %lld of %lld prompt tokens shared\n", tally.requests,
              tally.identical, static_cast<long long>(tally.shared_tokens),
              static_cast<long long>(tally.prompt_tokens));
}

TEMPLATE_TEST_CASE("requests whose prompts begin alike have the texts that they have alone", "",
                   float, double) {
  check_prefixes<TestType>(tiny::shape(), 12, 1, 21);
  check_prefixes<TestType>(tiny::shape(), 12, 2, 22);
  check_prefixes<TestType>(tiny::shape(AttentionKind::kDense), 12, 2, 23);
}

TEST_CASE("prefixes are shared where compression is after rotary, and of odd strides") {
  LlmShape shape = tiny::shape();
  shape.compress_stage = CompressStage::kAfterRope;
  check_prefixes<float>(shape, 10, 1, 24);
  shape = tiny::shape();
  shape.nsa.cmp_block = 10;
  shape.nsa.cmp_stride = 5;
  shape.nsa.sel_block = 20;
  check_prefixes<float>(shape, 10, 1, 25);
}

struct Arrival {
  std::int64_t tokens = 0;
  const char* strategy = "nsa/ar";
  std::int64_t max_new_tokens = 5;
  std::uint64_t seed = 1;  // of the prompt
};

// Tokens of each prompt that were not computed again; `one_by_one`: each follows when the one
// before it has ended.
std::vector<std::int64_t> shared(const std::vector<Arrival>& arrivals, bool one_by_one,
                                 SessionOptions options = {.concurrency = 8, .pages = 60}) {
  static tiny::Engine<float> engine;
  BatchSession<float> session(*engine.ops, engine.target, &engine.draft, options);
  std::vector<std::int64_t> out(arrivals.size(), -1);
  const auto run = [&] {
    while (session.running() + session.waiting() > 0) {
      for (const FinishedRequest& request : session.step()) {
        out[static_cast<std::size_t>(request.id)] = request.shared_tokens;
      }
    }
  };
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Arrival& a = arrivals[i];
    session.submit(static_cast<std::int64_t>(i),
                   {.prompt = tiny::prompt(a.tokens, a.seed),
                    .options = tiny::options(a.strategy, a.max_new_tokens)});
    if (one_by_one) {
      run();
    }
  }
  run();
  return out;
}

TEST_CASE("whole pages within both prompts are shared, whether the other runs or has ended") {
  const std::vector<Arrival> arrivals = {{200}, {150}, {130, "nsa/ar", 5, 2}, {200}, {64}, {63}};
  for (const bool one_by_one : {false, true}) {
    // of 200 tokens three pages; of 64 all but the last, whose logits are asked for
    CHECK(shared(arrivals, one_by_one) == std::vector<std::int64_t>{0, 128, 0, 192, 63, 0});
  }
}

TEST_CASE("a request that drafts shares pages with one that kept entries as far back") {
  const char* const tree = "nsa/d4k3n12/bfs/c1/F*";
  // The draft sees 20 tokens. Prompts that join together keep what the others ask for.
  CHECK(shared({{200, tree}, {130, tree}}, false) == std::vector<std::int64_t>{0, 127});
  // The first keeps entries from 181 on; the second needs them from 111 on and makes them.
  CHECK(shared({{200, tree}, {130, tree}}, true) == std::vector<std::int64_t>{0, 110});
  CHECK(shared({{130, tree}, {200, tree}}, true) == std::vector<std::int64_t>{0, 128});
  CHECK(shared({{130}, {130, tree}, {130, tree}}, true) == std::vector<std::int64_t>{0, 110, 127});
  CHECK(shared({{130, tree}, {130, tree}, {130}}, true) == std::vector<std::int64_t>{0, 127, 128});
}

TEST_CASE("a request that ends at its first token leaves its prompt to those that wait for it") {
  CHECK(shared({{200, "nsa/ar", 1}, {200}, {190}}, false) ==
        std::vector<std::int64_t>{0, 192, 128});
}

TEST_CASE("pages that others wrote over hold nobody's prompt") {
  const SessionOptions narrow{.concurrency = 1, .pages = 4};
  // four pages each, and no more there are: the second takes the first's place
  CHECK(shared({{180}, {180, "nsa/ar", 5, 2}, {180}}, true, narrow) ==
        std::vector<std::int64_t>{0, 0, 0});
  CHECK(shared({{180}, {180}, {180, "nsa/ar", 5, 2}, {180, "nsa/ar", 5, 2}}, true, narrow) ==
        std::vector<std::int64_t>{0, 128, 0, 128});
  CHECK(shared({{180}, {180}}, true, {.concurrency = 1, .pages = 4, .shares_prefixes = false}) ==
        std::vector<std::int64_t>{0, 0});
}

TEST_CASE("a prompt is kept as far as its pages are free") {
  KeptPrompts kept;
  const std::vector<std::int32_t> text = tiny::prompt(400);
  kept.keep({.pages = {2, 6}, .prompt = text});
  CHECK(kept.longest(text, {20, 7}).pages == 6);
  CHECK(kept.longest(text, {2, 7}).pages == 6);  // in its own place
  CHECK(kept.longest(text, {0, 7}).pages == 0);  // it would be written over
  CHECK(kept.longest(text, {5, 7}).pages == 3);
  CHECK(kept.longest(tiny::prompt(130), {20, 3}).pages == 2);
  CHECK(kept.cost(text, {20, 7}) == 0);
  CHECK(kept.cost(tiny::prompt(400, 9), {5, 7}) == 6);
  CHECK(kept.cost(text, {2, 7}) == -1);
  kept.forget({5, 2});
  CHECK(kept.longest(text, {20, 7}).pages == 3);
  kept.forget({0, 3});
  CHECK(kept.longest(text, {20, 7}).from == nullptr);
}

}  // namespace
}  // namespace versieve::engine
