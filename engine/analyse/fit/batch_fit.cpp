#include "engine/analyse/fit/batch_fit.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/error_tables.h"
#include "engine/analyse/fit/least_squares.h"
#include "engine/analyse/fit/residual_fit.h"
#include "engine/analyse/fit/statistics.h"
#include "model/words/assert.h"
#include "model/words/normal_law.h"
#include "model/words/range_counters.h"

namespace versieve::engine {
namespace {

constexpr int kIterations = 60;
constexpr double kPriorSd = 2.0;  // of log terms

using Points = std::vector<const BatchPoint*>;

struct BatchTimes {
  BatchTerms terms{};
  ResidualField kinds;
};

struct BatchModel {
  std::vector<BatchTermEstimate> estimates;
  BatchTimes times;
  ResidualField time, bytes;
};

StepWork work_of(const BatchPoint& p, const BatchTimes& times) {
  StepWork work = p.work;
  apply_batch(times.terms, times.kinds, p.point.shape, work);
  return work;
}

// With the field of kinds, without the terms: what a search begins each of its tries with.
StepWork kinds_of(const BatchPoint& p, const ResidualField& kinds) {
  StepWork work = p.work;
  apply_batch_kinds(kinds, p.point.shape, work);
  return work;
}

StepWork with_terms(const StepWork& kinds, const BatchPoint& p, const BatchTerms& terms) {
  StepWork work = kinds;
  apply_batch_terms(terms, p.point.shape, work);
  return work;
}

// Which terms a search moves, and by what.
enum class BatchStage { kDevice, kHost };

// Not the host's time for a layer: the engine records its forward (engine/run/batch), so that
// nobody enqueues one layer after another, and what little points say of it is of something else.
bool is_moved(BatchStage stage, std::size_t term) {
  return term != static_cast<std::size_t>(BatchTerm::kLayer) &&
         (term >= static_cast<std::size_t>(BatchTerm::kLaunch)) == (stage == BatchStage::kHost);
}

class BatchSearch {
 public:
  BatchSearch(const Points& points, const HardwareSpec& hardware, const CostParameters& parameters)
      : points_(points), hardware_(hardware), parameters_(parameters) {}

  // The device's terms by the times of products and attention, and what those miss; then the
  // host's by whole steps, and what all of it misses.
  BatchModel run() const {
    BatchModel out;
    for (std::size_t i = 0; i < kBatchTermCount; ++i) {
      const BatchTermInfo& info = batch_term_table()[i];
      const bool layer = i == static_cast<std::size_t>(BatchTerm::kLayer);
      const double value = layer ? info.low : info.initial;
      out.times.terms[i] = value;
      out.estimates.push_back({.value = value, .low = info.low, .high = info.high});
    }
    search(BatchStage::kDevice, out);
    add_kinds(out);
    search(BatchStage::kHost, out);
    add_fields(out);
    return out;
  }

 private:
  void search(BatchStage stage, BatchModel& model) const {
    std::vector<std::size_t> moved;
    for (std::size_t i = 0; i < kBatchTermCount; ++i) {
      if (is_moved(stage, i)) {
        moved.push_back(i);
      }
    }
    const LeastSquaresProblem p = problem(stage, moved, model.times);
    if (p.cluster.empty()) {
      return;
    }
    const LeastSquaresResult result = minimise(p);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const Eigen::Index a = static_cast<Eigen::Index>(i);
      const BatchTermInfo& info = batch_term_table()[moved[i]];
      const bool informed = result.informed[i];
      const double sd = informed ? kNinety * std::sqrt(result.covariance(a, a)) : 0.0;
      BatchTermEstimate e{.value = std::exp(result.x[a]), .informed = informed};
      e.low = informed ? std::max(info.low, e.value * std::exp(-sd)) : info.low;
      e.high = informed ? std::min(info.high, e.value * std::exp(sd)) : info.high;
      model.times.terms[moved[i]] = e.value;
      model.estimates[moved[i]] = e;
    }
  }

