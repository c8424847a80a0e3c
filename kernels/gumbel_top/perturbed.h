// One perturbed logit, the same arithmetic on CPU and GPU.
#pragma once

#include "kernels/common/counter_random.h"
#include "kernels/ops.h"

namespace versieve::kernels {

inline constexpr std::uint64_t kGumbelUse = 3;  // engine/run/model/uniform.h has 1 and 2

template <class T>
VERSIEVE_RANDOM_INLINE std::uint64_t row_place(const GumbelTopParams<T>& p, std::int64_t row) {
  return place_key(p.device_seed == nullptr ? p.seed : *p.device_seed, p.position[row], kGumbelUse);
}

// logit / T + Gumbel(seed, position, token).
template <class Real>
VERSIEVE_RANDOM_INLINE Real perturbed(Real logit, Real inverse_temperature, std::uint64_t place,
                                      std::int64_t token) {
  return logit * inverse_temperature + gumbel_of<Real>(token_bits(place, token));
}

}  // namespace versieve::kernels
