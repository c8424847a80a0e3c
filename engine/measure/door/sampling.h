// What the sampling families of the door share: the checks of logits, tokens, uniforms and
// temperature.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "engine/measure/door/input.h"
#include "engine/measure/door/workspace.h"
#include "kernels/common/element.h"
#include "kernels/spec_sample/categorical.h"

namespace versieve::engine {

// -infinity is a token that cannot be said; NaN, +infinity and a row of nothing else are refused.
template <class T>
std::vector<T> logits(DoorInput& input, const std::string& name, const std::string& shape) {
  const std::vector<T> values = input.floats<T>(name, shape);
  const std::size_t vocab = static_cast<std::size_t>(input.dim("V"));
  bool any = vocab == 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = kernels::as_double(values[i]);
    if (std::isnan(value) || value == std::numeric_limits<double>::infinity()) {
      input.refuse("tensor '" + name + "' holds NaN or +infinity");
    }
    any = any || value > -std::numeric_limits<double>::infinity();
    if ((i + 1) % vocab == 0) {
      if (!any) {
        input.refuse("tensor '" + name + "' has a row without any logit above -infinity");
      }
      any = false;
    }
  }
  return values;
}

std::vector<std::int32_t> vocabulary_tokens(DoorInput& input, const std::string& name,
                                            const std::string& shape);
double temperature(const DoorInput& input);
// What is left of each row of logits; keys that are not there cut nothing.
kernels::Truncation truncation(const DoorInput& input);

// call.template operator()<T>() for the request's T, f16 among them.
template <class Call>
TensorSet with_logits_dtype(kernels::Dtype dtype, const Call& call) {
  return dtype == kernels::Dtype::kF16 ? call.template operator()<F16>() : with_dtype(dtype, call);
}
std::vector<double> unit_numbers(DoorInput& input, const std::string& name,
                                 const std::string& shape);

// Numbers of [0, 1) as S, which may round the largest up to 1: they stay below.
template <class S>
std::vector<S> below_one(const std::vector<double>& numbers) {
  std::vector<S> result;
  result.reserve(numbers.size());
  for (const double number : numbers) {
    const S rounded = static_cast<S>(number);
    result.push_back(rounded < S{1} ? rounded : std::nextafter(S{1}, S{0}));
  }
  return result;
}

}  // namespace versieve::engine
