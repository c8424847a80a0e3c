#include "engine/analyse/fit/cost_search.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "engine/analyse/fit/least_squares.h"
#include "engine/analyse/fit/machine_prior.h"
#include "engine/analyse/fit/point_launches.h"
#include "kernels/common/parallel_for.h"
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

// Of one launch among all of its point, by the kind that a range is of.
struct KindSum {
  double time_us = 0.0;
  double read_bytes = 0.0;
  double write_bytes = 0.0;
  bool present = false;
};

KindSum sum_of(LaunchKind kind, std::span<const LaunchWork> launches,
               std::span<const LaunchCost> costs) {
  KindSum sum;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (launch_of(launches[i].kind) == kind) {
      sum.present = true;
      sum.time_us += launches[i].launches * costs[i].time_us;
      sum.read_bytes += launches[i].launches * costs[i].read_bytes;
      sum.write_bytes += launches[i].launches * costs[i].write_bytes;
    }
  }
  return sum;
}

// What steps over a dense cache say, which no NSA point has.
bool is_of_dense_steps(std::size_t parameter) {
  return parameter == index_of(SharedParameter::kKeptL2) ||
         parameter == index_of(SharedParameter::kKeptKnee);
}

class Stage {
 public:
  Stage(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware, Evidence evidence,
        const CostParameters& start, AllLaunches& launches, const KindSet* only, int threads)
      : points_(points),
        hardware_(hardware),
        evidence_(evidence),
        values_(start),
        launches_(launches),
        only_(only),
        threads_(threads) {
    find_kinds();
    const auto table = parameter_table();
    for (std::size_t i = 0; i < kParameterCount; ++i) {
      const bool wanted = i >= kSharedParameterCount ? is_own(kind_of(i))
                          : is_of_dense_steps(i)     ? reads_again_
                                                     : only == nullptr;
      if (table[i].evidence == evidence && wanted) {
        active_.push_back(i);
      }
    }
    if (evidence == Evidence::kTime) {
      count_bytes();
    }
    count_residuals();
  }

  void run(int iterations, CostParameters& values, std::vector<ParameterEstimate>& estimates) {
    const LeastSquaresResult result = minimise(problem(iterations));
    for (std::size_t a = 0; a < active_.size(); ++a) {
      place(result, static_cast<Eigen::Index>(a), values[active_[a]], estimates[active_[a]]);
    }
  }

 private:
  // The costs of a point's launches, bytes first; times on top.
  struct Costs {
    std::vector<LaunchCost> timed;
    std::vector<LaunchCost> observed;  // empty where the launches are
  };

  static LaunchKind kind_of(std::size_t parameter) {
    return static_cast<LaunchKind>((parameter - kSharedParameterCount) / kKindParameterCount);
  }

  // The kinds that a point launches: the others' parameters do not touch it.
  void find_kinds() {
    for (const PointLaunches& point : launches_.at(growth_of(values_))) {
      KindSet& kinds = kinds_.emplace_back();
      for (const std::vector<LaunchWork>* launches : {&point.timed, &point.observed}) {
        for (const LaunchWork& launch : *launches) {
          kinds[static_cast<std::size_t>(launch.kind)] = true;
          reads_again_ = reads_again_ || (point.observed.size() > 0 && launch.repeated > 0.0);
        }
      }
    }
  }

  // Searched, and launched by a point: the others' parameters stay where they began.
  bool is_own(LaunchKind kind) const {
    const std::size_t k = static_cast<std::size_t>(kind);
    return (only_ == nullptr || (*only_)[k]) &&
           std::any_of(kinds_.begin(), kinds_.end(), [k](const KindSet& has) { return has[k]; });
  }

  // Whether the launches' costs can depend on the parameter.
  bool touches(std::size_t point, std::size_t parameter) const {
    if (parameter >= kSharedParameterCount) {
      return kinds_[point][static_cast<std::size_t>(kind_of(parameter))];
    }
    const FitPoint& p = *points_[point];
    const auto is = [parameter](SharedParameter shared) { return parameter == index_of(shared); };
    if (is(SharedParameter::kUniqueGrowth)) {
      return !p.unique_blocks;
    }
    const bool recorded = p.conditions.launch == LaunchMode::kGraph;
    return recorded ? !is(SharedParameter::kStreamGapUs) && !is(SharedParameter::kHostTripUs)
                    : !is(SharedParameter::kGraphGapUs);
  }

  // No parameter of time moves bytes: they are counted once.
  void count_bytes() {
    const std::vector<PointLaunches>& launches = launches_.at(growth_of(values_));
    bytes_.resize(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const RunConditions& conditions = points_[i]->conditions;
      bytes_[i].timed = bytes_of_all(launches[i].timed, values_, conditions);
      bytes_[i].observed = bytes_of_all(launches[i].observed, values_, conditions);
    }
  }

