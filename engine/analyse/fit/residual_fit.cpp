#include "engine/analyse/fit/residual_fit.h"

#include <Eigen/Dense>
#include <array>
#include <cmath>
#include <map>

namespace versieve::engine {
namespace {

constexpr std::array<double, 4> kLengths = {1.0, 2.0, 4.0, 8.0};
constexpr std::array<double, 3> kNoises = {0.01, 0.1, 1.0};  // variance, against the kernel's

Eigen::MatrixXd distances(const std::vector<const Residual*>& rows) {
  const Eigen::Index n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd d(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      d(i, j) = d(j, i) = distance(rows[static_cast<std::size_t>(i)]->regime,
                                   rows[static_cast<std::size_t>(j)]->regime);
    }
  }
  return d;
}

struct Candidate {
  double error = 0.0;  // mean absolute leave-one-out error
  double length = 0.0;
  Eigen::VectorXd weights;
};

// Leave-one-out errors of kernel ridge regression are weight / inverse's diagonal.
Candidate solve(const Eigen::MatrixXd& d, const Eigen::VectorXd& y, double length, double noise) {
  const Eigen::Index n = y.size();
  Eigen::MatrixXd kernel = (d / length).unaryExpr(&residual_kernel);
  kernel.diagonal().array() += noise;
  const Eigen::MatrixXd inverse = kernel.llt().solve(Eigen::MatrixXd::Identity(n, n));
  Candidate out{.length = length, .weights = inverse * y};
  out.error = (out.weights.array() / inverse.diagonal().array()).abs().mean();
  return out;
}

ResidualField::Family fit_family(int family, const std::vector<const Residual*>& rows) {
  const Eigen::MatrixXd d = distances(rows);
  Eigen::VectorXd y(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    y[static_cast<Eigen::Index>(i)] = rows[i]->log_ratio;
  }
  Candidate best;
  for (const double length : kLengths) {
    for (const double noise : kNoises) {
      const Candidate candidate = solve(d, y, length, noise);
      if (best.weights.size() == 0 || candidate.error < best.error) {
        best = candidate;
      }
    }
  }
  ResidualField::Family out{.family = family, .length = best.length};
  for (const Residual* row : rows) {
    out.anchors.push_back(row->regime.at);
  }
  out.weights.assign(best.weights.begin(), best.weights.end());
  return out;
}

}  // namespace

ResidualField fit_residual_field(const std::vector<Residual>& residuals, std::size_t fewest) {
  std::map<int, std::vector<const Residual*>> families;
  for (const Residual& residual : residuals) {
    families[residual.regime.family].push_back(&residual);
  }
  ResidualField field;
  for (const auto& [family, rows] : families) {
    if (rows.size() >= fewest) {
      field.families.push_back(fit_family(family, rows));
    }
  }
  return field;
}

void append(ResidualField further, ResidualField& field) {
  for (ResidualField::Family& family : further.families) {
    field.families.push_back(std::move(family));
  }
}

}  // namespace versieve::engine
