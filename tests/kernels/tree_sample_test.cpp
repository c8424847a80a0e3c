// tree_sample on the CPU: the rules one by one, and the law of its output found by enumeration.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
using Ints = std::vector<std::int32_t>;

struct Tree {
  std::int64_t samples = 1, vocab = 0;
  double temperature = 1.0;
  std::vector<double> logits;
  Ints parent, token;
  std::vector<double> uniforms;

  Ints accepted = {}, tokens = {}, path = {};
  std::vector<double> tau = {};

  void run() {
    const std::size_t cells = static_cast<std::size_t>(samples) * parent.size();
    accepted.assign(static_cast<std::size_t>(samples), -9);
    tokens.assign(cells, -9);
    path.assign(cells, -9);
    tau.assign(cells, -9.0);
    tree_sample_cpu(TreeSampleParams<double>{.samples = samples,
                                             .num_nodes = static_cast<std::int64_t>(parent.size()),
                                             .vocab = vocab,
                                             .temperature = temperature,
                                             .target_logits = logits.data(),
                                             .parent = parent.data(),
                                             .token = token.data(),
                                             .uniforms = uniforms.data(),
                                             .accepted = accepted.data(),
                                             .tokens = tokens.data(),
                                             .path = path.data(),
                                             .tau = tau.data()},
                    1);
  }
};

// The law of the first new token, from the reported tau and the rule of the last draw: sibling c is
// reached with the product of the earlier (1 - tau), and after all siblings the rest is drawn from
// what is left of the root's law.
std::vector<double> first_token_law(const Tree& t) {
  std::vector<double> law(static_cast<std::size_t>(t.vocab), 0.0);
  std::vector<double> left = softmax_row(t.logits.data(), t.vocab, t.temperature);
  double reached = 1.0;
  for (std::size_t i = 1; i < t.parent.size(); ++i) {
    if (t.parent[i] == 0) {
      const std::size_t x = static_cast<std::size_t>(t.token[i]);
      law[x] += reached * t.tau[i];
      reached *= 1.0 - t.tau[i];
      left[x] = 0.0;
    }
  }
  for (std::size_t x = 0; reached > 1e-15 && x < law.size(); ++x) {
    law[x] += reached * left[x] / sum_of(left);
  }
  return law;
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double distance = 0.0;
  for (std::size_t x = 0; x < a.size(); ++x) {
    distance = std::max(distance, std::abs(a[x] - b[x]));
  }
  return distance;
}

Tree bushy() {
  return {.vocab = 6,
          .logits = test::random_tensor<double>(7 * 6, 41),
          .parent = {-1, 0, 0, 0, 1, 1, 3},
          .token = {9 % 6, 2, 5, 0, 1, 4, 3},
          .uniforms = std::vector<double>(7, 0.5)};
}

}  // namespace

TEST_CASE("tree_sample's first token follows the target's law exactly; testing p/q would not",
          "[tree_sample]") {
  for (const double temperature : {1.0, 0.3, 2.5}) {
    Tree t = bushy();
    t.temperature = temperature;
    t.run();
    const std::vector<double> p = softmax_row(t.logits.data(), t.vocab, temperature);
    CHECK(furthest(first_token_law(t), p) < 1e-12);
    // Wrong on purpose: tau of later siblings from the untouched law.
    for (std::size_t i = 1; i < t.parent.size(); ++i) {
      if (t.parent[i] == 0) {
        t.tau[i] = p[static_cast<std::size_t>(t.token[i])];
      }
    }
    CHECK(furthest(first_token_law(t), p) > 1e-3);
  }
}