  void count_residuals() {
    for (std::size_t i = 0; i < points_.size(); ++i) {
      first_.push_back(static_cast<Eigen::Index>(clusters_.size()));
      const auto count = [&](double) { clusters_.push_back(static_cast<int>(i)); };
      visit_blocks(i, values_, count);
      visit(i, values_, count);
    }
  }

  static double growth_of(const CostParameters& values) {
    return values[index_of(SharedParameter::kUniqueGrowth)];
  }

  CostParameters values_at(const Eigen::VectorXd& x) const {
    CostParameters values = values_;
    for (std::size_t a = 0; a < active_.size(); ++a) {
      values[active_[a]] = std::exp(x[static_cast<Eigen::Index>(a)]);
    }
    return values;
  }

  void fill(std::size_t point, const CostParameters& values, Eigen::VectorXd& residuals) const {
    Eigen::Index next = first_[point];
    const auto put = [&](double residual) { residuals[next++] = residual; };
    visit_blocks(point, values, put);
    visit(point, values, put);
  }

  // One parameter after the other, moved by a little.
  void fill_rows(std::size_t point, CostParameters values, const Eigen::VectorXd& x,
                 const Eigen::VectorXd& high, const Eigen::VectorXd& residuals,
                 Eigen::MatrixXd& jacobian) const {
    for (std::size_t a = 0; a < active_.size(); ++a) {
      const std::size_t parameter = active_[a];
      const bool grows = parameter == index_of(SharedParameter::kUniqueGrowth);
      if (!grows && !touches(point, parameter)) {
        continue;
      }
      const Eigen::Index column = static_cast<Eigen::Index>(a);
      const double step = difference(x[column], high[column]);
      const double value = std::exchange(values[parameter], std::exp(x[column] + step));
      Eigen::Index next = first_[point];
      const auto put = [&](double residual) {
        jacobian(next, column) = (residual - residuals[next]) / step;
        ++next;
      };
      if (grows) {
        visit_blocks(point, values, put);
      }
      if (touches(point, parameter)) {
        next = first_[point] + (knows_blocks(point) ? 1 : 0);
        visit(point, values, put);
      }
      values[parameter] = value;
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
      const CostParameters values = values_at(x);
      launches_.at(growth_of(values));
      for_each_point([&](std::size_t i) { fill(i, values, r); });
    };
    p.jacobian = [this, high = p.high](const Eigen::VectorXd& x, const Eigen::VectorXd& r,
                                       Eigen::MatrixXd& jacobian) {
      const CostParameters values = values_at(x);
      launches_.at(growth_of(values));
      jacobian.setZero();
      for_each_point([&](std::size_t i) { fill_rows(i, values, x, high, r, jacobian); });
    };
    return p;
  }

