#include "engine/analyse/fit/positional_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/analyse/fit/least_squares.h"

namespace versieve::engine {
namespace {

AcceptanceModel::Positional at(const Eigen::VectorXd& x) {
  AcceptanceModel::Positional model;
  model.first = x[0];
  model.siblings = x[1];
  model.decay = x[2];
  return model;
}

// A lower bound is missed from below alone.
Eigen::VectorXd misses(const Tuples& tuples, const AcceptanceModel::Positional& model) {
  Eigen::VectorXd out(static_cast<Eigen::Index>(tuples.size()));
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const double miss = std::log(positional_accepted(model, tuples[i]->draft) / tuples[i]->mean);
    out[static_cast<Eigen::Index>(i)] = tuples[i]->at_least ? std::min(0.0, miss) : miss;
  }
  return out;
}

}  // namespace

AcceptanceModel::Positional fit_positional(const Tuples& tuples,
                                           const AcceptanceModel::Positional& prior,
                                           const PriorSpread& spread) {
  LeastSquaresProblem p;
  p.start.resize(3);
  p.start << prior.first, prior.siblings, prior.decay;
  p.low.resize(3);
  p.low << 0.001, 0.01, 0.5;
  p.high.resize(3);
  p.high << 0.999, kMostSiblings, 1.0;
  p.prior_mean = p.start;
  p.prior_sd.resize(3);
  p.prior_sd << spread.first, spread.siblings, spread.decay;
  p.robust_scale = 0.05;
  p.cluster.resize(tuples.size());
  std::iota(p.cluster.begin(), p.cluster.end(), 0);
  p.residuals = [&](const Eigen::VectorXd& x, Eigen::VectorXd& r) { r = misses(tuples, at(x)); };
  AcceptanceModel::Positional model = at(minimise(p).x);
  const double freedom = std::max(1.0, static_cast<double>(tuples.size()) - 3.0);
  model.log_error =
      std::max(kLeastLogError, std::sqrt(misses(tuples, model).squaredNorm() / freedom));
  return model;
}

std::array<double, 9> covariance_of(const Tuples& tuples, const AcceptanceModel::Positional& model,
                                    const PriorSpread& spread) {
  constexpr double kDifference = 1e-4;
  const Eigen::Vector3d here(model.first, model.siblings, model.decay);
  const Eigen::VectorXd at_model = misses(tuples, model);
  Eigen::MatrixXd jacobian(at_model.size(), 3);
  for (Eigen::Index j = 0; j < 3; ++j) {
    Eigen::Vector3d moved = here;
    moved[j] -= kDifference;
    jacobian.col(j) = (at_model - misses(tuples, at(moved))) / kDifference;
  }
  Eigen::Matrix3d information = Eigen::Matrix3d::Zero();
  information.diagonal() << 1.0 / (spread.first * spread.first),
      1.0 / (spread.siblings * spread.siblings), 1.0 / (spread.decay * spread.decay);
  for (Eigen::Index i = 0; i < jacobian.rows(); ++i) {
    const AcceptanceModel::Measured& m = *tuples[static_cast<std::size_t>(i)];
    const double error = std::hypot(model.log_error, m.standard_error / m.mean);
    information += jacobian.row(i).transpose() * jacobian.row(i) / (error * error);
  }
  const Eigen::Matrix3d covariance = information.inverse();
  std::array<double, 9> out{};
  for (Eigen::Index i = 0; i < 9; ++i) {
    out[static_cast<std::size_t>(i)] = covariance(i / 3, i % 3);
  }
  return out;
}

}  // namespace versieve::engine
