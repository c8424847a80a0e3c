// What a rate and a tree may promise: tokens a step grow with both and never pass what they allow.
#include "model/cost/acceptance.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace versieve;

namespace {

const std::vector<double> kRates = {0.0,  0.001, 0.01, 0.05, 0.1, 0.2,  0.3,  0.4,   0.45, 0.5,
                                    0.55, 0.6,   0.7,  0.8,  0.9, 0.95, 0.99, 0.999, 1.0};
const std::vector<double> kSpreads = {0.05, 0.5, 0.9, 1.5, 3.0, 6.0};

AcceptanceModel::Positional at_rate(double rate, double spread = 0.9, double decay = 1.0) {
  AcceptanceModel::Positional model;
  model.first = rate;
  model.spread = spread;
  model.decay = decay;
  return model;
}

std::vector<DraftChoice> trees() {
  std::vector<DraftChoice> out;
  for (const std::int64_t depth : {1, 2, 3, 5, 8}) {
    for (const std::int64_t width : {1, 2, 4, 8}) {
      for (const std::int64_t nodes : {2, 4, 8, 16, 32, 64, 128}) {
        out.push_back({depth, width, nodes});
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the best child has the rate, each sibling less than the one before, all at most one") {
  constexpr std::int64_t kWidth = 8;
  for (const double spread : kSpreads) {
    for (const double rate : kRates) {
      const AcceptanceModel::Positional model = at_rate(rate, spread);
      CAPTURE(rate, spread);
      double before = 1.0;
      double sum = 0.0;
      for (std::int64_t j = 1; j <= kWidth; ++j) {
        const double all = positional_accepted(model, {1, kWidth, j + 1});
        const double child = all - 1.0 - sum;
        CHECK(child >= 0.0);
        CHECK(child <= before + 1e-15);
        if (j == 1) {
          CHECK(child == Approx(rate));
        } else if (rate > 0.0 && rate < 1.0) {
          CHECK(child < rate);
          CHECK(child <= 1.0 - rate + 1e-15);
        }
        before = child;
        sum += child;
      }
      CHECK(sum <= 1.0 + 1e-12);
    }
  }
}

TEST_CASE("tokens a step grow with the rate and stay between one and the depth and one") {
  for (const double spread : kSpreads) {
    for (const DraftChoice& tree : trees()) {
      double before = 0.0;
      for (const double rate : kRates) {
        const double tokens = positional_accepted(at_rate(rate, spread), tree);
        CAPTURE(rate, spread, tree.depth, tree.width, tree.nodes);
        CHECK(tokens >= before - 1e-12);
        CHECK(tokens >= 1.0);
        CHECK(tokens <= static_cast<double>(tree.levels() + 1) + 1e-9);
        // A level is reached at most as often as all children of a path are right.
        const double all = std::min(1.0, 2.0 * rate);
        double most = 1.0;
        for (std::int64_t level = 1; level <= tree.depth; ++level) {
          most += std::pow(all, static_cast<double>(level));
        }
        CHECK(tokens <= most + 1e-9);
        before = tokens;
      }
      CHECK(positional_accepted(at_rate(0.0, spread), tree) == 1.0);
      CHECK(positional_accepted(at_rate(1.0, spread), tree) ==
            Approx(static_cast<double>(tree.levels() + 1)));
    }
  }
}

TEST_CASE("a chain yields the geometric sum of its rate") {
  for (const double rate : kRates) {
    for (std::int64_t depth = 1; depth <= 8; ++depth) {
      double sum = 1.0;
      for (std::int64_t level = 1; level <= depth; ++level) {
        sum += std::pow(rate, static_cast<double>(level));
      }
      CHECK(positional_accepted(at_rate(rate), {depth, 1, depth + 1}) == Approx(sum));
    }
  }
}

TEST_CASE("more nodes and more depth never cost tokens") {
  for (const double rate : kRates) {
    for (const double spread : kSpreads) {
      const AcceptanceModel::Positional model = at_rate(rate, spread, 0.97);
      for (const DraftChoice& tree : trees()) {
        CAPTURE(rate, spread, tree.depth, tree.width, tree.nodes);
        const double tokens = positional_accepted(model, tree);
        CHECK(positional_accepted(model, {tree.depth, tree.width, tree.nodes + 1}) >=
              tokens - 1e-12);
        CHECK(positional_accepted(model, {tree.depth + 1, tree.width, tree.nodes}) >=
              tokens - 1e-12);
      }
    }
  }
}

TEST_CASE("a lower bound answers for no tuple") {
  AcceptanceModel model{.pair = "p", .origin = AcceptanceOrigin::kImported};
  model.positional = {at_rate(0.6)};
  model.positional[0].context_high = 4096;
  model.measured = {{.draft = {5, 1, 6}, .schedule = "F*", .context_len = 2048, .mean = 1.7}};
  const Strategy chain = Strategy::parse("nsa/d5k1n6/bfs/c1/F*");
  CHECK(accepted_tokens(model, chain, 0, 4096).mean == 1.7);
  model.measured[0].at_least = true;
  const AcceptedTokens predicted = accepted_tokens(model, chain, 0, 4096);
  CHECK(predicted.source == Provenance::kPredicted);
  CHECK(predicted.mean == Approx(positional_accepted(model.positional[0], {5, 1, 6})));
}