  // Each writes what is its own, so that the number of threads does not show.
  template <class Body>
  void for_each_point(const Body& body) const {
    kernels::parallel_for(static_cast<std::int64_t>(points_.size()), threads_,
                          [&](std::int64_t i) { body(static_cast<std::size_t>(i)); });
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

  bool knows_blocks(std::size_t i) const {
    return evidence_ == Evidence::kBytes && points_[i]->unique_blocks.value_or(0.0) > 0.0;
  }

  // Its distinct blocks come first of a point's residuals: their growth alone moves them.
  template <class Put>
  void visit_blocks(std::size_t i, const CostParameters& values, const Put& put) const {
    if (knows_blocks(i)) {
      const FitPoint& p = *points_[i];
      put(std::log(predicted_blocks(p, growth_of(values)) / *p.unique_blocks));
    }
  }

  // A point's other observations in a fixed order, each put as a residual.
  template <class Put>
  void visit(std::size_t i, const CostParameters& values, const Put& put) const {
    if (evidence_ == Evidence::kTime) {
      visit_times(i, values, put);
    } else if (points_[i]->unique_blocks || growth_of(values) == launches_.growth()) {
      visit_bytes(i, launches_.composed()[i].watched(), values, put);
    } else {
      visit_bytes(i, launches_of(*points_[i], growth_of(values)).watched(), values, put);
    }
  }

  template <class Put>
  void visit_bytes(std::size_t i, std::span<const LaunchWork> launches,
                   const CostParameters& values, const Put& put) const {
    const FitPoint& p = *points_[i];
    const std::vector<LaunchCost> costs = bytes_of_all(launches, values, p.conditions);
    for (const RangeObservation& range : p.ranges) {
      if (!range.dram_bytes) {
        continue;
      }
      const KindSum kind = sum_of(range.kind, launches, costs);
      if (kind.present) {
        const double counted = *range.dram_bytes - *range.read_bytes;
        put(std::log((kind.read_bytes + kByteFloor) / (*range.read_bytes + kByteFloor)));
        put(kWriteWeight * std::log((kind.write_bytes + kByteFloor) / (counted + kByteFloor)));
      }
    }
    if (p.dram_bytes) {
      double total = 0.0;
      for (std::size_t k = 0; k < launches.size(); ++k) {
        total += launches[k].launches * (costs[k].read_bytes + costs[k].write_bytes);
      }
      put(kWholePointWeight * std::log((total + kByteFloor) / (*p.dram_bytes + kByteFloor)));
    }
  }

  template <class Put>
  void visit_times(std::size_t i, const CostParameters& values, const Put& put) const {
    const FitPoint& p = *points_[i];
    const PointLaunches& launches = launches_.composed()[i];
    const std::vector<LaunchCost> timed = timed_costs(launches.timed, bytes_[i].timed, p, values);
    const std::vector<LaunchCost> observed =
        timed_costs(launches.observed, bytes_[i].observed, p, values);
    for (const RangeObservation& range : p.ranges) {
      if (!range.time_us) {
        continue;
      }
      const KindSum kind =
          sum_of(range.kind, launches.watched(), launches.observed.empty() ? timed : observed);
      if (kind.present) {
        put(std::log(kind.time_us / *range.time_us));
      }
    }
    if (p.time_us) {
      double us = host_wait_us(launches.host_trips, launches.led_trips, values, p.conditions);
      for (std::size_t k = 0; k < timed.size(); ++k) {
        us += launches.timed[k].launches * timed[k].added_us();
      }
      put(kWholePointWeight * std::log(us / *p.time_us));
    }
  }

  std::vector<LaunchCost> bytes_of_all(std::span<const LaunchWork> launches,
                                       const CostParameters& values,
                                       const RunConditions& conditions) const {
    std::vector<LaunchCost> costs;
    costs.reserve(launches.size());
    const L2Pressure pressure = l2_pressure(launches, hardware_, values, conditions);
    for (const LaunchWork& launch : launches) {
      costs.push_back(bytes_of(launch, pressure, hardware_, values));
    }
    return costs;
  }

  std::vector<LaunchCost> timed_costs(std::span<const LaunchWork> launches,
                                      std::vector<LaunchCost> costs, const FitPoint& p,
                                      const CostParameters& values) const {
    for (std::size_t k = 0; k < launches.size(); ++k) {
      add_time(launches[k], hardware_, values, p.conditions, costs[k]);
    }
    return costs;
  }

  const std::vector<const FitPoint*>& points_;
  const HardwareSpec& hardware_;
  Evidence evidence_;
  CostParameters values_;  // where the stage begins
  AllLaunches& launches_;
  const KindSet* only_;  // the kinds whose parameters are searched; null: all, and the shared ones
  int threads_;
  std::vector<KindSet> kinds_;  // [points]
  std::vector<Costs> bytes_;    // [points], for times
  std::vector<std::size_t> active_;
  std::vector<int> clusters_;        // the point of each residual
  std::vector<Eigen::Index> first_;  // residual of each point
  bool reads_again_ = false;  // a point is a step that reads of the cache what the last one read
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
                                                 const CostParameters& start, Effort effort) {
  CostParameters values = start;
  std::vector<ParameterEstimate> estimates = begun_at(start);
  AllLaunches launches(points);
  for (const Evidence evidence : {Evidence::kBytes, Evidence::kTime}) {
    Stage(points, hardware, evidence, values, launches, nullptr, effort.threads)
        .run(effort.iterations, values, estimates);
  }
  return estimates;
}

void search_kinds(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                  const KindSet& kinds, Effort effort, std::vector<ParameterEstimate>& estimates) {
  CostParameters values{};
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    values[i] = estimates[i].value;
  }
  AllLaunches launches(points);
  for (const Evidence evidence : {Evidence::kBytes, Evidence::kTime}) {
    Stage(points, hardware, evidence, values, launches, &kinds, effort.threads)
        .run(effort.iterations, values, estimates);
  }
}

KindCosts cost_by_kind(const StepWork& work, const HardwareSpec& hardware,
                       const CostParameters& parameters, const RunConditions& conditions) {
  KindCosts kinds{};
  const L2Pressure pressure = l2_pressure(work, hardware, parameters, conditions);
  for (const LaunchWork& launch : work) {
    const LaunchCost cost = cost_of(launch, pressure, hardware, parameters, conditions);
    KindCost& kind = kinds[static_cast<std::size_t>(launch_of(launch.kind))];
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
