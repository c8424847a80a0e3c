#include "engine/analyse/fit/energy_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "engine/analyse/fit/batch_points.h"
#include "engine/analyse/fit/error_summary.h"
#include "engine/analyse/fit/least_squares.h"
#include "model/cost/batch_fit.h"
#include "model/words/batch_point.h"
#include "model/words/range_counters.h"

namespace versieve::engine {
namespace {

constexpr int kNumbers = 3;
constexpr std::size_t kFewestNumbersOfRequests = 2;
// Units in which the three are of one size.
constexpr std::array<double, kNumbers> kUnits = {1e2, 1e-10, 1e-12};

struct Sampled {
  std::int64_t requests = 1;
  StepCost cost;  // bytes and operations as a plan has them, its time as measured
  double joules = 0.0;
};

using Samples = std::vector<const Sampled*>;

std::vector<Sampled> sampled_of(const std::vector<PointMeasurement>& measured,
                                const HardwareSpec& hardware, const FittedModel& model) {
  std::vector<PointMeasurement> points;  // steps of one request, and one of those of many
  std::copy_if(measured.begin(), measured.end(), std::back_inserter(points),
               [](const PointMeasurement& m) { return m.key.workload == WorkloadKind::kStep; });
  std::vector<Sampled> out;
  const CostParameters parameters = model.parameters();
  for (const PointMeasurement& m : measured) {
    const std::optional<double> taken = is_batch_point(m) ? joules(m) : std::nullopt;
    if (!taken || *taken <= 0.0) {
      continue;
    }
    points.push_back(m);
    for (const BatchPoint& p : batch_points(points, model).points) {  // none where it is of no use
      StepWork work = p.work;
      if (model.batch.measured()) {
        apply_batch(model.batch.values(), model.batch.kinds, p.point.shape, work);
      }
      out.push_back({.requests = p.requests,
                     .cost = cost_of(work, hardware, parameters, p.point.conditions),
                     .joules = *taken});
      out.back().cost.time_us = p.point.time_us.value_or(out.back().cost.time_us);
    }
    points.pop_back();
  }
  return out;
}

std::array<double, kNumbers> parts_of(const Sampled& s) {
  return {1e-6 * s.cost.time_us, s.cost.dram_bytes, s.cost.flops};
}

// Of every choice of numbers that may be above 0, the best whose are.
EnergyLaw law_of(const Samples& samples) {
  EnergyLaw best;
  double least = std::numeric_limits<double>::infinity();
  const Eigen::Index rows = std::ssize(samples);
  for (int chosen = 1; chosen < 1 << kNumbers; ++chosen) {
    Eigen::MatrixXd a = Eigen::MatrixXd::Zero(rows, kNumbers);
    for (Eigen::Index i = 0; i < rows; ++i) {
      const Sampled& s = *samples[static_cast<std::size_t>(i)];
      for (int k = 0; k < kNumbers; ++k) {
        const std::size_t at = static_cast<std::size_t>(k);
        a(i, k) = (chosen >> k & 1) != 0 ? parts_of(s)[at] * kUnits[at] / s.joules : 0.0;
      }
    }
    const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
    const Eigen::VectorXd x = a.completeOrthogonalDecomposition().solve(ones);
    const double miss = (a * x - ones).squaredNorm();
    if (x.minCoeff() >= 0.0 && miss < least) {
      least = miss;
      best = {.points = std::ssize(samples),
              .watts = x[0] * kUnits[0],
              .joules_per_byte = x[1] * kUnits[1],
              .joules_per_flop = x[2] * kUnits[2]};
    }
  }
  return best;
}

}  // namespace

void fit_energy(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                FitReport& report) {
  const std::vector<Sampled> all = sampled_of(measured, hardware, report.model);
  std::set<std::int64_t> numbers;
  for (const Sampled& s : all) {
    numbers.insert(s.requests);
  }
  if (all.size() < kFewestEnergyPoints || numbers.size() < kFewestNumbersOfRequests) {
    if (!all.empty()) {
      report.skipped["energy of steps: of fewer than " + std::to_string(kFewestEnergyPoints) +
                     " points or of one number of requests alone"] += std::ssize(all);
    }
    return;
  }
  Errors errors;
  double squares = 0.0;
  for (const std::int64_t left_out : numbers) {
    Samples kept;
    for (const Sampled& s : all) {
      if (s.requests != left_out) {
        kept.push_back(&s);
      }
    }
    const EnergyLaw law = law_of(kept);
    for (const Sampled& s : all) {
      if (s.requests == left_out) {
        errors.add(law.joules(s.cost), s.joules);
        const double miss = std::log(law.joules(s.cost) / s.joules);
        squares += miss * miss;
      }
    }
  }
  Samples whole;
  for (const Sampled& s : all) {
    whole.push_back(&s);
  }
  report.model.energy = law_of(whole);
  report.model.energy.log_error = std::sqrt(squares / static_cast<double>(all.size()));
  report.model.energy.most_requests = *numbers.rbegin();
  report.energy = errors.summary();
}

}  // namespace versieve::engine
