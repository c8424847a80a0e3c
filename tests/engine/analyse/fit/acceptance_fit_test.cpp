// Acceptance: planted parameters come back, looping output is judged by its teacher-forced mean.
#include "engine/analyse/fit/acceptance_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/sibling_law.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("a positional model is found again from the means of tuples") {
  const AcceptanceModel model = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  CHECK(model.pair == "demo-nsa");
  REQUIRE(model.positional.size() == 4);
  for (const AcceptanceModel::Positional& p : model.positional) {
    CHECK(p.first == Approx(0.75).margin(0.02));
    CHECK(p.siblings == Approx(1.2).margin(0.15));
    CHECK(p.decay == Approx(0.97).margin(0.02));
    CHECK(p.overlap == Approx(0.55));
  }
  const AcceptedTokens other =
      accepted_tokens(model, Strategy::parse("nsa/d5k4n24/bfs/c1/F*"), 0, 4096);
  AcceptanceModel::Positional truth;
  truth.first = 0.75;
  truth.siblings = 1.2;
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

TEST_CASE("sampled texts are evidence for their own temperature alone") {
  const std::vector<PointMeasurement> greedy = synthetic::acceptance_points(0.75, 1.2, 0.97);
  std::vector<PointMeasurement> points = greedy;
  for (PointMeasurement m : synthetic::acceptance_points(0.6, 1.2, 0.97)) {
    m.key.temperature = 0.6;
    m.adjacent_overlap.reset();  // nobody recorded what its queries share
    m.unique_blocks.reset();
    points.push_back(m);
  }
  const Strategy chain = Strategy::parse("nsa/d7k1n8/bfs/c1/F*");
  const auto mean = [&](const AcceptanceModel& model) {
    return accepted_tokens(model, chain, 0, 4096).mean;
  };
  CHECK(mean(fit_acceptance(points)) == mean(fit_acceptance(greedy)));
  const AcceptanceModel sampled = fit_acceptance(points, 0.6);
  CHECK(mean(sampled) < mean(fit_acceptance(greedy)) - 0.5);
  CHECK(sampled.positional.at(0).first == Approx(0.6).margin(0.02));
  CHECK(sampled.positional.at(0).overlap == Approx(0.55));  // as greedy texts share
  CHECK(mean(fit_acceptance_of(points, "demo-nsa", {}, 0.6)) == mean(sampled));
  CHECK(fit_acceptance(points, 1.0).positional.empty());
  CHECK_THROWS_WITH(fit_acceptance_of(points, "demo-nsa", {}, 1.0),
                    Catch::Contains("at temperature 1"));
  CHECK(temperatures_text(points) == "0, 0.6");
  CHECK(temperatures_text({}).empty());
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
  CHECK(mean_of(without, "nsa/d7k1n8/dfs/c4a/F*") == mean_of(without, "nsa/d7k1n8/bfs/c1/F*"));
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
  const AcceptedTokens unlike = tokens("nsa/d5k4n16/bfs/c8a/(FR)*");
  CHECK(unlike.other_group);
  CHECK(!unlike.other_tree);
}

TEST_CASE("what groups keep is told by the same texts where tuples walked along them") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  const std::size_t plain = points.size();
  for (std::size_t i = 0; i < plain; ++i) {
    points[i].acceptance->teacher_forced = 3.0;
    PointMeasurement m = points[i];
    if (m.key.strategy == "nsa/d6k8n64/bfs/c1/F*") {
      m.key.strategy = "nsa/d6k8n64/bfs/c8a/F*";
      m.acceptance->accepted_per_step *= 1.1;  // texts of its own, which went well
      m.acceptance->teacher_forced = 2.7;
      points.push_back(m);
    }
  }
  const AcceptanceModel model = fit_acceptance(points);
  REQUIRE(model.variants.size() == 1);
  CHECK(model.variants[0].log_ratio == Approx(std::log(0.9)));
  points.back().acceptance->teacher_forced.reset();  // one regime of the last context
  const AcceptanceModel partly = fit_acceptance(points);
  CHECK(partly.variants.at(0).log_ratio == Approx((3.0 * std::log(0.9) + std::log(1.1)) / 4.0));
}

