// Requests of SpecAttn among others: has each the text, and reads it the tokens, that it has alone?
#include "engine/run/batch/chain_choice.h"

#include <catch2/catch.hpp>
#include <cstdio>

#include "engine/run/batch/batch_memory.h"
#include "tests/engine/run/batch/batch_cases.h"

namespace versieve::engine {
namespace {

template <class T>
void check_chosen(std::uint64_t draft_seed, std::int64_t layers, int batches, std::uint64_t seed,
                  std::int64_t prefixes) {
  tiny::ChoosingEngine<T> engine(draft_seed, layers);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, 250, seed, prefixes);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.choosing > batches / 2);
  CHECK(tally.reads_saved > 0.1 * tally.choosing);
  CHECK((prefixes == 0 || tally.shared_tokens > 0));
  CHECK(tally.yielded > tally.steps);
  std::printf("%d requests in %d batches, %d identical; %d of SpecAttn, %.1f %% of reads saved\n",
              tally.requests, batches, tally.identical, tally.choosing,
              100.0 * tally.reads_saved / tally.choosing);
}

TEMPLATE_TEST_CASE("a chain chooses for a request of many what it chooses for one", "", float,
                   Bf16) {
  check_chosen<TestType>(12, 2, 48, 41, 0);
  check_chosen<TestType>(12, 3, 48, 42, 2);  // prompts that begin alike
}

// The target's own weights draft: many nodes of a chain are accepted.
TEST_CASE("chains that are accepted choose alike alone and in a batch") {
  tiny::ChoosingEngine<float> engine(11, 5);
  std::vector<BatchRequest> requests;
  for (std::uint64_t i = 0; i < 9; ++i) {
    requests.push_back(
        {.prompt = tiny::prompt(100 + 30 * static_cast<std::int64_t>(i), i),
         .options = tiny::options(
             i % 3 == 2 ? "dense/d4k1n5/bfs/c1/F*" : "specattn:p0.05/d5k1n6/bfs/c1/F*", 40)});
  }
  tiny::BatchTally tally;
  tiny::compare_batch(engine, requests, {.concurrency = 6, .pages = 60}, 3, tally);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.yielded > 2 * tally.steps);
  CHECK(tally.reads_saved > 0.1 * tally.choosing);
  // What is left out is missed.
  int differ = 0;
  for (const BatchRequest& request : requests) {
    engine.generator.prefill(request.prompt);
    GenerateOptions dense = request.options;
    dense.strategy = Strategy::parse("dense/ar");
    const Generation plain = engine.generator.run(dense);
    differ += engine.generator.run(request.options).tokens != plain.tokens ? 1 : 0;
  }
  CHECK(differ >= 2);
}

TEST_CASE("the order of requests of SpecAttn changes no text") {
  tiny::ChoosingEngine<float> engine(12);
  std::mt19937_64 random(8);
  std::vector<BatchRequest> requests;
  while (requests.size() < 10) {
    requests.push_back(tiny::random_request(tiny::strategies_of_pair(engine), 200, random));
  }
  tiny::BatchTally tally;
  for (int round = 0; round < 5; ++round) {
    std::shuffle(requests.begin(), requests.end(), random);
    tiny::compare_batch(engine, requests, {.concurrency = 10, .pages = 80}, 10, tally);
  }
  CHECK(tally.identical == tally.requests);
}

// Each request takes one tuple after the other, whoever runs beside it.
class TurningPlan final : public TuplePlan {
 public:
  const std::vector<Strategy>& tuples() const override { return tuples_; }
  const std::vector<std::string>& remarks() const override { return remarks_; }
  std::unique_ptr<TupleChooser> chooser() const override {
    return std::make_unique<Chooser>(tuples_.size());
  }

 private:
  class Chooser final : public TupleChooser {
   public:
    explicit Chooser(std::size_t tuples) : tuples_(tuples) {}
    std::size_t next(std::int64_t, std::int64_t) override { return turn_++ / 2 % tuples_; }
    void observe(std::int64_t) override {}

   private:
    std::size_t tuples_, turn_ = 0;
  };

