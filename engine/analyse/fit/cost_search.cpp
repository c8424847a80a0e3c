#include "engine/analyse/fit/cost_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/analyse/fit/machine_prior.h"
#include "model/words/assert.h"
#include "model/words/normal_law.h"

namespace versieve::engine {
namespace {

// Bytes added to both sides of a ratio: below it counters count other things than the launch.
constexpr double kByteFloor = 1e5;
// Of the prior in log parameters: a factor of e^2 to either side costs one robust unit.
constexpr double kPriorSd = 2.0;
constexpr double kWholePointWeight = 2.0;  // a point's total beside each of its ranges
// Lines that one launch wrote are written back while a later one runs: which one is counted for
// them is nearly chance, their sum is not.
constexpr double kWriteWeight = 0.3;

// The works of all points, composed anew only when the growth of distinct blocks changes.
class Works {
 public:
  explicit Works(const std::vector<const FitPoint*>& points) : points_(points) {}

  const std::vector<PointWork>& at(double growth) {
    if (works_.empty()) {
      works_.resize(points_.size());
      compose(growth, true);
    } else if (growth != growth_) {
      compose(growth, false);
    }
    return works_;
  }

 private:
  void compose(double growth, bool all) {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (all || !points_[i]->unique_blocks) {
        works_[i] = work_of(*points_[i], growth, true);
      }
    }
    growth_ = growth;
  }

  const std::vector<const FitPoint*>& points_;
  std::vector<PointWork> works_;
  double growth_ = -1.0;
};

class Stage {
 public:
  Stage(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware, Evidence evidence,
        const CostParameters& start, Works& works, const KindSet* only)
      : points_(points),
        hardware_(hardware),
        evidence_(evidence),
        values_(start),
        works_(works),
        only_(only) {
    const auto table = parameter_table();
    for (std::size_t i = 0; i < kParameterCount; ++i) {
      const bool wanted = i < kSharedParameterCount ? only == nullptr : is_own(kind_of(i));
      if (table[i].evidence == evidence && wanted) {
        active_.push_back(i);
      }
    }
    count_residuals();
    find_points();
  }

  void run(int iterations, CostParameters& values, std::vector<ParameterEstimate>& estimates) {
    const LeastSquaresResult result = minimise(problem(iterations));
    for (std::size_t a = 0; a < active_.size(); ++a) {
      place(result, static_cast<Eigen::Index>(a), values[active_[a]], estimates[active_[a]]);
    }
  }

 private:
  static LaunchKind kind_of(std::size_t parameter) {
    return static_cast<LaunchKind>((parameter - kSharedParameterCount) / kKindParameterCount);
  }

  bool is_own(LaunchKind kind) {
    return (only_ == nullptr || (*only_)[static_cast<std::size_t>(kind)]) && launched(kind);
  }

  // Does a point launch it? The others' parameters stay where they began.
  bool launched(LaunchKind kind) {
    const std::vector<PointWork>& works =
        works_.at(values_[index_of(SharedParameter::kUniqueGrowth)]);
    const auto has = [kind](const StepWork& work) {
      return std::any_of(work.begin(), work.end(),
                         [kind](const LaunchWork& w) { return w.kind == kind; });
    };
    return std::any_of(works.begin(), works.end(), [&](const PointWork& work) {
      return has(work.timed) || has(work.observed);
    });
  }

  void count_residuals() {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      first_.push_back(static_cast<Eigen::Index>(clusters_.size()));
      visit(i, [&](double) { clusters_.push_back(static_cast<int>(i)); });
    }
  }

  // The points that launch each kind: a kind's parameters touch no others.
  void find_points() {
    const std::vector<PointWork>& works = works_.at(growth());
    for (std::size_t i = 0; i < works.size(); ++i) {
      std::array<bool, kLaunchKindCount> has{};
      for (const StepWork* work : {&works[i].timed, &works[i].observed}) {
        for (const LaunchWork& launch : *work) {
          has[static_cast<std::size_t>(launch.kind)] = true;
        }
      }
      for (std::size_t kind = 0; kind < kLaunchKindCount; ++kind) {
        if (has[kind]) {
          points_of_[kind].push_back(i);
        }
      }
    }
  }