TEST_CASE("approximate groups measured in one order stand in for the other, less surely") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  const std::size_t plain = points.size();
  for (std::size_t i = 0; i < plain; ++i) {
    PointMeasurement m = points[i];
    if (m.key.strategy == "nsa/d6k8n64/bfs/c1/F*") {
      m.key.strategy = "nsa/d6k8n64/bfs/c4a/F*";
      m.acceptance->accepted_per_step = 2.5;
      points.push_back(m);
    }
  }
  const auto tokens = [&](const char* text) {
    return accepted_tokens(fit_acceptance(points), Strategy::parse(text), 0, 4096);
  };
  const AcceptedTokens own = tokens("nsa/d6k8n64/bfs/c4a/F*");
  const AcceptedTokens other = tokens("nsa/d6k8n64/dfs/c4a/F*");
  CHECK(own.mean == Approx(2.5));
  CHECK(!own.other_order);
  CHECK(other.mean == Approx(2.5));
  CHECK(other.other_order);
  CHECK(other.source == Provenance::kPredicted);
  CHECK(other.log_error > own.log_error);
  CHECK(tokens("nsa/d4k4n16/dfs/c4a/F*").other_order);  // by what groups keep on other trees
  PointMeasurement depth_first = points.back();
  depth_first.key.strategy = "nsa/d6k8n64/dfs/c4a/F*";
  depth_first.key.context_len = 1024;
  depth_first.acceptance->accepted_per_step = 3.0;
  points.push_back(depth_first);
  CHECK(tokens("nsa/d6k8n64/dfs/c4a/F*").mean == Approx(3.0));
  CHECK(!tokens("nsa/d6k8n64/dfs/c4a/F*").other_order);
  CHECK(tokens("nsa/d6k8n64/bfs/c4a/F*").mean == Approx(2.5));
}

TEST_CASE("what groups share is known by order where layers were recorded") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  const AcceptanceModel before = fit_acceptance(points);
  CHECK(knows_order(before, Traversal::kBfs));  // these trees' own order, by its overlap alone
  CHECK(!knows_order(before, Traversal::kDfs));
  const AcceptedSharing stands_in = accepted_sharing(before, Traversal::kDfs, 0, 4096);
  CHECK(stands_in.other_order);
  CHECK(stands_in.order.overlap == Approx(0.55));
  CHECK(stands_in.order.group == std::array<double, 3>{});
  for (PointMeasurement& m : points) {
    const bool chain = m.key.strategy.find("k1n") != std::string::npos;
    for (const std::int64_t layer : {0, 1}) {
      for (const SharingAlong along : {SharingAlong::kBfs, SharingAlong::kDfs}) {
        BlockSharing row{.along = along, .layer = layer, .steps = 10};
        const double more = along == SharingAlong::kDfs ? 0.1 : 0.0;
        row.overlap[1] = chain ? 0.9 : 0.5 + more + 0.1 * static_cast<double>(layer);
        row.loads_saved = {chain ? 0.45 : 0.25 + more, 0.5 + more, std::nullopt};
        if (m.key.num_queries >= 8) {
          row.loads_saved[2] = 0.625 + more;
        }
        m.sharing.push_back(row);
      }
    }
  }
  const AcceptanceModel after = fit_acceptance(points);
  const AcceptedSharing bfs = accepted_sharing(after, Traversal::kBfs, 0, 4096);
  const AcceptedSharing dfs = accepted_sharing(after, Traversal::kDfs, 0, 4096);
  CHECK(!dfs.other_order);
  CHECK(bfs.order.overlap == Approx(0.55));  // of trees: a chain is the same in both orders
  CHECK(dfs.order.overlap == Approx(0.65));
  CHECK(bfs.order.group[0] == Approx(2.0 * 0.75));
  CHECK(dfs.order.group[0] == Approx(2.0 * 0.65));
  CHECK(bfs.order.group[1] == Approx(4.0 * 0.5));
  CHECK(bfs.order.group[2] == Approx(8.0 * 0.375));
  CHECK(dfs.order.group[2] == Approx(8.0 * 0.275));
  CHECK(accepted_overlap(after, 0, 4096) == Approx(0.55));  // of whole trees, as before
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
      m.key.backend = Backend::kImported;
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

TEST_CASE("one pair under two names is one pair") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].key.pair = std::string(64, 'a');
    points[i].key.model = i % 2 == 0 ? "mine" : "moved";
  }
  const std::vector<AcceptancePair> pairs = acceptance_pairs(points);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].points == static_cast<std::int64_t>(points.size()));
  CHECK(fit_acceptance(points).measured.size() ==
        fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97)).measured.size());
}
