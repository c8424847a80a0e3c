// Acceptance: planted parameters come back, looping output is judged by its teacher-forced mean.
#include "engine/fit/acceptance_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("a positional model is found again from the means of tuples") {
  const AcceptanceModel model = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  CHECK(model.pair == "demo-nsa");
  REQUIRE(model.positional.size() == 4);
  for (const AcceptanceModel::Positional& p : model.positional) {
    CHECK(p.first == Approx(0.75).margin(0.02));
    CHECK(p.spread == Approx(1.2).margin(0.15));
    CHECK(p.decay == Approx(0.97).margin(0.02));
    CHECK(p.overlap == Approx(0.55));
  }
  const AcceptedTokens other =
      accepted_tokens(model, Strategy::parse("nsa/d5k4n24/bfs/c1/F*"), 0, 4096);
  AcceptanceModel::Positional truth;
  truth.first = 0.75;
  truth.spread = 1.2;
  truth.decay = 0.97;
  CHECK(other.source == Provenance::kPredicted);
  CHECK(other.mean == Approx(positional_accepted(truth, {5, 4, 24})).epsilon(0.02));
}

TEST_CASE("measured tuples answer for themselves") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  for (PointMeasurement& m : points) {
    if (m.key.strategy == "nsa/d7k1n8/bfs/c1/F*" && m.key.context_len == 1024) {
      m.acceptance->accepted_per_step = m.key.regime == "code" ? 6.0 : 4.0;
    }
  }
  const AcceptedTokens a =
      accepted_tokens(fit_acceptance(points), Strategy::parse("nsa/d7k1n8/bfs/c1/F*"), 0, 4096);
  CHECK(a.source == Provenance::kMeasured);
  CHECK(a.mean == Approx(4.5));  // regimes weigh alike
}

TEST_CASE("looping output counts by its teacher-forced mean or not at all") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  for (PointMeasurement& m : points) {
    m.acceptance->looping = true;
    m.acceptance->accepted_per_step = 7.9;
    m.acceptance->teacher_forced = 3.0;
  }
  const AcceptanceModel forced = fit_acceptance(points);
  CHECK(forced.measured.at(0).mean == Approx(3.0));
  CHECK(forced.measured.at(0).looping);
  for (PointMeasurement& m : points) {
    m.acceptance->teacher_forced.reset();
  }
  CHECK(fit_acceptance(points).positional.empty());
}

TEST_CASE("approximate groups are evidence for themselves alone") {
  const std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  std::vector<PointMeasurement> more = points;
  for (PointMeasurement m : points) {
    if (m.key.strategy == "nsa/d7k1n8/bfs/c1/F*") {
      m.key.strategy = "nsa/d7k1n8/bfs/c4a/F*";
      m.acceptance->accepted_per_step = 1.5;
      m.adjacent_overlap = 1.0;
      more.push_back(m);
    }
  }
  const AcceptanceModel without = fit_acceptance(points);
  const AcceptanceModel with = fit_acceptance(more);
  const auto mean_of = [&](const AcceptanceModel& model, const char* text) {
    return accepted_tokens(model, Strategy::parse(text), 0, 4096).mean;
  };
  CHECK(mean_of(with, "nsa/d7k1n8/bfs/c4a/F*") == Approx(1.5));
  CHECK(mean_of(with, "nsa/d7k1n8/dfs/c4a/F*") == mean_of(without, "nsa/d7k1n8/bfs/c1/F*"));
  CHECK(mean_of(with, "nsa/d7k1n8/bfs/c4e/F*") == mean_of(without, "nsa/d7k1n8/bfs/c1/F*"));
  CHECK(with.positional.at(0).first == without.positional.at(0).first);
  CHECK(with.positional.at(0).overlap == without.positional.at(0).overlap);
}

TEST_CASE("what a schedule and groups keep on measured trees is taken for the others") {
  const std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  std::vector<PointMeasurement> more = points;
  for (PointMeasurement m : points) {
    if (m.key.strategy == "nsa/d7k1n8/bfs/c1/F*") {
      m.key.strategy = "nsa/d7k1n8/bfs/c4a/(FR)*";
      m.acceptance->accepted_per_step *= 0.9;
      more.push_back(m);
    }
  }
  const AcceptanceModel with = fit_acceptance(more);
  REQUIRE(with.variants.size() == 1);
  CHECK(with.variants[0].schedule == "(FR)*");
  CHECK(with.variants[0].approximate_group == 4);
  CHECK(with.variants[0].log_ratio == Approx(std::log(0.9)));
  CHECK(with.variants[0].comparisons > 1);
  const auto tokens = [&](const char* text) {
    return accepted_tokens(with, Strategy::parse(text), 0, 4096);
  };
  const AcceptedTokens other = tokens("nsa/d5k4n16/bfs/c4a/(FR)*");
  const AcceptedTokens plain = tokens("nsa/d5k4n16/bfs/c1/F*");
  CHECK(other.mean == Approx(0.9 * plain.mean));
  CHECK(other.source == Provenance::kPredicted);
  CHECK(other.other_tree);
  CHECK(!other.other_group);
  CHECK(!other.other_schedule);
  CHECK(other.log_error > plain.log_error);
  CHECK(!tokens("nsa/d7k1n8/bfs/c4a/(FR)*").other_tree);  // measured itself
  const AcceptedTokens unlike = tokens("nsa/d5k4n16/dfs/c4a/(FR)*");
  CHECK(unlike.other_group);
  CHECK(!unlike.other_tree);
}

TEST_CASE("the test split stays unseen where there is a calibration split") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  std::vector<PointMeasurement> with_test = points;
  for (PointMeasurement m : points) {
    m.key.split = "test";
    m.acceptance->accepted_per_step = 1.0;
    with_test.push_back(m);
  }
  CHECK(fit_acceptance(with_test).measured.at(0).mean ==
        fit_acceptance(points).measured.at(0).mean);
}

TEST_CASE("what another program measured is never blended in, whatever pair it names") {
  const std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  std::vector<PointMeasurement> more = points;
  for (const char* name : {"demo-nsa", "pair-7b", "pair-7b"}) {  // the other pair has the majority
    for (PointMeasurement m : points) {
      m.key.model = name;
      m.key.backend = kImportedBackend;
      m.acceptance->accepted_per_step = 1.0;
      more.push_back(m);
    }
  }
  const AcceptanceModel without = fit_acceptance(points);
  const AcceptanceModel with = fit_acceptance(more);
  CHECK(with.pair == "demo-nsa");
  REQUIRE(with.measured.size() == without.measured.size());
  CHECK(with.measured.at(0).mean == without.measured.at(0).mean);
  CHECK(with.positional.at(0).first == without.positional.at(0).first);
  more.erase(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(points.size()));
  CHECK(fit_acceptance(more).measured.empty());
}