  std::vector<Strategy> tuples_ = {Strategy::parse("specattn:p0.05/d4k1n5/bfs/c1/F*"),
                                   Strategy::parse("dense/d4k3n12/bfs/c1/F*"),
                                   Strategy::parse("specattn:p0.3/d6k1n7/bfs/c1/F*"),
                                   Strategy::parse("dense/ar")};
  std::vector<std::string> remarks_;
};

TEST_CASE("a plan's tuples of SpecAttn begin and end between steps, and no text changes") {
  tiny::ChoosingEngine<float> engine(12);
  const auto plan = std::make_shared<TurningPlan>();
  std::vector<std::vector<std::int32_t>> texts[2];
  for (const std::size_t turn : {0U, 1U}) {
    auto session = tiny::session_of(engine, {.concurrency = turn == 0 ? 1 : 5, .pages = 60});
    texts[turn].resize(8);
    for (std::size_t i = 0; i < texts[turn].size(); ++i) {
      BatchRequest request{.prompt = tiny::prompt(60 + 20 * static_cast<std::int64_t>(i), i),
                           .options = tiny::options("dense/ar", 40),
                           .plan = plan};
      request.options.temperature = i % 2 == 0 ? 0.0 : 0.8;
      request.options.seed = i;
      session.submit(static_cast<std::int64_t>(i), std::move(request));
    }
    while (session.running() + session.waiting() > 0) {
      for (const FinishedRequest& finished : session.step()) {
        CHECK(finished.tuple_moves > 3);
        CHECK(finished.generation.reads_saved > 0.0);
        texts[turn][static_cast<std::size_t>(finished.id)] = finished.generation.tokens;
      }
    }
  }
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("what cannot choose tokens in a batch is refused as it is alone") {
  tiny::ChoosingEngine<float> engine(12);
  const GenerateOptions chosen = tiny::options("specattn:p0.9/d3k1n4/bfs/c1/F*", 20);
  const auto refusal = [&](const LlmShape* draft_model, bool has_layer_map) {
    return BatchSession<float>::strategy_refusal(
        chosen, engine.target.shape(),
        {.any = true, .draft_model = draft_model, .has_layer_map = has_layer_map});
  };
  LlmShape draft = engine.draft.shape();
  CHECK(refusal(&draft, true).empty());
  CHECK(refusal(nullptr, true).find("needs a draft model") != std::string::npos);
  CHECK(refusal(&draft, false).find("layer_map.json") != std::string::npos);
  draft.max_position /= 2;
  CHECK(refusal(&draft, true).find("as many positions") != std::string::npos);
  draft = engine.draft.shape();
  draft.dense_layers.assign(3, {.window = 8});
  CHECK(refusal(&draft, true).find("see a window") != std::string::npos);
  BatchSession<float> unmapped(*engine.ops, engine.target, nullptr, {.pages = 8}, &engine.draft);
  CHECK(unmapped.refusal({.prompt = tiny::prompt(9), .options = chosen}).find("layer_map.json") !=
        std::string::npos);
}

TEST_CASE("the memory of a chain's choices is counted with its request's pages") {
  tiny::ChoosingEngine<float> engine(12);
  BatchRequest request{.prompt = tiny::prompt(50),
                       .options = tiny::options("dense/d4k1n5/bfs/c1/F*", 40)};
  SessionOptions options{.concurrency = 4};
  options.layer_map = engine.generator.layer_map();
  const auto sequence_bytes = [&] {
    return plan_memory<float>(*engine.ops, false, engine.target.shape(), nullptr,
                              &engine.draft.shape(), {&request, 1}, options, 1 << 24)
        .sequence_bytes;
  };
  const std::int64_t dense = sequence_bytes();
  request.options.strategy = Strategy::parse("specattn:p0.9/d4k1n5/bfs/c1/F*");
  // Two pages, three layers, four steps; lists of layers 1 and 2.
  const std::int64_t positions = 2 * kPageTokens;
  CHECK(sequence_bytes() - dense ==
        3 * 4 * positions * 4 + 2 * (2 * positions * 4 + 4 + 8 + 4 * 4));
}

}  // namespace
}  // namespace versieve::engine
