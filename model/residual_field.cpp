#include "model/residual_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace versieve {
namespace {

constexpr double kNegligible = 6.0;  // lengths away, where the kernel is below 4e-4

double logarithm(std::int64_t value, double unit) {
  return std::log(static_cast<double>(std::max<std::int64_t>(1, value))) / std::log(unit);
}

double squared_distance(const std::array<double, kRegimeAxes>& a,
                        const std::array<double, kRegimeAxes>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < kRegimeAxes; ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

std::array<double, kRegimeAxes> shared_axes(const StepShape& s) {
  return {logarithm(s.context_len, 4.0),
          logarithm(s.num_queries, 4.0),
          (s.num_queries > 1 ? s.overlap : 1.0) / 0.3,
          logarithm(std::min(s.group_size, s.num_queries), 4.0),
          s.group_mode == GroupMode::kApprox && s.group_size > 1 ? 1.0 : 0.0,
          0.0,
          0.0,
          0.0};
}

}  // namespace

Regime attention_regime(const StepShape& s, bool reuse, bool warm) {
  Regime regime{(s.form == NsaForm::kFused ? 0 : 2) + (reuse ? 1 : 0), shared_axes(s)};
  regime.at[5] = warm ? 1.0 : 0.0;
  regime.at[7] = logarithm(2 * s.target.kv_width() * s.element_bytes, 2.0);
  return regime;
}

Regime step_regime(const StepShape& s) {
  Regime regime{s.form == NsaForm::kFused ? 4 : 5, shared_axes(s)};
  regime.family += s.recorded ? 0 : 2;
  regime.family += s.launches == StepLaunches::kJoint ? 0 : 4;
  const double layers = static_cast<double>(std::max<std::int64_t>(1, s.target.layers));
  regime.at[6] = static_cast<double>(s.reuse_layers) / layers;
  regime.at[7] = std::log(1.0 + static_cast<double>(s.tree.depth)) / std::log(4.0);
  return regime;
}

double distance(const Regime& a, const Regime& b) {
  return a.family == b.family ? std::sqrt(squared_distance(a.at, b.at))
                              : std::numeric_limits<double>::infinity();
}

double residual_kernel(double d) {
  const double scaled = std::sqrt(3.0) * d;
  return (1.0 + scaled) * std::exp(-scaled);
}

double ResidualField::at(const Regime& regime) const {
  double sum = 0.0;
  for (const Family& family : families) {
    if (family.family != regime.family) {
      continue;
    }
    const double reach = kNegligible * family.length;
    for (std::size_t i = 0; i < family.anchors.size(); ++i) {
      const double square = squared_distance(family.anchors[i], regime.at);
      if (square < reach * reach) {
        sum += family.weights[i] * residual_kernel(std::sqrt(square) / family.length);
      }
    }
  }
  return sum;
}

void correct_attention(const StepShape& shape, bool warm, const ResidualField& field,
                       StepWork& work) {
  if (field.families.empty()) {
    return;
  }
  const double refresh = std::exp(field.at(attention_regime(shape, false, warm)));
  const double reuse = std::exp(field.at(attention_regime(shape, true, warm)));
  for (std::size_t i = 0; i < work.count; ++i) {
    if (work.work[i].layer != LayerKind::kNone) {
      work.work[i].time_factor = work.work[i].layer == LayerKind::kReuse ? reuse : refresh;
    }
  }
}

}  // namespace versieve
