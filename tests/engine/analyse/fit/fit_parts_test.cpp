// The parts of a fit: all run, what they throw comes out in order, a caller hears of each and can
// end them, and nothing of the threads shows in a fit.
#include "engine/analyse/fit/fit_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/fit_file.h"
#include "model/words/error.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

TEST_CASE("every part runs once, and the share that is done grows to all of it") {
  std::vector<double> shares;
  const GoesOn goes_on = [&](double share) {
    shares.push_back(share);
    return true;
  };
  for (const int threads : {1, 3}) {
    shares.clear();
    FitParts parts(threads, &goes_on);
    parts.expect(9);
    parts.finish();
    std::vector<int> ran(8, 0);
    parts.run(8, [&](std::int64_t i) { ran[static_cast<std::size_t>(i)] += 1; });
    CHECK(ran == std::vector<int>(8, 1));
    CHECK(shares.size() == 9);
    CHECK(std::is_sorted(shares.begin(), shares.end()));
    CHECK(shares.front() == Approx(1.0 / 9.0));
    CHECK(shares.back() == 1.0);
  }
}

TEST_CASE("what a part throws comes out of the run, and no further part begins") {
  FitParts parts(1, nullptr);
  int ran = 0;
  const auto body = [&](std::int64_t i) {
    ran += 1;
    if (i == 2) {
      throw Error(ExitCode::kAnswerNo, "the third part");
    }
  };
  CHECK_THROWS_WITH(parts.run(8, body), "the third part");
  CHECK(ran == 3);
}

TEST_CASE("a fit ends where its caller wants it to, with a sentence") {
  const std::vector<PointMeasurement> points = synthetic::attention_points({}, h200());
  int asked = 0;
  const GoesOn goes_on = [&](double share) {
    asked += 1;
    return share < 0.2;
  };
  FitOptions options = {.leave_out_regimes = false, .threads = 2};
  options.goes_on = &goes_on;
  CHECK_THROWS_WITH(fit_cost_model(points, "NVIDIA H200", h200(), {"run"}, options),
                    Catch::Contains("ended before it was done"));
  CHECK(asked >= 2);
  CHECK(asked < 12);
}

TEST_CASE("the number of threads does not show in a fit") {
  const std::vector<PointMeasurement> points =
      joined(synthetic::attention_points({}, h200()), synthetic::step_points({}, h200()));
  const auto text = [&](int threads) {
    return fit_json(fit_cost_model(points, "NVIDIA H200", h200(), {"run"},
                                   {.leave_out_regimes = false, .threads = threads}));
  };
  CHECK(text(1) == text(3));
}
