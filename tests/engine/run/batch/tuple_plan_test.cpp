// Requests whose tuple changes from step to step: is the text that of plain decoding, and is what
// was played counted?
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/engine/run/batch/batch_cases.h"

namespace versieve::engine {
namespace {

// A tuple at random each step; it keeps what it was asked.
class RandomPlan final : public TuplePlan {
 public:
  explicit RandomPlan(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      tuples_.push_back(Strategy::parse(text));
    }
  }
  const std::vector<Strategy>& tuples() const override { return tuples_; }
  const std::vector<std::string>& remarks() const override { return remarks_; }
  std::unique_ptr<TupleChooser> chooser() const override {
    return std::make_unique<Chooser>(*this, seed_++);
  }

  mutable std::int64_t most_running = 0, observed = 0;

 private:
  class Chooser final : public TupleChooser {
   public:
    Chooser(const RandomPlan& plan, std::uint64_t seed) : plan_(&plan), random_(seed) {}
    std::size_t next(std::int64_t, std::int64_t running) override {
      plan_->most_running = std::max(plan_->most_running, running);
      return random_() % plan_->tuples_.size();
    }
    void observe(std::int64_t yielded) override { plan_->observed += yielded; }

   private:
    const RandomPlan* plan_;
    std::mt19937_64 random_;
  };

  std::vector<Strategy> tuples_;
  std::vector<std::string> remarks_;
  mutable std::uint64_t seed_ = 1;
};

template <class T>
void check_plan(const LlmShape& shape, const std::vector<std::string>& tuples, double temperature) {
  tiny::Engine<T> engine(shape);
  const auto plan = std::make_shared<RandomPlan>(tuples);
  BatchSession<T> session(*engine.ops, engine.target, &engine.draft,
                          {.concurrency = 5, .pages = 60, .prefill_rows = 70});
  std::vector<BatchRequest> requests;
  for (std::uint64_t i = 0; i < 14; ++i) {
    requests.push_back({.prompt = tiny::prompt(20 + 11 * static_cast<std::int64_t>(i), i),
                        .options = tiny::options(tuples.front(), 50),
                        .plan = plan});
    requests.back().options.temperature = temperature;
    requests.back().options.seed = i;
    session.submit(static_cast<std::int64_t>(i), requests.back());
  }
  std::int64_t steps = 0, moves = 0, yielded = 0;
  std::size_t finished = 0;
  while (session.running() + session.waiting() > 0) {
    for (const FinishedRequest& request : session.step()) {
      const std::vector<std::int64_t>& own = request.tuple_steps;
      CHECK(std::accumulate(own.begin(), own.end(), std::int64_t{0}) == request.generation.steps);
      GenerateOptions alone = requests[static_cast<std::size_t>(request.id)].options;
      alone.strategy = Strategy::parse(tuples.back());
      engine.generator.prefill(requests[static_cast<std::size_t>(request.id)].prompt);
      CHECK(engine.generator.run(alone).tokens == request.generation.tokens);
      steps += request.generation.steps;
      moves += request.tuple_moves;
      yielded += std::llround(request.generation.accepted_per_step() *
                              static_cast<double>(request.generation.steps));
      ++finished;
    }
  }
  CHECK(finished == requests.size());
  CHECK(moves > steps / 3);
  CHECK(plan->most_running == 5);
  CHECK(plan->observed == yielded);
  std::int64_t played = 0;
  for (const auto& [place, count] : session.played()) {
    CHECK(place.first <= 5);
    played += count;
  }
  CHECK(played == steps);
}

TEMPLATE_TEST_CASE("a request whose tuple changes from step to step has the text of each", "",
                   float, Bf16) {
  const std::vector<std::string> nsa = {"nsa/d4k3n12/bfs/c1/F*", "nsa/d3k4n16/dfs/c4e/F*",
                                        "nsa/d6k1n7/bfs/c1/F*/gamma=adapt", "nsa/ar"};
  check_plan<TestType>(tiny::shape(), nsa, 0.0);
  check_plan<TestType>(tiny::shape(), nsa, 0.8);
  check_plan<TestType>(tiny::shape(AttentionKind::kDense), {"dense/d4k3n12/bfs/c1/F*", "dense/ar"},
                       0.0);
  // Keys to choose by come and go.
  check_plan<TestType>(tiny::shape(AttentionKind::kDense),
                       {"dense/d5k1n6/bfs/c1/F*/draft=resa:b4p0.1n_min2", "dense/d4k3n12/bfs/c1/F*",
                        "dense/d3k1n4/bfs/c1/F*/draft=resa:b8p0.2n_min2", "dense/ar"},
                       0.0);
}

}  // namespace
}  // namespace versieve::engine
