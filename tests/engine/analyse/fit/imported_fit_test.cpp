// Acceptance that another program measured, or that is assumed: whose it is, what it predicts.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/sibling_law.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

// Steps of an imported chain of `depth`, each token right with probability `rate` on its own.
PointMeasurement imported_chain(double rate, std::int64_t depth) {
  PointMeasurement m;
  const DraftChoice draft = {depth, 1, depth + 1};
  m.key = {.workload = WorkloadKind::kAcceptance,
           .model = "pair-7b",
           .regime = "unstated",
           .strategy = Strategy{.attention = AttentionMethod::kDense, .draft = draft}.text(),
           .backend = Backend::kImported,
           .context_len = 6144};
  m.acceptance = AcceptanceMeasurement{.steps = 100000};
  AcceptanceMeasurement& a = *m.acceptance;
  a.accepted_histogram = {0};
  for (std::int64_t tokens = 1; tokens <= depth + 1; ++tokens) {
    const double reached = std::pow(rate, static_cast<double>(tokens - 1));
    a.accepted_histogram.push_back(
        std::llround(100000.0 * reached * (tokens <= depth ? 1.0 - rate : 1.0)));
    a.generated_tokens += tokens * a.accepted_histogram.back();
  }
  a.accepted_per_step = static_cast<double>(a.generated_tokens) / 100000.0;
  return m;
}

}  // namespace

TEST_CASE("a pair is planned with by its own name alone, a measured one before an imported one") {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.75, 1.2, 0.97);
  const AcceptanceModel own = fit_acceptance(points);
  points.push_back(imported_chain(0.6, 5));
  points.push_back(imported_chain(0.6, 3));
  points.back().key.model = "demo-nsa";
  CHECK(listed(acceptance_pairs(points)) ==
        "demo-nsa (measured, 64 points), demo-nsa (imported, 1 point), pair-7b (imported, 1 "
        "point)");
  CHECK(fit_acceptance_of(points, "demo-nsa", {}).positional.at(1).first ==
        own.positional.at(1).first);
  CHECK(fit_acceptance_of(points, "pair-7b", own).origin == AcceptanceOrigin::kImported);
  CHECK_THROWS_WITH(fit_acceptance_of(points, "pair", own),
                    Catch::Contains("no acceptance of a pair 'pair'") &&
                        Catch::Contains("pair-7b (imported, 1 point)"));
}

TEST_CASE("an imported chain predicts every shorter one, and trees as far as pairs are alike") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  const AcceptanceModel model = fit_acceptance_of({imported_chain(0.6, 5)}, "pair-7b", lender);
  const auto tokens = [&](const char* text, std::int64_t low) {
    return accepted_tokens(model, Strategy::parse(text), low, low + 4096);
  };
  const AcceptedTokens five = tokens("nsa/d5k1n6/bfs/c1/F*", 4096);
  CHECK(five.source == Provenance::kImported);
  CHECK(five.mean == Approx((1.0 - std::pow(0.6, 6)) / 0.4).epsilon(1e-3));
  const AcceptedTokens two = tokens("nsa/d2k1n3/bfs/c1/F*", 4096);
  CHECK(two.source == Provenance::kPredicted);
  CHECK(two.mean == Approx(1.0 + 0.6 + 0.36).epsilon(0.01));
  CHECK(two.log_error < 0.05);
  AcceptanceModel::Positional alike;
  alike.first = 0.6;
  alike.siblings = 1.2;
  alike.decay = 1.0;
  const AcceptedTokens tree = tokens("nsa/d5k4n32/bfs/c1/F*", 4096);
  CHECK(tree.mean == Approx(positional_accepted(alike, {5, 4, 32})).epsilon(0.03));
  CHECK(tree.log_error > two.log_error);
  // The siblings' part of that: other pairs' trees that are as far from the lender's as assumed.
  alike.siblings = 1.2 + distance_between_pairs(kSiblingLaw);
  CHECK(std::log(positional_accepted(alike, {5, 4, 32}) / tree.mean) < tree.log_error * 1.1);
  CHECK(!tree.outside_data);
  CHECK(tokens("nsa/d5k4n32/bfs/c1/F*", 0).outside_data);
  CHECK(accepted_overlap(model, 0, 4096) == Approx(0.55));
  CHECK(model.note ==
        "measured by another program in 1 point; no tree was measured, so how siblings help is as "
        "of demo-nsa; overlap of selected blocks is as of demo-nsa");
}

