#include "engine/analyse/fit/residual_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "kernels/common/parallel_for.h"

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

constexpr Eigen::Index kSmall = 48;  // rows below which a triangle is not halved further

// Of a lower triangle, by halves: a third of the products that solving for unit vectors takes.
void invert_lower(Eigen::Ref<Eigen::MatrixXd> l) {
  const Eigen::Index n = l.rows();
  if (n <= kSmall) {
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(n, n);
    l.triangularView<Eigen::Lower>().solveInPlace(inverse);
    l = inverse;
    return;
  }
  const Eigen::Index half = n / 2;
  invert_lower(l.topLeftCorner(half, half));
  invert_lower(l.bottomRightCorner(n - half, n - half));
  l.bottomLeftCorner(n - half, half) =
      l.bottomRightCorner(n - half, n - half).triangularView<Eigen::Lower>() *
      l.bottomLeftCorner(n - half, half).eval();
  l.bottomLeftCorner(n - half, half) = (-l.bottomLeftCorner(n - half, half) *
                                        l.topLeftCorner(half, half).triangularView<Eigen::Lower>())
                                           .eval();
}

// Leave-one-out errors of kernel ridge regression are weight / inverse's diagonal, which are the
// squared columns of the Cholesky factor's inverse.
Candidate solve(Eigen::MatrixXd kernel, const Eigen::VectorXd& y, double length, double noise) {
  kernel.diagonal().array() += noise;
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> factor(kernel);  // in place
  kernel.triangularView<Eigen::StrictlyUpper>().setZero();
  invert_lower(kernel);
  Candidate out{.length = length};
  out.weights = kernel.transpose() * (kernel * y);
  out.error =
      (out.weights.array() / kernel.colwise().squaredNorm().transpose().array()).abs().mean();
  return out;
}

ResidualField::Family fit_family(int family, const std::vector<const Residual*>& rows,
                                 int threads) {
  const Eigen::MatrixXd d = distances(rows);
  Eigen::VectorXd y(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    y[static_cast<Eigen::Index>(i)] = rows[i]->log_ratio;
  }
  std::array<Candidate, kLengths.size() * kNoises.size()> candidates;
  kernels::parallel_for(kLengths.size(), threads, [&](std::int64_t i) {
    const std::size_t l = static_cast<std::size_t>(i);
    const Eigen::MatrixXd kernel = (d / kLengths[l]).unaryExpr(&residual_kernel);
    for (std::size_t k = 0; k < kNoises.size(); ++k) {
      candidates[l * kNoises.size() + k] = solve(kernel, y, kLengths[l], kNoises[k]);
    }
  });
  const Candidate& best =
      *std::min_element(candidates.begin(), candidates.end(),
                        [](const Candidate& a, const Candidate& b) { return a.error < b.error; });
  ResidualField::Family out{.family = family, .length = best.length};
  for (const Residual* row : rows) {
    out.anchors.push_back(row->regime.at);
  }
  out.weights.assign(best.weights.begin(), best.weights.end());
  return out;
}

}  // namespace

ResidualField fit_residual_field(const std::vector<Residual>& residuals, std::size_t fewest,
                                 int threads) {
  std::map<int, std::vector<const Residual*>> families;
  for (const Residual& residual : residuals) {
    families[residual.regime.family].push_back(&residual);
  }
  ResidualField field;
  for (const auto& [family, rows] : families) {
    if (rows.size() >= fewest) {
      field.families.push_back(fit_family(family, rows, threads));
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
