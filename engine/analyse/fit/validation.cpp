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
                                  const HardwareSpec& hardware, const PartFit& part_fit, int folds,
                                  FitParts& parts) {
  std::vector<std::vector<Unseen>> unseen(static_cast<std::size_t>(folds));
  parts.run(folds, [&](std::int64_t fold) {
    std::vector<const FitPoint*> kept;
    std::vector<const FitPoint*> left_out;
    for (const FitPoint* p : train) {
      // The hash's fine digits: its coarse ones say what was held out.
      const double digits = cell_hash(p->key) * 1000.0;
      const int own = static_cast<int>((digits - std::floor(digits)) * folds);
      (own == fold ? left_out : kept).push_back(p);
    }
    if (!kept.empty()) {
      std::vector<Unseen>& out = unseen[static_cast<std::size_t>(fold)];
      predict_all(left_out, hardware, part_fit(kept), out);
      for (Unseen& u : out) {
        u.fold = static_cast<int>(fold);
      }
    }
  });
  std::vector<Unseen> all;
  for (const std::vector<Unseen>& each : unseen) {
    all.insert(all.end(), each.begin(), each.end());
  }
  return all;
}

std::vector<std::int64_t> values_to_leave_out(const std::vector<const FitPoint*>& train,
                                              RegimeAxis axis) {
  std::set<std::int64_t> values;
  for (const FitPoint* p : train) {
    if (is_judged(*p)) {
      values.insert(value_on(axis, *p));
    }
  }
  return values.size() < 3 ? std::vector<std::int64_t>()
                           : std::vector<std::int64_t>(values.begin(), values.end());
}

std::vector<LeftOutRegime> predict_left_out(const std::vector<const FitPoint*>& train,
                                            const std::vector<const FitPoint*>& held_out,
                                            RegimeAxis axis, const HardwareSpec& hardware,
                                            const PartFit& part_fit, FitParts& parts) {
  std::vector<LeftOutRegime> out;
  const std::vector<std::int64_t> values = values_to_leave_out(train, axis);
  for (const std::int64_t value : values) {
    out.push_back({axis, value, value == values.front() || value == values.back(), {}});
  }
  parts.run(static_cast<std::int64_t>(out.size()), [&](std::int64_t i) {
    LeftOutRegime& regime = out[static_cast<std::size_t>(i)];
    std::vector<const FitPoint*> kept;
    std::vector<const FitPoint*> left_out;
    for (const FitPoint* p : train) {
      (value_on(axis, *p) == regime.value ? left_out : kept).push_back(p);
    }
    for (const FitPoint* p : held_out) {
      if (value_on(axis, *p) == regime.value) {
        left_out.push_back(p);
      }
    }
    predict_all(left_out, hardware, part_fit(kept), regime.points);
  });
  return out;
}

}  // namespace versieve::engine