TEST_CASE("an imported tree settles how siblings help") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  AcceptanceModel::Positional truth;
  truth.first = 0.6;
  truth.siblings = 0.7;
  PointMeasurement tree = imported_chain(0.6, 5);
  tree.key.strategy = "dense/d5k4n16/bfs/c1/F*";
  tree.acceptance->accepted_histogram.clear();  // some programs keep a mean alone
  tree.acceptance->accepted_per_step = positional_accepted(truth, {5, 4, 16});
  const Strategy asked = Strategy::parse("nsa/d5k8n32/bfs/c1/F*");
  const AcceptanceModel chain = fit_acceptance_of({imported_chain(0.6, 5)}, "pair-7b", lender);
  const AcceptanceModel both = fit_acceptance_of({imported_chain(0.6, 5), tree}, "pair-7b", lender);
  const double mean = positional_accepted(truth, asked.draft);
  const AcceptedTokens blind = accepted_tokens(chain, asked, 4096, 8192);
  const AcceptedTokens seen = accepted_tokens(both, asked, 4096, 8192);
  CHECK(std::abs(std::log(seen.mean / mean)) < 0.5 * std::abs(std::log(blind.mean / mean)));
  CHECK(seen.log_error < 0.7 * blind.log_error);
  CHECK(both.note.find("siblings") == std::string::npos);
}

TEST_CASE("an imported pair without a plain draft is refused, and needs no lender else") {
  PointMeasurement reuse = imported_chain(0.6, 5);
  reuse.key.strategy = "nsa/d5k1n6/bfs/c1/(FR)*";
  CHECK_THROWS_WITH(fit_acceptance_of({reuse}, "pair-7b", {}), Catch::Contains("pair-7b"));
  const AcceptanceModel alone = fit_acceptance_of({imported_chain(0.6, 5)}, "pair-7b", {});
  REQUIRE(alone.positional.size() == 1);
  CHECK(alone.positional[0].first == Approx(0.6).epsilon(0.02));
  CHECK(alone.note.find("a guess") != std::string::npos);
}

TEST_CASE("an assumed rate is every depth's, with the siblings of the measured pairs") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  const AcceptanceModel model = assumed_acceptance(0.5, lender);
  CHECK(model.origin == AcceptanceOrigin::kAssumed);
  CHECK(model.pair == "assumed 0.5");
  const AcceptedTokens chain =
      accepted_tokens(model, Strategy::parse("nsa/d3k1n4/bfs/c1/F*"), 0, 4096);
  CHECK(chain.mean == Approx(1.875));
  CHECK(chain.source == Provenance::kPredicted);
  CHECK(accepted_overlap(model, 0, 4096) == Approx(0.55));
  CHECK(
      accepted_tokens(assumed_acceptance(0.5, {}), Strategy::parse("nsa/d3k1n4/bfs/c1/F*"), 0, 4096)
          .mean == Approx(1.875));
  CHECK(model.note.find("which nobody measured") != std::string::npos);
  REQUIRE(model.positional.size() == lender.positional.size());
  for (const AcceptanceModel::Positional& p : model.positional) {
    CHECK(p.siblings == kSiblingLaw.siblings);
  }
  const std::string far = assumed_acceptance(0.05, lender).note;
  CHECK(far.find("at rates from") != std::string::npos);
  const double measured = (kSiblingLaw.least_rate + kSiblingLaw.most_rate) / 2.0;
  CHECK(assumed_acceptance(measured, lender).note.find("at rates from") == std::string::npos);
  for (const double rate : {-0.1, 1.5, std::nan("")}) {
    CHECK_THROWS_WITH(assumed_acceptance(rate, lender), Catch::Contains("between 0 and 1"));
  }
}

TEST_CASE("an assumed rate near none promises nothing, and none is certain of itself") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  const Strategy tree = Strategy::parse("nsa/d2k8n32/bfs/c1/F*");
  double before = 1.0;
  for (const double rate : {0.0, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0}) {
    const AcceptedTokens tokens = accepted_tokens(assumed_acceptance(rate, lender), tree, 0, 4096);
    CAPTURE(rate);
    CHECK(tokens.mean >= before);
    const double level = 1.0 - std::pow(1.0 - rate, 1.0 + kSiblingLaw.siblings *
                                                              std::log(8.0));  // of eight children
    CHECK(tokens.mean <= 1.0 + level + level * level + 1e-12);
    CHECK(((rate == 0.0) == (tokens.log_error == 0.0)));
    before = tokens.mean;
  }
  CHECK(before == Approx(3.0));
}

