#include "engine/fit/acceptance_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "engine/fit/context_ranges.h"
#include "engine/fit/least_squares.h"

namespace versieve::engine {
namespace {

constexpr double kDefaultOverlap = 0.6;
constexpr double kLeastLogError = 0.02;  // no model of acceptance is better than this
constexpr double kLoneLogError = 0.05;   // of a single comparison (an assumption)

struct Sample {
  const PointMeasurement* point;
  double mean;
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Accepted tokens of a point; none for looping output without a teacher-forced mean, and for what
// another program says it measured: that is of another pair, whatever its name.
std::optional<double> accepted_of(const PointMeasurement& m) {
  if (is_imported(m) || m.status != "ok" || !m.acceptance || m.acceptance->steps < 1) {
    return {};
  }
  if (m.acceptance->looping) {
    return m.acceptance->teacher_forced;
  }
  return m.acceptance->accepted_per_step;
}

// Variance of the point's mean, from its histogram.
double variance_of_mean(const AcceptanceMeasurement& a) {
  double count = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t tokens = 0; tokens < a.accepted_histogram.size(); ++tokens) {
    const double steps = static_cast<double>(a.accepted_histogram[tokens]);
    const double value = static_cast<double>(tokens);
    count += steps;
    sum += steps * value;
    squares += steps * value * value;
  }
  if (count < 2.0) {
    return 0.0;
  }
  return std::max(0.0, squares / count - sum * sum / count / count) / count;
}

std::string majority_pair(const std::vector<const PointMeasurement*>& points) {
  std::map<std::string, std::int64_t> counts;
  for (const PointMeasurement* m : points) {
    counts[m->key.model] += 1;
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : most->first;
}

std::vector<Sample> samples_of(const std::vector<PointMeasurement>& measured, std::string& pair) {
  std::vector<const PointMeasurement*> points;
  bool calibration = false;
  for (const PointMeasurement& m : measured) {
    if (m.key.workload == WorkloadKind::kAcceptance && accepted_of(m)) {
      points.push_back(&m);
      calibration = calibration || m.key.split == "calibration";
    }
  }
  pair = majority_pair(points);
  std::vector<Sample> samples;
  for (const PointMeasurement* m : points) {
    if (m->key.model == pair && (!calibration || m->key.split == "calibration")) {
      samples.push_back({m, *accepted_of(*m)});
    }
  }
  return samples;
}

// Mean over regimes, each regime the mean of its points.
AcceptanceModel::Measured measured_tuple(const std::vector<Sample>& samples) {
  std::map<std::string, std::vector<const Sample*>> regimes;
  for (const Sample& s : samples) {
    regimes[s.point->key.regime].push_back(&s);
  }
  AcceptanceModel::Measured out;
  double variance = 0.0;
  for (const auto& [regime, members] : regimes) {
    double sum = 0.0;
    double within = 0.0;
    for (const Sample* s : members) {
      sum += s->mean;
      within += variance_of_mean(*s->point->acceptance);
      out.steps += s->point->acceptance->steps;
      out.looping = out.looping || s->point->acceptance->looping;
    }
    const double count = static_cast<double>(members.size());
    out.mean += sum / count;
    variance += within / count / count;
  }
  const double regime_count = static_cast<double>(regimes.size());
  out.mean /= regime_count;
  out.standard_error = std::sqrt(variance) / regime_count;
  return out;
}

std::vector<AcceptanceModel::Measured> measured_tuples(const std::vector<Sample>& samples) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::int64_t,
                      std::int64_t, Traversal>,
           std::vector<Sample>>
      groups;
  for (const Sample& s : samples) {
    const Strategy strategy = Strategy::parse(s.point->key.strategy);
    if (strategy.draft.speculates()) {
      const std::int64_t group = approximate_group(strategy);
      groups[{s.point->key.context_len, strategy.draft.depth, strategy.draft.width,
              strategy.schedule, strategy.draft.nodes, group,
              group > 1 ? strategy.order : Traversal::kBfs}]
          .push_back(s);
    }
  }
  std::vector<AcceptanceModel::Measured> out;
  for (const auto& [key, members] : groups) {
    AcceptanceModel::Measured m = measured_tuple(members);
    m.context_len = std::get<0>(key);
    m.draft = {std::get<1>(key), std::get<2>(key), std::get<4>(key)};
    m.schedule = std::get<3>(key);
    m.approximate_group = std::get<5>(key);
    m.order = std::get<6>(key);
    out.push_back(m);
  }
  return out;
}

// Of the queries' own choices: rows of an approximate group share theirs.
double overlap_of(const std::vector<Sample>& samples, std::optional<std::size_t> range) {
  std::vector<double> values;
  for (const Sample& s : samples) {
    const bool own = approximate_group(Strategy::parse(s.point->key.strategy)) == 1;
    if (s.point->adjacent_overlap && own &&
        (!range || context_range_of(s.point->key.context_len) == *range)) {
      values.push_back(*s.point->adjacent_overlap);
    }
  }
  return values.empty() ? kDefaultOverlap : mean_of(values);
}

AcceptanceModel::Positional at(const Eigen::VectorXd& x) {
  AcceptanceModel::Positional model;
  model.first = x[0];
  model.spread = x[1];
  model.decay = x[2];
  return model;
}

// Three parameters to the measured means of a context range, near `prior`.
AcceptanceModel::Positional fit_positional(
    const std::vector<const AcceptanceModel::Measured*>& tuples,
    const AcceptanceModel::Positional& prior) {
  LeastSquaresProblem p;
  p.start.resize(3);
  p.start << prior.first, prior.spread, prior.decay;
  p.low.resize(3);
  p.low << 0.02, 0.02, 0.5;
  p.high.resize(3);
  p.high << 0.999, 6.0, 1.0;
  p.prior_mean = p.start;
  p.prior_sd.resize(3);
  p.prior_sd << 0.3, 1.0, 0.2;
  p.robust_scale = 0.05;
  p.cluster.resize(tuples.size());
  std::iota(p.cluster.begin(), p.cluster.end(), 0);
  p.residuals = [&](const Eigen::VectorXd& x, Eigen::VectorXd& r) {
    const AcceptanceModel::Positional model = at(x);
    for (std::size_t i = 0; i < tuples.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] =
          std::log(positional_accepted(model, tuples[i]->draft) / tuples[i]->mean);
    }
  };
  AcceptanceModel::Positional model = at(minimise(p).x);
  double squares = 0.0;
  for (const AcceptanceModel::Measured* m : tuples) {
    const double miss = std::log(positional_accepted(model, m->draft) / m->mean);
    squares += miss * miss;
  }
  const double freedom = std::max(1.0, static_cast<double>(tuples.size()) - 3.0);
  model.log_error = std::max(kLeastLogError, std::sqrt(squares / freedom));
  return model;
}

// Comparisons of one tree at one context with and without a schedule or groups.
class VariantSum {
 public:
  void add(double log_ratio) {
    count_ += 1.0;
    sum_ += log_ratio;
    squares_ += log_ratio * log_ratio;
  }

