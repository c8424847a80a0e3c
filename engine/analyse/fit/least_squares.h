// Bounded, robust, nonlinear least squares: Levenberg-Marquardt with steps cut at the bounds,
// soft-L1 loss, a weak Gaussian prior, and a covariance that allows the residuals of one cluster
// to lean together (sandwich, clustered). Deterministic.
#pragma once

#include <Eigen/Dense>
#include <functional>
#include <vector>

namespace versieve::engine {

struct LeastSquaresProblem {
  Eigen::VectorXd start;
  Eigen::VectorXd low, high;  // bounds
  Eigen::VectorXd prior_sd;   // around `start` of the prior; infinity for none
  Eigen::VectorXd prior_mean;
  double robust_scale = 0.1;  // residuals well above it count linearly
  std::vector<int> cluster;   // [residuals]
  // Fills [residuals]; must not depend on anything but x.
  std::function<void(const Eigen::VectorXd& x, Eigen::VectorXd& residuals)> residuals;
  // May be empty. As residuals(x, r), where x differs from a vector whose residuals r already holds
  // in coordinate j alone: most coordinates touch few residuals.
  std::function<void(const Eigen::VectorXd& x, Eigen::Index j, Eigen::VectorXd& residuals)> moved;
  int max_iterations = 60;
};

struct LeastSquaresResult {
  Eigen::VectorXd x;
  Eigen::MatrixXd covariance;  // zero rows for parameters that are not informed
  std::vector<bool> informed;  // the residuals say more about it than the prior
  std::vector<bool> at_bound;
  double cost = 0.0;
  int iterations = 0;
  bool converged = false;
};

LeastSquaresResult minimise(const LeastSquaresProblem& problem);

}  // namespace versieve::engine
