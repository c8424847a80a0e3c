#include "model/fitted_model.h"

#include <algorithm>

#include "model/assert.h"

namespace versieve {

CostParameters FittedModel::parameters() const {
  VERSIEVE_ASSERT(estimates.size() == kParameterCount, "one estimate a parameter");
  CostParameters values;
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    values[i] = estimates[i].value;
  }
  return values;
}

bool FittedModel::informs(LaunchKind kind) const {
  VERSIEVE_ASSERT(estimates.size() == kParameterCount, "one estimate a parameter");
  const auto first =
      estimates.begin() + static_cast<std::ptrdiff_t>(index_of(kind, KindParameter::kComputeShare));
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(kKindParameterCount),
                     [](const ParameterEstimate& e) { return e.informed; });
}

NsaForm FittedModel::priced_form() const {
  const bool fused = informs(LaunchKind::kNsaRoute) && informs(LaunchKind::kNsaAttend) &&
                     informs(LaunchKind::kNsaReuse);
  return fused ? NsaForm::kFused : NsaForm::kVanilla;
}

StepLaunches FittedModel::priced_launches() const {
  const bool separate = informs(LaunchKind::kSwiglu) && priced_form() == NsaForm::kVanilla;
  return separate ? StepLaunches::kSeparate : StepLaunches::kJoint;
}

}  // namespace versieve