  double growth() const { return values_[index_of(SharedParameter::kUniqueGrowth)]; }

  void set_values(const Eigen::VectorXd& x) {
    for (std::size_t a = 0; a < active_.size(); ++a) {
      values_[active_[a]] = std::exp(x[static_cast<Eigen::Index>(a)]);
    }
  }

  void fill(std::size_t point, Eigen::VectorXd& residuals) {
    Eigen::Index next = first_[point];
    visit(point, [&](double residual) { residuals[next++] = residual; });
  }

  void fill_all(Eigen::VectorXd& residuals) {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      fill(i, residuals);
    }
  }

  LeastSquaresProblem problem(int iterations) {
    const auto table = parameter_table();
    const Eigen::Index n = static_cast<Eigen::Index>(active_.size());
    LeastSquaresProblem p;
    p.start.resize(n);
    p.low.resize(n);
    p.high.resize(n);
    p.prior_mean.resize(n);
    p.prior_sd = Eigen::VectorXd::Constant(n, kPriorSd);
    for (Eigen::Index a = 0; a < n; ++a) {
      const std::size_t i = active_[static_cast<std::size_t>(a)];
      p.start[a] = std::log(values_[i]);
      p.low[a] = std::log(table[i].low);
      p.high[a] = std::log(table[i].high);
      p.prior_mean[a] = std::log(table[i].initial);
    }
    if (only_ == nullptr) {
      for (const ParameterPrior& prior : machine_priors(hardware_)) {
        take_prior(prior, p);
      }
    }
    p.cluster = clusters_;
    p.max_iterations = iterations;
    p.residuals = [this](const Eigen::VectorXd& x, Eigen::VectorXd& r) {
      set_values(x);
      fill_all(r);
    };
    p.moved = [this](const Eigen::VectorXd& x, Eigen::Index j, Eigen::VectorXd& r) {
      set_values(x);
      const std::size_t parameter = active_[static_cast<std::size_t>(j)];
      if (parameter < kSharedParameterCount) {
        fill_all(r);
        return;
      }
      for (const std::size_t i : points_of_[static_cast<std::size_t>(kind_of(parameter))]) {
        fill(i, r);
      }
    };
    return p;
  }

  void take_prior(const ParameterPrior& prior, LeastSquaresProblem& p) const {
    const auto found = std::find(active_.begin(), active_.end(), prior.parameter);
    if (found == active_.end()) {
      return;
    }
    const Eigen::Index a = found - active_.begin();
    if (prior.high > 0.0) {
      p.high[a] = std::clamp(std::log(prior.high), p.low[a], p.high[a]);
      return;
    }
    p.prior_mean[a] = std::clamp(std::log(prior.mean), p.low[a], p.high[a]);
    p.prior_sd[a] = prior.log_sd;
  }

  void place(const LeastSquaresResult& result, Eigen::Index a, double& value,
             ParameterEstimate& estimate) const {
    const ParameterInfo& info = parameter_table()[active_[static_cast<std::size_t>(a)]];
    const double half = kNinety * std::sqrt(std::max(0.0, result.covariance(a, a)));
    value = std::exp(result.x[a]);
    estimate.value = value;
    estimate.informed = result.informed[static_cast<std::size_t>(a)];
    estimate.at_bound = result.at_bound[static_cast<std::size_t>(a)];
    estimate.low = estimate.informed ? std::max(info.low, value * std::exp(-half)) : info.low;
    estimate.high = estimate.informed ? std::min(info.high, value * std::exp(half)) : info.high;
  }

  // A point's observations in a fixed order, each put as a residual.
  template <class Put>
  void visit(std::size_t i, const Put& put) {
    const PointWork& work = works_.at(growth())[i];
    if (evidence_ == Evidence::kBytes) {
      visit_bytes(i, work.observed, put);
    } else {
      visit_times(i, work, put);
    }
  }

  template <class Put>
  void visit_bytes(std::size_t i, const StepWork& work, const Put& put) const {
    const FitPoint& p = *points_[i];
    if (p.unique_blocks && *p.unique_blocks > 0.0) {
      put(std::log(predicted_blocks(p, growth()) / *p.unique_blocks));
    }
    const auto kinds = cost_by_kind(work, hardware_, values_, p.conditions);
    double total = 0.0;
    for (const KindCost& kind : kinds) {
      total += kind.dram_bytes;
    }
    for (const RangeObservation& range : p.ranges) {
      const KindCost& kind = kinds[static_cast<std::size_t>(range.kind)];
      if (range.dram_bytes && kind.present) {
        const double written = kind.dram_bytes - kind.read_bytes;
        const double counted = *range.dram_bytes - *range.read_bytes;
        put(std::log((kind.read_bytes + kByteFloor) / (*range.read_bytes + kByteFloor)));
        put(kWriteWeight * std::log((written + kByteFloor) / (counted + kByteFloor)));
      }
    }
    if (p.dram_bytes) {
      put(kWholePointWeight * std::log((total + kByteFloor) / (*p.dram_bytes + kByteFloor)));
    }
  }

  template <class Put>
  void visit_times(std::size_t i, const PointWork& work, const Put& put) const {
    const FitPoint& p = *points_[i];
    const auto kinds = cost_by_kind(work.observed, hardware_, values_, p.conditions);
    for (const RangeObservation& range : p.ranges) {
      const KindCost& kind = kinds[static_cast<std::size_t>(range.kind)];
      if (range.time_us && kind.present) {
        put(std::log(kind.time_us / *range.time_us));
      }
    }
    if (p.time_us) {
      const StepCost cost = cost_of(work.timed, hardware_, values_, p.conditions);
      put(kWholePointWeight * std::log(cost.time_us / *p.time_us));
    }
  }

  const std::vector<const FitPoint*>& points_;
  const HardwareSpec& hardware_;
  Evidence evidence_;
  CostParameters values_;
  Works& works_;
  const KindSet* only_;  // the kinds whose parameters are searched; null: all, and the shared ones
  std::vector<std::size_t> active_;
  std::vector<int> clusters_;        // the point of each residual
  std::vector<Eigen::Index> first_;  // residual of each point
  std::array<std::vector<std::size_t>, kLaunchKindCount> points_of_;
};