  LeastSquaresProblem problem(BatchStage stage, const std::vector<std::size_t>& moved,
                              const BatchTimes& start) const {
    LeastSquaresProblem out;
    const Eigen::Index n = std::ssize(moved);
    out.start.resize(n);
    out.low.resize(n);
    out.high.resize(n);
    for (Eigen::Index a = 0; a < n; ++a) {
      const BatchTermInfo& info = batch_term_table()[moved[static_cast<std::size_t>(a)]];
      out.start[a] = std::log(info.initial);
      out.low[a] = std::log(info.low);
      out.high[a] = std::log(info.high);
    }
    out.prior_mean = out.start;
    out.prior_sd = Eigen::VectorXd::Constant(n, kPriorSd);
    out.max_iterations = kIterations;
    std::vector<StepWork> works;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      works.push_back(kinds_of(*points_[i], start.kinds));
      visit(stage, *points_[i], with_terms(works[i], *points_[i], start.terms),
            [&](double) { out.cluster.push_back(static_cast<int>(i)); });
    }
    out.residuals = [this, stage, moved, terms = start.terms, works = std::move(works)](
                        const Eigen::VectorXd& x, Eigen::VectorXd& residuals) {
      BatchTerms tried = terms;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        tried[moved[i]] = std::exp(x[static_cast<Eigen::Index>(i)]);
      }
      Eigen::Index next = 0;
      for (std::size_t i = 0; i < points_.size(); ++i) {
        visit(stage, *points_[i], with_terms(works[i], *points_[i], tried),
              [&](double residual) { residuals[next++] = residual; });
      }
    };
    return out;
  }

  template <class Put>
  void visit(BatchStage stage, const BatchPoint& p, const StepWork& work, const Put& put) const {
    if (stage == BatchStage::kDevice) {
      visit_kinds(p, work, [&](LaunchKind, double residual) { put(residual); });
    } else if (p.point.time_us) {
      put(std::log(cost_of(work, hardware_, parameters_, p.point.conditions).time_us /
                   *p.point.time_us));
    }
  }

  // Log of predicted over traced time of products and of attention.
  template <class Put>
  void visit_kinds(const BatchPoint& p, const StepWork& work, const Put& put) const {
    const KindCosts kinds =
        cost_by_kind(work, hardware_, parameters_, conditions_of(work, p.point.conditions));
    for (const RangeObservation& range : p.point.ranges) {
      const KindCost& cost = kinds[static_cast<std::size_t>(range.kind)];
      if (is_batch_kind(range.kind) && cost.present && range.time_us && *range.time_us > 0.0) {
        put(range.kind, std::log(cost.time_us / *range.time_us));
      }
    }
  }

  void add_kinds(BatchModel& model) const {
    std::vector<Residual> residuals;
    for (const BatchPoint* p : points_) {
      visit_kinds(*p, work_of(*p, model.times), [&](LaunchKind kind, double residual) {
        residuals.push_back({batch_kind_regime(p->regime, kind), -residual});
      });
    }
    model.times.kinds = fit_residual_field(residuals);
  }

  void add_fields(BatchModel& model) const {
    std::vector<Residual> times, bytes;
    for (const BatchPoint* p : points_) {
      const StepCost cost =
          cost_of(work_of(*p, model.times), hardware_, parameters_, p->point.conditions);
      if (p->point.time_us) {
        times.push_back({p->regime, std::log(*p->point.time_us / cost.time_us)});
      }
      if (const std::optional<double> counted = judged_bytes(p->point)) {
        bytes.push_back({p->regime, std::log(*counted / cost.dram_bytes)});
      }
    }
    model.time = fit_residual_field(times);
    model.bytes = fit_residual_field(bytes);
  }

  const Points& points_;
  const HardwareSpec& hardware_;
  const CostParameters& parameters_;
};

BatchPrediction predicted(const BatchPoint& p, const HardwareSpec& hardware,
                          const CostParameters& parameters, const BatchModel& model) {
  const StepWork work = work_of(p, model.times);
  const StepCost cost = cost_of(work, hardware, parameters, p.point.conditions);
  const double bytes = std::exp(model.bytes.at(p.regime));
  double read = 0.0;
  for (const KindCost& kind :
       cost_by_kind(work, hardware, parameters, conditions_of(work, p.point.conditions))) {
    read += kind.read_bytes;
  }
  return {cost.time_us * std::exp(model.time.at(p.regime)), cost.time_us, cost.dram_bytes * bytes,
          read * bytes};
}

