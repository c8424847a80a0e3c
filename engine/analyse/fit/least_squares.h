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
  // May be empty: then differences of `residuals`, one coordinate after the other. Fills
  // [residuals, parameters] at x, whose residuals are known.
  std::function<void(const Eigen::VectorXd& x, const Eigen::VectorXd& residuals,
                     Eigen::MatrixXd& jacobian)>
      jacobian;
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

// The step by which a coordinate is moved for a difference: within its upper bound.
double difference(double x, double high);

LeastSquaresResult minimise(const LeastSquaresProblem& problem);

}  // namespace versieve::engine
