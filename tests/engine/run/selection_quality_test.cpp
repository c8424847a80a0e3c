// What `versieve quality` says of ways of reading fewer tokens: perplexity over the scored tokens,
// and pages chosen anew for each token.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/run/specattn/quality.h"
#include "model/words/error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

// A tiny pair with a map, and two texts of 90 and 60 tokens.
struct Folder {
  Folder() {
    test::TinyModel model;
    model.target.attention = AttentionKind::kDense;
    model.target.layers = 4;
    model.sharpness = 10.0;
    test::write_tiny_dense_pair(folder / "pair", model, 3);
    std::ofstream(folder / "pair/layer_map.json")
        << R"({"format": "versieve layer map", "schema": 1, "map": [0, 1, 2, 2]})";
    for (const auto& [name, length] : {std::pair{"long-1.txt", 90}, std::pair{"short-1.txt", 60}}) {
      std::ofstream text(folder / name);
      for (int i = 0; i < length; ++i) {
        text << static_cast<char>('a' + i * i % 23);
      }
    }
  }
  QualityRequest request() const {
    return {.model = folder / "pair",
            .texts = {folder / "long-1.txt", folder / "short-1.txt"},
            .shares = {0.3, 1.0},
            .lookahead = 3,
            .scored = 50,
            .chunk = 4,
            .per_token = true,
            .curve = 5,
            .backend = "cpu",
            .threads = 1};
  }
  test::TempFolder folder;
};

const QualityRow& row_of(const QualityGroup& group, const std::string& method, double p) {
  for (const QualityRow& row : group.rows) {
    if (row.method == method && row.p == p) {
      return row;
    }
  }
  throw std::logic_error("no row of " + method);
}

}  // namespace

TEST_CASE("perplexity over the scored tokens ends at that of all, and covers all texts") {
  const Folder made;
  const QualityReport report = run_quality(made.request());
  REQUIRE(report.groups.size() == 3);
  const QualityGroup& all = report.groups.back();
  CHECK(all.places == std::vector<std::int64_t>{10, 20, 30, 40, 50});
  for (const QualityRow& row : all.rows) {
    CAPTURE(row.method, row.p);
    REQUIRE(row.perplexity.size() == 5);
    CHECK(row.perplexity.back() == Approx(std::exp(row.loss)).epsilon(1e-12));
  }
  // The first ten tokens of both texts weigh the same: the mean of their logarithms.
  const auto first = [&](std::size_t group) {
    return std::log(report.groups[group].rows[0].perplexity[0]);
  };
  CHECK(first(2) == Approx(0.5 * (first(0) + first(1))).epsilon(1e-12));
  const nlohmann::ordered_json json = quality_json(report);
  CHECK(json["groups"][2]["places"] == nlohmann::ordered_json({10, 20, 30, 40, 50}));
  CHECK(json["groups"][2]["rows"][0]["cumulative_perplexity"].size() == 5);
  CHECK(quality_text(report).find("perplexity of the first tokens") != std::string::npos);
}

TEST_CASE("pages of each token read as much as its block's, and all of them give the dense text") {
  const Folder made;
  const QualityGroup all = run_quality(made.request()).groups.back();
  REQUIRE(all.rows.size() == 1 + 2 * 4);
  CHECK(row_of(all, "quest", 1.0).loss == all.rows[0].loss);  // the dense rows' very bits
  CHECK(row_of(all, "quest", 1.0).saved == 0.0);
  const QualityRow& few = row_of(all, "quest", 0.3);
  CHECK(few.saved == Approx(row_of(all, "specattn", 0.3).saved).margin(0.03));
  CHECK(few.saved > 0.1);
  CHECK(few.loss != row_of(all, "pages", 0.3).loss);
}

TEST_CASE("a curve of no points is left out, and one of too many is refused") {
  const Folder made;
  QualityRequest request = made.request();
  request.shares = {0.5};
  request.per_token = false;
  request.curve = 0;
  const QualityReport none = run_quality(request);
  CHECK(none.groups.back().places.empty());
  CHECK(none.groups.back().rows.size() == 4);
  CHECK(quality_text(none).find("first tokens") == std::string::npos);
  request.curve = 5000;
  CHECK_THROWS_AS(run_quality(request), Error);
}

}  // namespace versieve::engine