// A number of requests that a fit had not seen, and what it made of its points.
struct LeftOutBatch {
  std::int64_t requests = 0;
  bool beyond = false;
  std::vector<std::pair<const BatchPoint*, BatchPrediction>> points;

  std::vector<double> log_errors() const {
    std::vector<double> out;
    for (const auto& [p, prediction] : points) {
      if (p->point.time_us) {
        out.push_back(std::abs(std::log(prediction.time_us / *p->point.time_us)));
      }
    }
    return out;
  }
};

class BatchFitting {
 public:
  BatchFitting(const std::vector<BatchPoint>& points, const HardwareSpec& hardware, FitParts& parts,
               FitReport& report)
      : hardware_(hardware),
        parameters_(report.model.parameters()),
        parts_(parts),
        report_(report) {
    for (const BatchPoint& p : points) {
      points_.push_back(&p);
      values_.insert(p.requests);
    }
  }

  void run() {
    const BatchModel model = BatchSearch(points_, hardware_, parameters_).run();
    parts_.finish();
    describe(model);
    compare(model);
    judge(leave_out());
  }

 private:
  void describe(const BatchModel& model) {
    BatchFit& b = report_.model.batch;
    b.points = std::ssize(points_);
    b.terms = model.estimates;
    b.kinds = model.times.kinds;
    b.time = model.time;
    b.bytes = model.bytes;
    b.launch = points_.front()->point.key.launch;
    b.least_overlap = 1.0;  // of no groups
    for (const BatchPoint* p : points_) {
      const bool dense = p->point.shape.target.attention == AttentionKind::kDense;
      b.dense_points += dense;
      std::int64_t& together = dense ? b.dense_together : b.together;
      together = std::max(together, p->requests);
      if (!dense && p->point.shape.group_size > 1 && p->point.shape.num_queries > 1) {
        b.least_overlap = std::min(b.least_overlap, p->point.shape.overlap);
      }
      b.most_requests = std::max(b.most_requests, p->requests);
      b.most_rows = std::max(b.most_rows, p->point.key.num_queries);
    }
  }

  void compare(const BatchModel& model) {
    Errors closed;
    for (const BatchPoint* p : points_) {
      const BatchPrediction out = predicted(*p, hardware_, parameters_, model);
      closed.add(out.closed_form_us, p->point.time_us);
      report_.batch_compared.push_back({p->point.key, false, p->point.time_us, p->point.dram_bytes,
                                        p->point.read_bytes, out.time_us, out.closed_form_us,
                                        out.dram_bytes, out.read_bytes});
    }
    report_.batch_closed_latency = closed.summary();
  }

  std::vector<LeftOutBatch> leave_out() {
    std::vector<LeftOutBatch> out;
    for (const std::int64_t requests : values_) {
      out.push_back({.requests = requests,
                     .beyond = requests == *values_.begin() || requests == *values_.rbegin(),
                     .points = {}});
    }
    parts_.run(std::ssize(out), [&](std::int64_t i) {
      LeftOutBatch& one = out[static_cast<std::size_t>(i)];
      Points kept;
      for (const BatchPoint* p : points_) {
        if (p->requests != one.requests) {
          kept.push_back(p);
        }
      }
      const BatchModel model = BatchSearch(kept, hardware_, parameters_).run();
      for (const BatchPoint* p : points_) {
        if (p->requests == one.requests) {
          one.points.emplace_back(p, predicted(*p, hardware_, parameters_, model));
        }
      }
    });
    return out;
  }

  // The quantile of the errors of all numbers of requests but `without`'s. One width serves all: by
  // number of requests errors differ no more than so few points of each do.
  static std::optional<double> width_of(const std::vector<LeftOutBatch>& all,
                                        const LeftOutBatch* without) {
    std::vector<double> errors;
    for (const LeftOutBatch& one : all) {
      if (!one.beyond && &one != without) {
        const std::vector<double> own = one.log_errors();
        errors.insert(errors.end(), own.begin(), own.end());
      }
    }
    return conformal_quantile(errors, 0.9);
  }

