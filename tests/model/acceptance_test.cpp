// What a rate and a tree may promise: tokens a step grow with both and never pass what they allow.
#include "model/cost/acceptance.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace versieve;

namespace {

const std::vector<double> kRates = {0.0,  0.001, 0.01, 0.05, 0.1, 0.2,  0.3,  0.4,   0.45, 0.5,
                                    0.55, 0.6,   0.7,  0.8,  0.9, 0.95, 0.99, 0.999, 1.0};
const std::vector<double> kSiblings = {0.0, 0.05, 0.3, 0.55, 0.9, kMostSiblings};

AcceptanceModel::Positional at_rate(double rate, double siblings = 0.55, double decay = 1.0) {
  AcceptanceModel::Positional model;
  model.first = rate;
  model.siblings = siblings;
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
  for (const double siblings : kSiblings) {
    for (const double rate : kRates) {
      const AcceptanceModel::Positional model = at_rate(rate, siblings);
      CAPTURE(rate, siblings);
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
  for (const double siblings : kSiblings) {
    for (const DraftChoice& tree : trees()) {
      double before = 0.0;
      for (const double rate : kRates) {
        const double tokens = positional_accepted(at_rate(rate, siblings), tree);
        CAPTURE(rate, siblings, tree.depth, tree.width, tree.nodes);
        CHECK(tokens >= before - 1e-12);
        CHECK(tokens >= 1.0);
        CHECK(tokens <= static_cast<double>(tree.levels() + 1) + 1e-9);
        // A level is reached at most as often as all children of a path are right.
        const double guesses = 1.0 + siblings * std::log(static_cast<double>(tree.width));
        const double all = 1.0 - std::pow(1.0 - rate, guesses);
        double most = 1.0;
        for (std::int64_t level = 1; level <= tree.depth; ++level) {
          most += std::pow(all, static_cast<double>(level));
        }
        CHECK(tokens <= most + 1e-9);
        before = tokens;
      }
      CHECK(positional_accepted(at_rate(0.0, siblings), tree) == 1.0);
      CHECK(positional_accepted(at_rate(1.0, siblings), tree) ==
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

TEST_CASE("siblings are worth as many guesses as the law says, and no more") {
  // Of eight children: 1 - 0.4^(1 + 0.5 ln 8).
  CHECK(positional_accepted(at_rate(0.6, 0.5), {1, 8, 9}) ==
        Approx(2.0 - std::pow(0.4, 1.0 + 0.5 * std::log(8.0))));
  CHECK(positional_accepted(at_rate(0.6, 0.0), {1, 8, 9}) == Approx(1.6));
  // At a twentieth, thirty-two nodes on two levels: less than one guess and a half each.
  CHECK(positional_accepted(at_rate(0.05), {2, 8, 32}) < 1.2);
}

TEST_CASE("more nodes, more depth and more width never cost tokens, and a tree yields its chain") {
  for (const double rate : kRates) {
    for (const double siblings : kSiblings) {
      const AcceptanceModel::Positional model = at_rate(rate, siblings, 0.97);
      for (const DraftChoice& tree : trees()) {
        CAPTURE(rate, siblings, tree.depth, tree.width, tree.nodes);
        const double tokens = positional_accepted(model, tree);
        CHECK(positional_accepted(model, {tree.depth, tree.width, tree.nodes + 1}) >=
              tokens - 1e-12);
        CHECK(positional_accepted(model, {tree.depth + 1, tree.width, tree.nodes}) >=
              tokens - 1e-12);
        CHECK(positional_accepted(model, {tree.depth, tree.width + 1, tree.nodes}) >=
              tokens - 1e-12);
        CHECK(positional_accepted(model, {tree.depth, 1, tree.nodes}) <= tokens + 1e-12);
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