TEST_CASE("imported rates near none and near one stay within what they allow") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 0.97));
  for (const double rate : {0.0, 0.02, 0.98, 1.0}) {
    const AcceptanceModel model = fit_acceptance_of({imported_chain(rate, 5)}, "pair-7b", lender);
    CAPTURE(rate, model.positional[1].first);
    for (const char* text : {"nsa/d2k8n32/bfs/c1/F*", "nsa/d5k4n32/bfs/c1/F*"}) {
      const Strategy strategy = Strategy::parse(text);
      const double tokens = accepted_tokens(model, strategy, 4096, 8192).mean;
      CHECK(tokens >= 1.0);
      CHECK(tokens <= static_cast<double>(strategy.draft.depth + 1));
      if (rate < 0.1) {
        CHECK(tokens <= 1.0 + 2.5 * (rate + 0.02));
      } else {
        CHECK(tokens >= 0.95 * static_cast<double>(strategy.draft.depth + 1));
      }
    }
  }
}

TEST_CASE("of drafts that were cut short the plan knows the first token and a bound") {
  const AcceptanceModel lender = fit_acceptance(synthetic::acceptance_points(0.75, 1.2, 1.0));
  PointMeasurement cut = imported_chain(0.6, 5);
  AcceptanceMeasurement& a = *cut.acceptance;
  // Half the steps drafted one token alone: whoever went on, went on as before.
  for (std::size_t tokens = 3; tokens < a.accepted_histogram.size(); ++tokens) {
    const std::int64_t stopped = a.accepted_histogram[tokens] / 2;
    a.accepted_histogram[tokens] -= stopped;
    a.accepted_histogram[2] += stopped;
    a.generated_tokens -= stopped * static_cast<std::int64_t>(tokens - 2);
  }
  a.accepted_per_step = static_cast<double>(a.generated_tokens) / static_cast<double>(a.steps);
  const Strategy five = Strategy::parse("nsa/d5k1n6/bfs/c1/F*");
  const auto model = [&] { return fit_acceptance_of({cut}, "pair-7b", lender); };
  CHECK(accepted_tokens(model(), five, 4096, 8192).mean == Approx(a.accepted_per_step));
  cut.reliability = Reliability::kAtLeast;
  cut.reason = "drafts were 3.00 tokens long in the mean";
  const AcceptedTokens predicted = accepted_tokens(model(), five, 4096, 8192);
  CHECK(predicted.source == Provenance::kPredicted);
  CHECK(predicted.mean == Approx((1.0 - std::pow(0.6, 6)) / 0.4).epsilon(0.03));
  CHECK(predicted.log_error > 0.05);  // how it falls with depth is another pair's
  CHECK(model().note.find("; drafts were 3.00 tokens long in the mean") != std::string::npos);
}

// Planted: the other pair has the same name, other weights, more points and other yields.
TEST_CASE(
    "pairs of one name and other weights are two, and none is fitted with the other's points") {
  const std::string mine(64, 'a'), theirs(64, 'b');
  const auto of = [](const std::string& sha256, double first) {
    std::vector<PointMeasurement> points = synthetic::acceptance_points(first, 1.2, 0.97);
    for (PointMeasurement& m : points) {
      m.key.pair = sha256;
    }
    return points;
  };
  const std::vector<PointMeasurement> own = of(mine, 0.75);
  std::vector<PointMeasurement> both = of(theirs, 0.2);
  both.push_back(both.back());
  both.back().key.context_len = 2048;
  both.insert(both.end(), own.begin(), own.end());
  const AcceptanceModel alone = fit_acceptance(own);
  CHECK(alone.sha256 == mine);
  CHECK(alone.overlap_of == PairId{"demo-nsa", mine});
  const AcceptanceModel most = fit_acceptance(both);
  CHECK(most.sha256 == theirs);
  CHECK(most.measured.size() == alone.measured.size() + 1);
  const AcceptanceModel named = fit_acceptance_of(both, "aaaaaaaa", {});
  CHECK(named.sha256 == mine);
  REQUIRE(named.measured.size() == alone.measured.size());
  for (std::size_t i = 0; i < alone.measured.size(); ++i) {
    CHECK(named.measured[i].mean == alone.measured[i].mean);
    CHECK(named.measured[i].steps == alone.measured[i].steps);
  }
  CHECK(named.positional.at(0).first == alone.positional.at(0).first);
  CHECK_THROWS_WITH(fit_acceptance_of(both, "demo-nsa", {}),
                    Catch::Contains("several pairs are called 'demo-nsa'") &&
                        Catch::Contains("sha256 aaaaaaaaaaaa"));
  CHECK_THROWS_WITH(fit_acceptance_of(both, "aaaaaaa", {}), Catch::Contains("no acceptance of"));
  CHECK(assumed_acceptance(0.5, named).overlap_of == PairId{"demo-nsa", mine});
  CHECK(assumed_acceptance(0.5, named).sha256.empty());
}