  void judge(const std::vector<LeftOutBatch>& all) {
    Errors latency, dram;
    Coverage covered;
    for (const LeftOutBatch& one : all) {
      Errors own_latency, own_dram;
      Coverage own;
      // From the others' errors: its own are not known beforehand.
      const std::optional<double> width = width_of(all, &one);
      for (const auto& [p, prediction] : one.points) {
        own_latency.add(prediction.time_us, p->point.time_us);
        own_dram.add(prediction.dram_bytes, judged_bytes(p->point));
        if (!one.beyond) {
          latency.add(prediction.time_us, p->point.time_us);
          dram.add(prediction.dram_bytes, judged_bytes(p->point));
        }
      }
      for (const double error : one.log_errors()) {
        own.add(error, width);
      }
      if (!one.beyond) {
        covered.add(own);
      }
      report_.batches.push_back({"requests", one.requests, one.beyond, own_latency.summary(),
                                 own_dram.summary(), own.share()});
    }
    report_.batch_latency = latency.summary();
    report_.batch_dram = dram.summary();
    report_.batch_coverage_90 = covered.share();
    report_.model.batch.log_latency = width_of(all, nullptr).value_or(0.0);
  }

  Points points_;
  std::set<std::int64_t> values_;
  const HardwareSpec& hardware_;
  CostParameters parameters_;
  FitParts& parts_;
  FitReport& report_;
};

std::set<std::int64_t> numbers_of(const std::vector<BatchPoint>& points) {
  std::set<std::int64_t> numbers;
  for (const BatchPoint& p : points) {
    numbers.insert(p.requests);
  }
  return numbers;
}

}  // namespace

std::int64_t batch_parts(const std::vector<PointMeasurement>& measured) {
  std::set<std::int64_t> numbers;
  for (const PointMeasurement& m : measured) {
    if (is_batch_point(m) && m.status == PointStatus::kOk) {
      numbers.insert(m.key.num_queries);  // at least as many as numbers of requests
    }
  }
  return numbers.empty() ? 0 : 1 + std::ssize(numbers);
}

std::vector<PointMeasurement> timed_once(const std::vector<PointMeasurement>& measured,
                                         std::map<std::string, std::int64_t>& skipped) {
  std::set<std::string> timed;
  for (const PointMeasurement& m : measured) {
    if (is_batch_point(m) && m.status == PointStatus::kOk && !joules(m) && !m.time_ns.empty()) {
      timed.insert(key_text(m.key));
    }
  }
  std::vector<PointMeasurement> out;
  for (const PointMeasurement& m : measured) {
    if (is_batch_point(m) && joules(m) && timed.count(key_text(m.key)) > 0) {
      skipped["steps of many requests: for their energy alone, timed by another run"] += 1;
    } else {
      out.push_back(m);
    }
  }
  return out;
}

BatchPrediction predict_batch(const BatchPoint& p, const HardwareSpec& priced,
                              const FittedModel& model) {
  VERSIEVE_ASSERT(model.batch.measured(), "steps of many requests were measured");
  return predicted(p, priced, model.parameters(),
                   {.estimates = model.batch.terms,
                    .times = {.terms = model.batch.values(), .kinds = model.batch.kinds},
                    .time = model.batch.time,
                    .bytes = model.batch.bytes});
}

void fit_batches(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                 const FittedModel* prior, FitParts& parts, FitReport& report) {
  const BatchPoints points = batch_points(timed_once(measured, report.skipped), report.model);
  for (const auto& [reason, count] : points.skipped) {
    report.skipped[reason] += count;
  }
  if (numbers_of(points.points).size() >= kFewestBatches) {
    BatchFitting(points.points, hardware, parts, report).run();
    return;
  }
  if (!points.points.empty()) {
    report.skipped["steps of fewer than " + std::to_string(kFewestBatches) +
                   " numbers of requests: none between others can be left out"] +=
        std::ssize(points.points);
  }
  if (prior != nullptr && prior->batch.measured()) {
    report.model.batch = prior->batch;
    BatchFit& batch = report.model.batch;
    const double further = prior->carried_batch_half_width(hardware);
    batch.log_latency += further;
    for (BatchWidth& width : batch.widths) {
      width.log_latency += further;
    }
  }
}

}  // namespace versieve::engine
