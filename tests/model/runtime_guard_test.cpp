// The guard by hand: when it moves, where to, and when it stops moving.
#include "model/plan/runtime_guard.h"

#include <catch2/catch.hpp>

#include "model/words/error.h"

using namespace versieve;

namespace {

// By the paper's rule, with steps of one microsecond.
RuntimeGuard next_ranked(const std::vector<double>& expected,
                         const GuardConstants& constants = {}) {
  std::vector<GuardedTuple> ranked;
  for (const double accepted : expected) {
    ranked.push_back({accepted, 1.0});
  }
  return {constants, GuardRule::kNextRanked, ranked};
}

// Steps of one yield and time until the guard moves; -1: not within 100.
int steps_until_move(RuntimeGuard& guard, double tokens, double step_us = 1.0) {
  for (int step = 1; step <= 100; ++step) {
    if (guard.observe(tokens, step_us)) {
      return step;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("a request that accepts what the table expects keeps the first tuple") {
  RuntimeGuard guard = next_ranked({6.0, 5.0});
  CHECK(steps_until_move(guard, 6.0) == -1);
  CHECK(guard.active() == 0);
  CHECK(guard.transitions() == 0);
  RuntimeGuard at_the_edge = next_ranked({6.0, 5.0});
  CHECK(steps_until_move(at_the_edge, 0.85 * 6.0 + 1e-9) == -1);
}

TEST_CASE("five low steps in a row after eight steps of warm-up move to the next tuple") {
  RuntimeGuard guard = next_ranked({6.0, 5.0, 4.0});
  CHECK(steps_until_move(guard, 1.0) == 8 + 5);
  CHECK(guard.active() == 1);
  CHECK(steps_until_move(guard, 1.0) == 8 + 5);  // a warm-up of its own
  CHECK(guard.active() == 2);
  CHECK(guard.transitions() == 2);
}

TEST_CASE("one step that lifts the smoothed yield begins the count anew") {
  RuntimeGuard guard = next_ranked({6.0, 5.0});
  for (int step = 0; step < 12; ++step) {
    REQUIRE(!guard.observe(4.0, 1.0));
  }
  // 4 + 0.2 (12 - 4) = 5.6 is above 5.1; four more steps at 4 bring it to 4.66, below from the
  // second on (5.28, 5.02, 4.82, 4.66).
  REQUIRE(!guard.observe(12.0, 1.0));
  CHECK(steps_until_move(guard, 4.0) == 1 + 5);
}

TEST_CASE("when the mismatch persists the tuple that was fastest in this request stays") {
  RuntimeGuard guard = next_ranked({6.0, 6.0, 6.0});
  steps_until_move(guard, 2.0, 2.0);                  // 1 token a microsecond
  steps_until_move(guard, 3.0, 1.0);                  // 3
  CHECK(steps_until_move(guard, 2.0, 1.0) == 8 + 5);  // 2
  CHECK(guard.active() == 1);
  CHECK(guard.has_settled());
  CHECK(guard.transitions() == 2);
  CHECK(steps_until_move(guard, 1.0) == -1);
}

TEST_CASE("of equally fast tuples the better ranked stays, and a lone tuple never moves") {
  RuntimeGuard guard = next_ranked({6.0, 6.0});
  steps_until_move(guard, 2.0);
  CHECK(steps_until_move(guard, 2.0) == 8 + 5);
  CHECK(guard.active() == 0);
  RuntimeGuard lone = next_ranked({6.0});
  CHECK(steps_until_move(lone, 1.0) == -1);
  CHECK(lone.has_settled());
  GuardConstants never;
  never.max_transitions = 0;
  RuntimeGuard still = next_ranked({6.0, 5.0}, never);
  CHECK(steps_until_move(still, 1.0) == -1);
  CHECK(still.active() == 0);
}

TEST_CASE("by promise a guard leaves deep trees for plain decoding where drafts are no use") {
  // 6 tokens in 3, 4 in 2.5, 1 in 1 microseconds: 2, 1.6 and 1 a microsecond as expected.
  const std::vector<GuardedTuple> ranked = {{6.0, 3.0}, {4.0, 2.5}, {1.0, 1.0}};
  RuntimeGuard promising({}, GuardRule::kMostPromising, ranked);
  // A tenth: within the warm-up, when 0.85 of 6 a step would give so few once in a thousand times.
  CHECK(steps_until_move(promising, 1.5, 3.0) == 7);
  CHECK(promising.active() == 2);
  CHECK(promising.transitions() == 1);
  // Tried again after seventeen steps; what it shows then is final: plain decoding was faster.
  CHECK(steps_until_move(promising, 1.0, 1.0) == 17);
  CHECK(promising.active() == 0);
  CHECK(promising.transitions() == 2);
  CHECK(steps_until_move(promising, 1.5, 3.0) > 8);
  CHECK(promising.active() == 2);
  CHECK(promising.has_settled());
  RuntimeGuard ranking({}, GuardRule::kNextRanked, ranked);
  CHECK(steps_until_move(ranking, 1.5, 3.0) == 8 + 5);
  CHECK(ranking.active() == 1);
  // Without a warm-up, seventeen steps as expected beside its own: below 3 tokens, where plain
  // decoding is as fast, after 34 steps; asked after every 5.
  RuntimeGuard patient({.warmup = 0}, GuardRule::kMostPromising, ranked);
  CHECK(steps_until_move(patient, 1.5, 3.0) == 35);
}

TEST_CASE("by promise a guard stays where nothing promises more, and asks again") {
  const std::vector<GuardedTuple> ranked = {{6.0, 3.0}, {5.9, 2.96}, {1.0, 1.0}};
  RuntimeGuard guard({}, GuardRule::kMostPromising, ranked);
  CHECK(steps_until_move(guard, 4.5, 3.0) == -1);  // 0.7 of it: 1.5, 1.4949 and 1
  CHECK(guard.transitions() == 0);
  CHECK(!guard.has_settled());
  RuntimeGuard asked({.warmup = 0}, GuardRule::kMostPromising, ranked);
  CHECK(steps_until_move(asked, 1.0, 3.0) > 5);  // it stayed at first
  CHECK(asked.active() == 2);
}

TEST_CASE("within the warm-up a guard leaves for what cannot be chance, and for nothing less") {
  const std::vector<GuardedTuple> ranked = {{6.0, 3.0}, {1.0, 1.0}};
  // (1 / 5.1)^4 = 0.0015, (1 / 5.1)^5 = 0.0003.
  RuntimeGuard useless({}, GuardRule::kMostPromising, ranked);
  CHECK(steps_until_move(useless, 1.0, 3.0) == 5);
  CHECK(useless.active() == 1);
  // A hard passage: what was left is tried again, and stays.
  CHECK(steps_until_move(useless, 1.0, 1.0) == 17);
  CHECK(useless.active() == 0);
  CHECK(steps_until_move(useless, 6.0, 3.0) == -1);
  CHECK(useless.transitions() == 2);
  RuntimeGuard unlucky({}, GuardRule::kMostPromising, ranked);
  for (int step = 0; step < 4; ++step) {
    CHECK(!unlucky.observe(1.0, 3.0));
  }
  for (int step = 0; step < 4; ++step) {
    CHECK(!unlucky.observe(6.0, 3.0));
  }
  // A text of two thirds of what is expected is within what texts do.
  RuntimeGuard weak({}, GuardRule::kMostPromising, ranked);
  for (int step = 0; step < 8; ++step) {
    CHECK(!weak.observe(4.0, 3.0));
  }
  // The paper's rule has no such eyes.
  RuntimeGuard paper({}, GuardRule::kNextRanked, ranked);
  CHECK(steps_until_move(paper, 1.0, 3.0) == 8 + 5);
}

TEST_CASE("a context that grows beyond its bucket goes on with the next one's tuples") {
  const std::vector<GuardStage> stages = {{0, {{4.0, 1.0}, {3.0, 1.0}}},
                                          {4096, {{5.0, 1.0}, {4.0, 1.0}, {3.0, 1.0}}},
                                          {8192, {{6.0, 1.0}}}};
  RuntimeGuard guard({}, GuardRule::kNextRanked, stages, 4090);
  CHECK(!guard.observe(4.0, 1.0));  // 4094
  CHECK(guard.active() == 0);
  CHECK(guard.observe(4.0, 1.0));  // 4098
  CHECK(guard.active() == 2);
  CHECK(guard.transitions() == 0);
  CHECK(steps_until_move(guard, 1.0) == 8 + 5);
  CHECK(guard.active() == 3);
  // The rank stays where it is further down; a bucket of fewer tuples has its last one.
  RuntimeGuard moved({}, GuardRule::kNextRanked, stages, 1000);
  CHECK(steps_until_move(moved, 1.0) == 8 + 5);
  CHECK(moved.active() == 1);
  CHECK(moved.pass(4000.0));
  CHECK(moved.active() == 3);
  CHECK(moved.pass(4000.0));
  CHECK(moved.active() == 5);
  CHECK(!moved.pass(40000.0));
  CHECK(moved.transitions() == 1);
  // Over a whole bucket at once.
  RuntimeGuard far({}, GuardRule::kNextRanked, stages, 4096);
  CHECK(far.pass(4097.0));
  CHECK(far.active() == 5);
}

TEST_CASE("plain decoding stays plain in the next bucket, and what is settled stays settled") {
  const std::vector<GuardStage> stages = {{0, {{6.0, 3.0}, {1.0, 1.0}}},
                                          {4096, {{6.0, 3.0}, {5.0, 3.0}, {1.0, 1.0}}}};
  RuntimeGuard guard({}, GuardRule::kMostPromising, stages, 4000);
  CHECK(steps_until_move(guard, 1.0, 3.0) == 5);
  CHECK(guard.active() == 1);
  CHECK(guard.pass(100.0));
  CHECK(guard.active() == 4);
  GuardConstants never;
  never.max_transitions = 0;
  RuntimeGuard settled(never, GuardRule::kNextRanked, stages, 4000);
  steps_until_move(settled, 1.0);
  CHECK(settled.has_settled());
  settled.pass(200.0);
  CHECK(settled.active() == 2);
  CHECK(steps_until_move(settled, 1.0) == -1);
}

TEST_CASE("constants are read by name, and the others stay") {
  const GuardConstants read = with_constants({.hysteresis = 7}, "alpha=0.5,warmup=3");
  CHECK(read.alpha == 0.5);
  CHECK(read.warmup == 3);
  CHECK(read.hysteresis == 7);
  CHECK(text_of(read) == "alpha=0.5,drop_ratio=0.85,warmup=3,hysteresis=7,max_transitions=2");
  CHECK(text_of(with_constants({}, text_of(read))) == text_of(read));
  for (const char* bad : {"", "alpha", "alpha=", "alpha=x", "alpha=0.1x", "beta=1", "warmup=1.5",
                          "warmup=99999999999999999999", "alpha=0.1,alpha=0.1", ",", "alpha=0"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(with_constants({}, bad), Error);
  }
}

TEST_CASE("constants are varied one at a time, the others as given") {
  const GuardConstants given{.alpha = 0.3, .max_transitions = 5};
  const std::vector<VariedGuard> varied = one_factor_settings(given);
  REQUIRE(varied.size() == 8);
  CHECK(varied[0].name == "alpha 0.1");
  CHECK(text_of(varied[0].constants) ==
        "alpha=0.1,drop_ratio=0.85,warmup=8,hysteresis=5,max_transitions=5");
  CHECK(varied[3].name == "drop_ratio 0.95");
  CHECK(varied[5].name == "warmup 16");
  CHECK(text_of(varied[7].constants) ==
        "alpha=0.3,drop_ratio=0.85,warmup=8,hysteresis=10,max_transitions=5");
}

TEST_CASE("constants that cannot be are named") {
  CHECK(invalid_because({}).empty());
  CHECK(invalid_because({.alpha = 0.0}).find("alpha") != std::string::npos);
  CHECK(invalid_because({.alpha = 1.5}).find("alpha") != std::string::npos);
  CHECK(invalid_because({.drop_ratio = -0.1}).find("drop ratio") != std::string::npos);
  CHECK(invalid_because({.warmup = -1}).find("warm-up") != std::string::npos);
  CHECK(invalid_because({.hysteresis = 0}).find("hysteresis") != std::string::npos);
}
