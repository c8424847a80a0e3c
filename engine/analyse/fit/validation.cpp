#include "engine/analyse/fit/validation.h"

#include <cmath>
#include <set>

namespace versieve::engine {
namespace {

std::optional<double> log_error(double predicted, std::optional<double> measured) {
  if (!measured || *measured <= 0.0 || predicted <= 0.0) {
    return {};
  }
  return std::abs(std::log(predicted / *measured));
}

std::int64_t value_on(RegimeAxis axis, const FitPoint& p) {
  return axis == RegimeAxis::kContext ? p.key.context_len : p.key.num_queries;
}

// Else it teaches by its ranges alone.
bool is_judged(const FitPoint& p) {
  return p.time_us.has_value() || p.dram_bytes.has_value();
}

void predict_all(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                 const Calibration& calibration, std::vector<Unseen>& out) {
  for (const FitPoint* p : points) {
    if (is_judged(*p)) {
      out.push_back({p, predict(*p, hardware, calibration)});
    }
  }
}

}  // namespace

std::optional<double> Unseen::log_latency_error() const {
  return log_error(prediction.time_us, point->time_us);
}

std::optional<double> Unseen::log_dram_error() const {
  return log_error(prediction.dram_bytes, point->dram_bytes);
}

std::vector<Unseen> predict_folds(const std::vector<const FitPoint*>& train,
                                  const HardwareSpec& hardware, const PartFit& part_fit,
                                  int folds) {
  std::vector<Unseen> out;
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<const FitPoint*> kept;
    std::vector<const FitPoint*> left_out;
    for (const FitPoint* p : train) {
      // The hash's fine digits: its coarse ones say what was held out.
      const double digits = cell_hash(p->key) * 1000.0;
      const int own = static_cast<int>((digits - std::floor(digits)) * folds);
      (own == fold ? left_out : kept).push_back(p);
    }
    if (!kept.empty()) {
      const std::size_t before = out.size();
      predict_all(left_out, hardware, part_fit(kept), out);
      for (std::size_t i = before; i < out.size(); ++i) {
        out[i].fold = fold;
      }
    }
  }
  return out;
}

std::vector<LeftOutRegime> predict_left_out(const std::vector<const FitPoint*>& train,
                                            const std::vector<const FitPoint*>& held_out,
                                            RegimeAxis axis, const HardwareSpec& hardware,
                                            const PartFit& part_fit) {
  std::set<std::int64_t> values;
  for (const FitPoint* p : train) {
    if (is_judged(*p)) {
      values.insert(value_on(axis, *p));
    }
  }
  std::vector<LeftOutRegime> out;
  if (values.size() < 3) {
    return out;
  }
  for (const std::int64_t value : values) {
    std::vector<const FitPoint*> kept;
    std::vector<const FitPoint*> left_out;
    for (const FitPoint* p : train) {
      (value_on(axis, *p) == value ? left_out : kept).push_back(p);
    }
    for (const FitPoint* p : held_out) {
      if (value_on(axis, *p) == value) {
        left_out.push_back(p);
      }
    }
    LeftOutRegime regime{axis, value, value == *values.begin() || value == *values.rbegin(), {}};
    predict_all(left_out, hardware, part_fit(kept), regime.points);
    out.push_back(std::move(regime));
  }
  return out;
}

}  // namespace versieve::engine
