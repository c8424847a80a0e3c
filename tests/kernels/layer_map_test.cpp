// layer_map against every monotone map tried in turn, and by hand.
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu.h"

namespace versieve::kernels {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

struct Mapped {
  std::vector<std::int32_t> map;
  double score = 0.0;
};

Mapped run(const std::vector<double>& similarity, std::int64_t m, std::int64_t n) {
  Mapped got{.map = std::vector<std::int32_t>(static_cast<std::size_t>(n), -7), .score = -7.0};
  layer_map_cpu({.draft_layers = m,
                 .verifier_layers = n,
                 .similarity = similarity.data(),
                 .map = got.map.data(),
                 .score = &got.score});
  return got;
}

// Counts through all m^n maps in lexicographic order: the first best one is the elementwise
// smallest, because the smallest of two optimal maps, place by place, is optimal too.
Mapped tried(const std::vector<double>& similarity, std::int64_t m, std::int64_t n) {
  Mapped best{.map = std::vector<std::int32_t>(static_cast<std::size_t>(n), -1),
              .score = kForbidden};
  std::vector<std::int32_t> map(static_cast<std::size_t>(n), 0);
  while (true) {
    double score = 0.0;
    bool monotone = true;
    for (std::size_t j = 0; j < map.size(); ++j) {
      score += similarity[static_cast<std::size_t>(map[j] * n) + j];
      monotone = monotone && (j == 0 || map[j - 1] <= map[j]);
    }
    if (monotone && score > best.score) {
      best = {map, score};
    }
    std::size_t place = map.size();
    while (place > 0 && map[place - 1] == m - 1) {
      map[--place] = 0;
    }
    if (place == 0) {
      return best;
    }
    ++map[place - 1];
  }
}

}  // namespace

TEST_CASE("layer_map: a draft layer may serve several verifier layers and may be left out") {
  // Rows: draft layers. The diagonal would be best for 0, 1, 3; layer 2 of the draft helps nobody.
  const Mapped got = run({-1, -5, -5, -5,  //
                          -5, -2, -3, -9,  //
                          -8, -8, -8, -8,  //
                          -9, -9, -9, -1},
                         4, 4);
  CHECK(got.map == std::vector<std::int32_t>{0, 1, 1, 3});
  CHECK(got.score == -7.0);
}

TEST_CASE("layer_map gives up the best pairs where they cross") {
  // Each verifier layer alone would take 1, 0: together they may not.
  const Mapped got = run({-10, -1,  //
                          -2, -4},
                         2, 2);
  CHECK(got.map == std::vector<std::int32_t>{1, 1});
  CHECK(got.score == -6.0);
}

TEST_CASE("layer_map takes the elementwise smallest of equal maps") {
  CHECK(run({0, 0, 0, 0, 0, 0}, 2, 3).map == std::vector<std::int32_t>{0, 0, 0});
  // The end must be 1; before it 0 and 1 are equal.
  CHECK(run({-1, -9, -1, -1}, 2, 2).map == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("layer_map keeps away from forbidden pairs, or says that there is no map") {
  const Mapped some = run({kForbidden, -3, -1, kForbidden}, 2, 2);
  CHECK(some.map == std::vector<std::int32_t>{-1, -1});  // only (1, 0) is left, and it falls
  CHECK(some.score == kForbidden);
  const Mapped way = run({-1, kForbidden, kForbidden, -2}, 2, 2);
  CHECK(way.map == std::vector<std::int32_t>{0, 1});
  CHECK(way.score == -3.0);
}

TEST_CASE("layer_map equals the best of all monotone maps, ties included") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t m = 1 + static_cast<std::int64_t>(random() % 5);
    const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 5);
    std::vector<double> similarity;
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double value = -static_cast<double>(random() % 4);  // few values: many ties
      similarity.push_back(random() % 9 == 0 ? kForbidden : value);
    }
    const Mapped want = tried(similarity, m, n);
    const Mapped got = run(similarity, m, n);
    CAPTURE(round, m, n, similarity);
    CHECK(got.map == want.map);
    CHECK(got.score == want.score);
  }
}

}  // namespace versieve::kernels
