#include "engine/analyse/fit/least_squares.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr double kDifference = 1e-5;  // step of the numerical Jacobian
constexpr double kEnough = 1e-9;      // relative fall of the cost that ends the search
constexpr double kMostDamping = 1e12;
constexpr double kInformed = 1e-7;  // smallest Jacobian norm that says something

class Search {
 public:
  explicit Search(const LeastSquaresProblem& problem)
      : p_(problem), count_(static_cast<Eigen::Index>(problem.cluster.size())) {}

  LeastSquaresResult run() {
    x_ = p_.start.cwiseMax(p_.low).cwiseMin(p_.high);
    double damping = 1e-3;
    residuals_at(x_, r_);
    double cost = cost_of(x_, r_);
    LeastSquaresResult out;
    while (out.iterations < p_.max_iterations && !out.converged) {
      out.iterations += 1;
      linearise();
      const double before = cost;
      while (damping < kMostDamping && !try_step(damping, cost)) {
        damping *= 8.0;
      }
      damping = std::max(damping * 0.2, 1e-9);
      out.converged = before - cost <= kEnough * std::max(before, 1e-12);
      damping = std::min(damping, kMostDamping * 0.1);
    }
    linearise();
    finish(cost, out);
    return out;
  }

 private:
  void residuals_at(const Eigen::VectorXd& x, Eigen::VectorXd& r) const {
    r.resize(count_);
    p_.residuals(x, r);
  }