// Nothing known: anything within the bounds.
std::vector<ParameterEstimate> begun_at(const CostParameters& start) {
  std::vector<ParameterEstimate> estimates(kParameterCount);
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    const ParameterInfo& info = parameter_table()[i];
    estimates[i] = {.value = start[i], .low = info.low, .high = info.high};
  }
  return estimates;
}

}  // namespace

std::vector<ParameterEstimate> search_parameters(const std::vector<const FitPoint*>& points,
                                                 const HardwareSpec& hardware,
                                                 const CostParameters& start, int iterations) {
  CostParameters values = start;
  std::vector<ParameterEstimate> estimates = begun_at(start);
  Works works(points);
  for (const Evidence evidence : {Evidence::kBytes, Evidence::kTime}) {
    Stage(points, hardware, evidence, values, works, nullptr).run(iterations, values, estimates);
  }
  return estimates;
}

void search_kinds(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                  const KindSet& kinds, int iterations, std::vector<ParameterEstimate>& estimates) {
  CostParameters values{};
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    values[i] = estimates[i].value;
  }
  Works works(points);
  for (const Evidence evidence : {Evidence::kBytes, Evidence::kTime}) {
    Stage(points, hardware, evidence, values, works, &kinds).run(iterations, values, estimates);
  }
}

KindCosts cost_by_kind(const StepWork& work, const HardwareSpec& hardware,
                       const CostParameters& parameters, const RunConditions& conditions) {
  KindCosts kinds{};
  const L2Pressure pressure = l2_pressure(work, hardware, parameters, conditions);
  for (const LaunchWork& launch : work) {
    const LaunchCost cost = cost_of(launch, pressure, hardware, parameters, conditions);
    KindCost& kind = kinds[static_cast<std::size_t>(launch.kind)];
    kind.present = true;
    kind.time_us += launch.launches * cost.time_us;
    kind.dram_bytes += launch.launches * (cost.read_bytes + cost.write_bytes);
    kind.read_bytes += launch.launches * cost.read_bytes;
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
      kind.term_bytes[i] += launch.launches * cost.term_bytes[i];
    }
  }
  return kinds;
}

}  // namespace versieve::engine
