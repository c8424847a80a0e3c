#include "engine/analyse/fit/apart_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/residual_fit.h"

namespace versieve::engine {
namespace {

constexpr int kIterations = 60, kFoldIterations = 8, kFolds = 5;
// Plain steps are a family of their own and were measured at three contexts. Their chain is priced
// by that of larger layers, 14 % (H200) and 23 % (H100) short, and trees are compared with them.
constexpr std::size_t kFewestOfSmallPair = 3;

using Points = std::vector<const FitPoint*>;

int fold_of(const FitPoint& p) {
  const double digits = cell_hash(p.key) * 1000.0;
  return static_cast<int>((digits - std::floor(digits)) * kFolds);
}

class ApartFit {
 public:
  ApartFit(const std::vector<FitPoint>& points, const HardwareSpec& hardware, FitParts& parts,
           FitReport& report)
      : hardware_(hardware), parts_(parts), report_(report) {
    for (const FitPoint& p : points) {
      points_.push_back(&p);
    }
    others_ = calibration_of(report.model);
  }

  void run() {
    const Calibration own =
        fitted(points_, others_, {.iterations = kIterations, .threads = parts_.threads()});
    parts_.finish();
    Errors before, unseen;
    for (const FitPoint* p : points_) {
      before.add(predict(*p, hardware_, others_).time_us, p->time_us);
    }
    judge(own, unseen);
    report_.model.estimates = own.estimates;
    report_.model.step_time = own.step_time;
    for (const FitPoint* p : points_) {
      report_.model.small_pair_nodes =
          std::max(report_.model.small_pair_nodes, p->strategy.draft.nodes);
    }
    report_.apart = {target_name(points_.front()->key.model), before.summary(), unseen.summary()};
  }

 private:
  // The launch's parameters begin where `start` has them, residuals where the others' fit ends.
  Calibration fitted(const Points& points, const Calibration& start, Effort effort) const {
    Calibration c = start;
    c.step_time = others_.step_time;
    search_draft(points, effort, c);
    // Of steps like these alone.
    append(step_residuals(points, hardware_, c, kFewestOfSmallPair), c.step_time);
    return c;
  }

  // By its ranges' times: a step's would lend it what the rest of the step is off, and its bytes
  // are few, mostly packets on their way from link to link.
  void search_draft(const Points& points, Effort effort, Calibration& c) const {
    std::vector<FitPoint> traced;
    for (const FitPoint* p : points) {
      for (const RangeObservation& range : p->ranges) {
        if (range.kind == LaunchKind::kDraftLevels) {
          traced.push_back(*p);
          traced.back().ranges = {{range.kind, range.time_us, {}, {}}};
          traced.back().time_us.reset();
          traced.back().dram_bytes.reset();
        }
      }
    }
    if (traced.empty()) {
      return;
    }
    Points seen;
    for (const FitPoint& p : traced) {
      seen.push_back(&p);
    }
    KindSet kinds{};
    kinds[static_cast<std::size_t>(LaunchKind::kDraftLevels)] = true;
    search_kinds(seen, hardware_, kinds, effort, c.estimates);
    for (std::size_t i = 0; i < kParameterCount; ++i) {
      c.values[i] = c.estimates[i].value;
    }
  }

  // Every point by a fit to those of the other folds.
  void judge(const Calibration& own, Errors& unseen) const {
    std::array<std::vector<double>, kFolds> predicted;
    std::array<Points, kFolds> left_out;
    for (const FitPoint* p : points_) {
      left_out[static_cast<std::size_t>(fold_of(*p))].push_back(p);
    }
    parts_.run(kFolds, [&](std::int64_t fold) {
      const std::size_t f = static_cast<std::size_t>(fold);
      Points kept;
      for (const FitPoint* p : points_) {
        if (fold_of(*p) != fold) {
          kept.push_back(p);
        }
      }
      if (left_out[f].empty()) {
        return;
      }
      const Calibration c = fitted(kept, own, {.iterations = kFoldIterations});
      for (const FitPoint* p : left_out[f]) {
        predicted[f].push_back(predict(*p, hardware_, c).time_us);
      }
    });
    for (std::size_t f = 0; f < left_out.size(); ++f) {
      for (std::size_t i = 0; i < left_out[f].size(); ++i) {
        unseen.add(predicted[f][i], left_out[f][i]->time_us);
      }
    }
  }

  Points points_;
  const HardwareSpec& hardware_;
  FitParts& parts_;
  FitReport& report_;
  Calibration others_;  // that had seen none of these points
};

}  // namespace

void fit_apart(const std::vector<FitPoint>& points, const HardwareSpec& hardware, FitParts& parts,
               FitReport& report) {
  if (!points.empty()) {
    ApartFit(points, hardware, parts, report).run();
  }
}

}  // namespace versieve::engine