  double cost_of(const Eigen::VectorXd& x, const Eigen::VectorXd& r) const {
    const double c2 = p_.robust_scale * p_.robust_scale;
    double sum = 0.0;
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      sum += c2 * 2.0 * (std::sqrt(1.0 + r[i] * r[i] / c2) - 1.0);
    }
    return sum + ((x - p_.prior_mean).cwiseQuotient(p_.prior_sd)).squaredNorm() * c2;
  }

  void differences() {
    Eigen::VectorXd moved = x_;
    Eigen::VectorXd r(count_);
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      const double h = difference(x_[j], p_.high[j]);
      moved[j] = x_[j] + h;
      residuals_at(moved, r);
      jacobian_.col(j) = (r - r_) / h;
      moved[j] = x_[j];
    }
  }

  // Jacobian, robust weights, normal equations with the prior in units of the robust scale.
  void linearise() {
    jacobian_.resize(count_, x_.size());
    if (p_.jacobian) {
      p_.jacobian(x_, r_, jacobian_);
    } else {
      differences();
    }
    const double c2 = p_.robust_scale * p_.robust_scale;
    weight_ = (1.0 + r_.array().square() / c2).rsqrt();
    prior_ = p_.prior_sd.array().square().inverse() * c2;
    gradient_ = jacobian_.transpose() * (weight_.array() * r_.array()).matrix() +
                (prior_.array() * (x_ - p_.prior_mean).array()).matrix();
    weighted_ = weight_.array().sqrt().matrix().asDiagonal() * jacobian_;
    hessian_.setZero(x_.size(), x_.size());
    hessian_.selfadjointView<Eigen::Lower>().rankUpdate(weighted_.transpose());
    hessian_.triangularView<Eigen::StrictlyUpper>() = hessian_.transpose();
    hessian_.diagonal() += prior_;
  }

  bool blocked(Eigen::Index j) const {
    return (x_[j] <= p_.low[j] && gradient_[j] > 0.0) ||
           (x_[j] >= p_.high[j] && gradient_[j] < 0.0);
  }

  bool try_step(double damping, double& cost) {
    Eigen::MatrixXd h = hessian_;
    Eigen::VectorXd g = gradient_;
    h.diagonal() += damping * (hessian_.diagonal().array() + 1e-9).matrix();
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      if (blocked(j)) {
        h.row(j).setZero();
        h.col(j).setZero();
        h(j, j) = 1.0;
        g[j] = 0.0;
      }
    }
    const Eigen::VectorXd next = (x_ - h.ldlt().solve(g)).cwiseMax(p_.low).cwiseMin(p_.high);
    Eigen::VectorXd r;
    residuals_at(next, r);
    const double next_cost = cost_of(next, r);
    if (!(next_cost < cost)) {
      return false;
    }
    x_ = next;
    r_ = r;
    cost = next_cost;
    return true;
  }

  void finish(double cost, LeastSquaresResult& out) const {
    out.x = x_;
    out.cost = cost;
    std::vector<Eigen::Index> free;
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      const double margin = 1e-6 * (p_.high[j] - p_.low[j]);
      out.informed.push_back(hessian_(j, j) - prior_[j] > std::max(prior_[j], kInformed));
      out.at_bound.push_back(x_[j] <= p_.low[j] + margin || x_[j] >= p_.high[j] - margin);
      if (out.informed.back()) {
        free.push_back(j);
      }
    }
    out.covariance = Eigen::MatrixXd::Zero(x_.size(), x_.size());
    if (!free.empty()) {
      place_covariance(free, out.covariance);
    }
  }

  // H^-1 (sum over clusters of their summed scores' outer product) H^-1.
  void place_covariance(const std::vector<Eigen::Index>& free, Eigen::MatrixXd& covariance) const {
    const Eigen::Index n = static_cast<Eigen::Index>(free.size());
    std::map<int, Eigen::VectorXd> scores;
    for (Eigen::Index i = 0; i < count_; ++i) {
      Eigen::VectorXd& score =
          scores.try_emplace(p_.cluster[static_cast<std::size_t>(i)], Eigen::VectorXd::Zero(n))
              .first->second;
      for (Eigen::Index a = 0; a < n; ++a) {
        score[a] += weight_[i] * r_[i] * jacobian_(i, free[static_cast<std::size_t>(a)]);
      }
    }
    Eigen::MatrixXd h(n, n);
    for (Eigen::Index a = 0; a < n; ++a) {
      for (Eigen::Index b = 0; b < n; ++b) {
        h(a, b) = hessian_(free[static_cast<std::size_t>(a)], free[static_cast<std::size_t>(b)]);
      }
    }
    Eigen::MatrixXd meat = Eigen::MatrixXd::Zero(n, n);
    for (Eigen::Index a = 0; a < n; ++a) {  // the prior errs by its own spread
      meat(a, a) = prior_[free[static_cast<std::size_t>(a)]] * p_.robust_scale * p_.robust_scale;
    }
    for (const auto& [cluster, score] : scores) {
      meat += score * score.transpose();
    }
    const double clusters = static_cast<double>(scores.size());
    const Eigen::MatrixXd inverse = h.ldlt().solve(Eigen::MatrixXd::Identity(n, n));
    const Eigen::MatrixXd sandwich =
        inverse * meat * inverse * (clusters / std::max(1.0, clusters - static_cast<double>(n)));
    for (Eigen::Index a = 0; a < n; ++a) {
      for (Eigen::Index b = 0; b < n; ++b) {
        covariance(free[static_cast<std::size_t>(a)], free[static_cast<std::size_t>(b)]) =
            sandwich(a, b);
      }
    }
  }

  const LeastSquaresProblem& p_;
  Eigen::Index count_;
  Eigen::VectorXd x_, r_, weight_, prior_, gradient_;
  Eigen::MatrixXd jacobian_, weighted_, hessian_;
};

}  // namespace

double difference(double x, double high) {
  return x + kDifference <= high ? kDifference : -kDifference;
}

LeastSquaresResult minimise(const LeastSquaresProblem& problem) {
  VERSIEVE_ASSERT(problem.low.size() == problem.start.size() &&
                      problem.high.size() == problem.start.size() &&
                      problem.prior_sd.size() == problem.start.size() &&
                      problem.prior_mean.size() == problem.start.size(),
                  "one bound and one prior a parameter");
  return Search(problem).run();
}

}  // namespace versieve::engine
