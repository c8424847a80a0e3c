// The search finds known minima, stays within bounds, shrugs off outliers and states honest errors.
#include "engine/analyse/fit/least_squares.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace versieve;
using namespace versieve::engine;

namespace {

LeastSquaresProblem problem(Eigen::Index parameters, int residuals) {
  LeastSquaresProblem p;
  p.start = Eigen::VectorXd::Ones(parameters);
  p.low = Eigen::VectorXd::Constant(parameters, -100.0);
  p.high = Eigen::VectorXd::Constant(parameters, 100.0);
  p.prior_mean = Eigen::VectorXd::Zero(parameters);
  p.prior_sd = Eigen::VectorXd::Constant(parameters, std::numeric_limits<double>::infinity());
  p.robust_scale = 1e6;  // plain least squares
  p.cluster.resize(static_cast<std::size_t>(residuals));
  std::iota(p.cluster.begin(), p.cluster.end(), 0);
  return p;
}

// y = a + b t at t = 0..n-1.
LeastSquaresProblem line(const std::vector<double>& y) {
  LeastSquaresProblem p = problem(2, static_cast<int>(y.size()));
  p.residuals = [y](const Eigen::VectorXd& x, Eigen::VectorXd& r) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] = x[0] + x[1] * static_cast<double>(i) - y[i];
    }
  };
  return p;
}

}  // namespace

TEST_CASE("Rosenbrock's valley is followed to its end") {
  LeastSquaresProblem p = problem(2, 2);
  p.start << -1.2, 1.0;
  p.max_iterations = 200;
  p.residuals = [](const Eigen::VectorXd& x, Eigen::VectorXd& r) {
    r << 10.0 * (x[1] - x[0] * x[0]), 1.0 - x[0];
  };
  const LeastSquaresResult found = minimise(p);
  CHECK(found.x[0] == Approx(1.0).margin(5e-3));
  CHECK(found.x[1] == Approx(1.0).margin(1e-2));
}

TEST_CASE("a parameter stops at its bound and says so") {
  LeastSquaresProblem p = line({3.0, 5.0, 7.0, 9.0});
  p.high[1] = 1.5;
  const LeastSquaresResult found = minimise(p);
  CHECK(found.x[1] == Approx(1.5));
  CHECK(found.at_bound[1]);
  CHECK(!found.at_bound[0]);
  CHECK(found.x[0] == Approx(3.75).margin(1e-4));  // mean of y minus 1.5 mean of t
}

TEST_CASE("a parameter that moves nothing is not informed and stays") {
  LeastSquaresProblem p = problem(2, 2);
  p.residuals = [](const Eigen::VectorXd& x, Eigen::VectorXd& r) { r << x[0] - 2.0, x[0] - 4.0; };
  const LeastSquaresResult found = minimise(p);
  CHECK(found.x[0] == Approx(3.0).margin(1e-4));
  CHECK(found.x[1] == 1.0);
  CHECK(found.informed[0]);
  CHECK(!found.informed[1]);
}

TEST_CASE("one wild point hardly moves a robust line") {
  std::vector<double> y;
  for (int i = 0; i < 30; ++i) {
    y.push_back(1.0 + 2.0 * i);
  }
  y[20] += 1000.0;
  LeastSquaresProblem robust = line(y);
  robust.robust_scale = 0.1;
  CHECK(minimise(robust).x[1] == Approx(2.0).margin(0.01));
  CHECK(std::abs(minimise(line(y)).x[1] - 2.0) > 0.5);  // the plain one is dragged away
}

TEST_CASE("stated standard errors match the scatter over repetitions") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0.0, 0.3);
  double within = 0.0;
  constexpr int kRepetitions = 200;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    std::vector<double> y;
    for (int i = 0; i < 40; ++i) {
      y.push_back(1.0 + 2.0 * i + noise(random));
    }
    const LeastSquaresResult found = minimise(line(y));
    within += std::abs(found.x[1] - 2.0) <= 1.645 * std::sqrt(found.covariance(1, 1)) ? 1.0 : 0.0;
  }
  CHECK(within / kRepetitions > 0.82);
  CHECK(within / kRepetitions < 0.97);
}
