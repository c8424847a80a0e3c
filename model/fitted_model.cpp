#include "model/fitted_model.h"

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

}  // namespace versieve