  void finish(AcceptanceModel::Variant& out) const {
    out.log_ratio = sum_ / count_;
    const double variance =
        count_ > 1.0 ? std::max(0.0, squares_ - sum_ * out.log_ratio) / (count_ - 1.0) : 0.0;
    out.log_error = std::max(count_ > 1.0 ? kLeastLogError : kLoneLogError, std::sqrt(variance));
    out.comparisons = static_cast<std::int64_t>(count_);
  }

 private:
  double count_ = 0.0, sum_ = 0.0, squares_ = 0.0;
};

bool is_plain(const AcceptanceModel::Measured& m) {
  return m.schedule == "F*" && m.approximate_group == 1;
}

std::vector<AcceptanceModel::Variant> variants_of(
    const std::vector<AcceptanceModel::Measured>& measured) {
  std::map<std::tuple<std::string, std::int64_t, Traversal>, VariantSum> sums;
  for (const AcceptanceModel::Measured& m : measured) {
    const auto plain = std::find_if(measured.begin(), measured.end(), [&](const auto& other) {
      return is_plain(other) && other.draft == m.draft && other.context_len == m.context_len;
    });
    if (!is_plain(m) && plain != measured.end()) {
      sums[{m.schedule, m.approximate_group, m.order}].add(std::log(m.mean / plain->mean));
    }
  }
  std::vector<AcceptanceModel::Variant> out;
  for (const auto& [key, sum] : sums) {
    AcceptanceModel::Variant variant{.schedule = std::get<0>(key),
                                     .approximate_group = std::get<1>(key),
                                     .order = std::get<2>(key)};
    sum.finish(variant);
    out.push_back(variant);
  }
  return out;
}

}  // namespace

AcceptanceModel fit_acceptance(const std::vector<PointMeasurement>& measured) {
  AcceptanceModel out;
  const std::vector<Sample> samples = samples_of(measured, out.pair);
  out.measured = measured_tuples(samples);
  std::map<std::size_t, std::vector<const AcceptanceModel::Measured*>> ranges;
  std::vector<const AcceptanceModel::Measured*> all;
  for (const AcceptanceModel::Measured& m : out.measured) {
    if (is_plain(m)) {
      ranges[context_range_of(m.context_len)].push_back(&m);
      all.push_back(&m);
    }
  }
  if (all.empty()) {
    out.measured.clear();
    return out;
  }
  const AcceptanceModel::Positional pooled = fit_positional(all, {});
  for (const auto& [range, tuples] : ranges) {
    AcceptanceModel::Positional model = fit_positional(tuples, pooled);
    model.log_error = tuples.size() > 3 ? model.log_error : pooled.log_error;
    model.context_low = kContextRanges[range].low;
    model.context_high = kContextRanges[range].high;
    model.overlap = overlap_of(samples, range);
    out.positional.push_back(model);
  }
  out.variants = variants_of(out.measured);
  return out;
}

}  // namespace versieve::engine