// Runs the sampler over a fine grid of uniforms for the root's two children and the draw, so that
// the output's law is measured, not derived from tau.
TEST_CASE("tree_sample's decisions over a grid of uniforms give the target's law",
          "[tree_sample]") {
  const std::int64_t grid = 60;
  Tree t{.samples = grid * grid * grid,
         .vocab = 4,
         .logits = test::random_tensor<double>(12, 42),
         .parent = {-1, 0, 0}};
  for (std::int64_t a = 0; a < grid * grid * grid; ++a) {
    for (const std::int64_t u : {a % grid, a / grid % grid, a / grid / grid}) {
      t.uniforms.push_back((static_cast<double>(u) + 0.5) / static_cast<double>(grid));
    }
    t.token.insert(t.token.end(), {0, 3, 1});
  }
  t.run();
  std::vector<double> law(4, 0.0);
  for (std::size_t r = 0; r < static_cast<std::size_t>(t.samples); ++r) {
    law[static_cast<std::size_t>(t.tokens[3 * r])] += 1.0 / static_cast<double>(t.samples);
  }
  const std::vector<double> p = softmax_row(t.logits.data(), 4, 1.0);
  CHECK(furthest(law, p) < 2.0 / static_cast<double>(grid));
  std::vector<double> swapped = p;
  std::swap(swapped[1], swapped[3]);
  CHECK(furthest(law, swapped) > 2.0 / static_cast<double>(grid));  // the bound can tell
}

TEST_CASE("tree_sample walks the accepted path and reports nodes and tokens", "[tree_sample]") {
  Tree t = bushy();
  t.uniforms = {0.999999, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};  // node 1 fails, node 2 passes
  t.run();
  CHECK(t.accepted == Ints{1});
  CHECK(t.path == Ints{2, -1, -1, -1, -1, -1, -1});
  CHECK(t.tokens[0] == 5);
  CHECK(t.tokens[1] == 0);  // u = 0 draws the lowest token of node 2's law
  CHECK(t.tokens[2] == -1);
  CHECK(t.tau[0] == 1.0);
  t.uniforms.assign(7, 0.0);  // the first child every time
  t.run();
  CHECK(t.path == Ints{1, 4, -1, -1, -1, -1, -1});
  CHECK(Ints(t.tokens.begin(), t.tokens.begin() + 3) == Ints{2, 1, 0});
}

TEST_CASE("tree_sample gives a repeated or impossible proposal tau = 0 and never takes it",
          "[tree_sample]") {
  Tree t{.vocab = 3,
         .logits = {0, 0, kNever, 0, 0, 0, 0, 0, 0, 0, 0, 0},
         .parent = {-1, 0, 0, 0},
         .token = {0, 1, 1, 2},
         .uniforms = {0.9, 0.0, 0.0, 0.999}};
  t.run();
  CHECK(t.tau == std::vector<double>{1.0, 0.5, 0.0, 0.0});
  CHECK(t.accepted == Ints{0});
  CHECK(t.tokens[0] == 0);
}

TEST_CASE("tree_sample at temperature 0 takes the lowest argmax or draws it", "[tree_sample]") {
  Tree t{.vocab = 3,
         .temperature = 0.0,
         .logits = {1, 4, 4, 0, 2, 0, 0, 0, 0},
         .parent = {-1, 0, 0},
         .token = {0, 2, 1},
         .uniforms = {0.0, 0.99, 0.5}};
  t.run();
  CHECK(t.tau == std::vector<double>{1.0, 0.0, 1.0});
  CHECK(t.path == Ints{2, -1, -1});
  CHECK(Ints(t.tokens.begin(), t.tokens.begin() + 2) == Ints{1, 0});
  t.token = {0, 2, 0};
  t.run();
  CHECK(t.tokens == Ints{1, -1, -1});
}

TEST_CASE("tree_sample draws from the untouched law when every possible token was rejected",
          "[tree_sample]") {
  Tree t{.vocab = 2,
         .logits = {0, kNever, 0, 0},
         .parent = {-1, 0},
         .token = {0, 0},
         .uniforms = {1.5, 0.5}};  // outside [0, 1), so that tau = 1 is rejected
  t.run();
  CHECK(t.accepted == Ints{0});
  CHECK(t.tokens == Ints{0, -1});
}

TEST_CASE("a tree of one node is a plain draw", "[tree_sample]") {
  Tree t{.vocab = 2, .logits = {0, 0}, .parent = {-1}, .token = {0}, .uniforms = {0.6}};
  t.run();
  CHECK(t.accepted == Ints{0});
  CHECK(t.tokens == Ints{1});
  CHECK(t.path == Ints{-1});
}

}  // namespace versieve::kernels
