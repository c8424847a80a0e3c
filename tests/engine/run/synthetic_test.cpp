// Does a synthetic session run whole steps of the declared size, again and again from one context?
#include <catch2/catch.hpp>

#include "engine/run/speculate/synthetic_session.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

struct PhaseLog final : PhaseObserver {
  std::string text;
  void phase_begins(StepPhase phase) override { text += std::string(name_of(phase)) + "("; }
  void phase_ends(StepPhase) override { text += ")"; }
};

TEST_CASE("a synthetic step verifies the declared tree and commits the declared path") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  SyntheticSession<float> session(*ops, tiny::shape(), 7);
  session.set_context(200);
  PhaseLog log;
  const Strategy strategy = Strategy::parse("nsa/d6k4n20/bfs/c1/F*");
  const StepResult first = session.step(strategy, 4, &log, true);
  CHECK(first.context_len == 200);
  CHECK(first.tree.size() == 20);
  CHECK(session.target().length() == 204);
  CHECK(log.text == "draft()verify()accept()commit()");
  CHECK(first.blocks.size() == 3);
  const StepResult again = session.step(strategy, 4);
  CHECK(again.context_len == 200);
  CHECK(again.tree.parent == first.tree.parent);
  CHECK(again.tree.token == first.tree.token);
}

TEST_CASE("a confident draft's tree is the best-first tree of the choice") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  SyntheticSession<float> session(*ops, tiny::shape(), 7);
  session.set_context(64);
  const Strategy strategy = Strategy::parse("nsa/d8k3n16/bfs/c1/F*");
  const StepResult step = session.step(strategy, 3);
  const DraftTree expected = synthetic_tree(strategy.draft);
  std::vector<float> got = step.tree.log_probability;
  std::vector<float> wanted = expected.log_probability;
  std::sort(got.begin(), got.end());
  std::sort(wanted.begin(), wanted.end());
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == Approx(wanted[i]));
  }
}

TEST_CASE("shorter contexts and plain decoding follow longer ones in one session") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  SyntheticSession<float> session(*ops, tiny::shape(), 7);
  for (const std::int64_t context_len : {300, 40, 150}) {
    session.set_context(context_len);
    CHECK(session.step(Strategy::parse("nsa/ar"), 1).context_len == context_len);
    CHECK(session.target().length() == context_len + 1);
    CHECK(session.step(Strategy::parse("nsa/d3k2n8/dfs/c1/(FR)*"), 2).tree.size() == 8);
  }
}

TEST_CASE("synthetic weights have the variance of a trained layer's inputs") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  Target<float> target =
      make_synthetic_target(*ops, tiny::shape(), tiny::draft_shape(tiny::shape()), 3);
  target.verify(chain_tree({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), {});
  double square = 0.0;
  const std::vector<float> hidden = target.hidden_states();
  for (const float x : hidden) {
    REQUIRE(std::isfinite(x));
    square += static_cast<double>(x) * static_cast<double>(x);
  }
  CHECK(square / static_cast<double>(hidden.size()) > 0.1);
  CHECK(square / static_cast<double>(hidden.size()) < 20.0);
}

}  // namespace
}  // namespace versieve::engine
