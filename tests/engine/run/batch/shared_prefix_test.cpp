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
                   float, Bf16) {
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
std::vector<std::int64_t> shared_in(tiny::Engine<float>& engine,
                                    const std::vector<Arrival>& arrivals, bool one_by_one,
                                    SessionOptions options = {.concurrency = 8, .pages = 60}) {
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
std::vector<std::int64_t> shared(const std::vector<Arrival>& arrivals, bool one_by_one,
                                 SessionOptions options = {.concurrency = 8, .pages = 60}) {
  static tiny::Engine<float> engine;
  return shared_in(engine, arrivals, one_by_one, options);
}

TEST_CASE("requests that choose what they read share pages with all of a dense target") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  const std::vector<Arrival> arrivals = {{200, "dense/ar"},
                                         {200, "indexer:k24w8/ar"},
                                         {150, "resa:b4p0.1f8n_min2/ar"},
                                         {200, "indexer:k16w4/ar"}};
  for (const bool one_by_one : {false, true}) {
    CHECK(shared_in(engine, arrivals, one_by_one) == std::vector<std::int64_t>{0, 192, 128, 192});
  }
  // Seven pages in scattered order are room for an indexer's six and none beside it.
  CHECK(shared_in(engine, {{300, "indexer:k24w8/ar"}, {300, "indexer:k24w8/ar"}}, true,
                  {.concurrency = 1, .pages = 7, .shuffled_pages = 9}) ==
        std::vector<std::int64_t>{0, 256});
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
  // The first keeps entries from 181 on; the second needs them from 111 on and makes them, in pages
  // of its own.
  CHECK(shared({{200, tree}, {130, tree}}, true) == std::vector<std::int64_t>{0, 64});
  CHECK(shared({{130, tree}, {200, tree}}, true) == std::vector<std::int64_t>{0, 128});
  CHECK(shared({{130}, {130, tree}, {130, tree}}, true) == std::vector<std::int64_t>{0, 64, 127});
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

TEST_CASE("a prompt is kept as far as nobody wrote over its pages") {
  KeptPrompts kept([](std::int64_t tokens) { return tokens / 256; });  // a page of four
  const std::vector<std::int32_t> text = tiny::prompt(400);
  kept.keep({.pages = {{2, 9, 4, 5, 6, 3}, {1}}, .prompt = text});
  const auto take = [&](std::vector<std::int32_t> tokens, std::vector<std::int32_t> compressed,
                        std::int64_t shared = 0) {
    SequencePages taken;
    taken.tokens = std::move(tokens);
    taken.compressed = std::move(compressed);
    taken.shared = shared;
    kept.forget(taken);
  };
  const auto left = [&] {
    return kept.prompts().empty() ? 0 : std::ssize(kept.prompts()[0].pages.tokens);
  };
  take({7, 8}, {3});
  CHECK(left() == 6);
  take({2, 9, 10}, {}, 2);  // shares two, takes one
  CHECK(left() == 6);
  take({3}, {});
  CHECK(left() == 5);
  take({}, {1});  // what the fourth page completes
  CHECK(left() == 3);
  CHECK(kept.prompts()[0].pages.compressed.empty());
  take({9}, {});
  CHECK(left() == 1);
  take({2}, {});
  CHECK(left() == 0);
}

TEST_CASE("a prompt whose pages another holds too is kept once") {
  KeptPrompts kept([](std::int64_t) { return 0; });
  const std::vector<std::int32_t> text = tiny::prompt(400);
  kept.keep({.pages = {{1, 2}, {}}, .prompt = text, .entries = {.from = 1, .end = 0}});
  kept.keep({.pages = {{1, 2, 3}, {}}, .prompt = text, .entries = {.from = 1, .end = 0}});
  CHECK(kept.prompts().size() == 1);
  kept.keep({.pages = {{1, 4}, {}}, .prompt = text, .entries = {.from = 1, .end = 0}});
  CHECK(kept.prompts().size() == 2);  // goes on differently
  kept.keep({.pages = {{1, 2, 3}, {}}, .prompt = text, .entries = {.from = 100, .end = 193}});
  kept.keep({.pages = {{1, 2, 3}, {}}, .prompt = text, .entries = {.from = 1, .end = 0}});
  CHECK(kept.prompts().size() == 3);  // has entries that the newest has not
}

TEST_CASE(
    "a page that prompts share is stored once, and what they do not share is all they wait for") {
  tiny::Engine<float> engine;
  // 300 tokens and what may follow are six pages each, four of them one beginning's.
  const BatchRequest request{.prompt = tiny::prompt(300), .options = tiny::options("nsa/ar", 5)};
  CHECK(BatchSession<float>::pages_needed(engine.target.shape(), request) == 6);
  for (const auto& [pages, together] : {std::pair{6, 1}, {7, 1}, {8, 2}, {9, 2}, {10, 3}}) {
    BatchSession<float> session(*engine.ops, engine.target, &engine.draft,
                                {.concurrency = 3, .pages = pages});
    for (std::int64_t id = 0; id < 3; ++id) {
      session.submit(id, request);
    }
    std::int64_t finished = 0;
    while (session.running() + session.waiting() > 0) {
      finished += std::ssize(session.step());
    }
    CHECK(finished == 3);
    CHECK(session.most_running() == together);
    CHECK(session.most_pages() == 6 + 2 * (together - 1));
    CHECK(session.most_saved_pages() == 4 * (together - 1));
  }
}

// Requests join and end at random: a request waits only while fewer pages are free than it needs.
TEST_CASE("whoever waits needs more pages than are free, and none is lost") {
  tiny::Engine<float> engine;
  std::mt19937_64 random(31);
  for (int round = 0; round < 8; ++round) {
    BatchSession<float> session(*engine.ops, engine.target, &engine.draft,
                                {.concurrency = 50,
                                 .pages = 24,
                                 .shares_prefixes = round % 2 == 0,
                                 .shuffled_pages = random()});
    const std::int64_t all = session.free_pages();
    CHECK(all == 24);
    std::deque<std::int64_t> needs;
    for (std::int64_t id = 0; id < 40; ++id) {
      BatchRequest request{.prompt = tiny::prompt_with_prefix(
                               1 + static_cast<std::int64_t>(random() % 400), 2, random),
                           .options = tiny::options("nsa/d4k3n12/bfs/c1/F*",
                                                    1 + static_cast<std::int64_t>(random() % 20))};
      needs.push_back(BatchSession<float>::pages_needed(engine.target.shape(), request));
      session.submit(id, std::move(request));
    }
    while (session.running() + session.waiting() > 0) {
      const std::int64_t before = session.waiting();
      const bool ended = !session.step().empty();
      for (std::int64_t joined = before - session.waiting(); joined > 0; --joined) {
        needs.pop_front();
      }
      // Those that ended gave pages back after others could join.
      if (session.waiting() > 0 && !ended) {
        CHECK(session.free_pages() < needs.front());
      }
    }
    CHECK(session.free_pages() == all);
  }
}

}  // namespace
}  // namespace versieve::engine
