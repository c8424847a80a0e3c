#include "kernels/nsa_verify/routing.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu.h"
#include "model/words/assert.h"

namespace versieve::kernels {

ImportanceWeights importance_weights(const NsaGeometry& nsa) {
  const std::int64_t blocks = nsa.sel_block / nsa.cmp_stride;    // B/s
  const std::int64_t overlaps = nsa.cmp_block / nsa.cmp_stride;  // l/s
  ImportanceWeights result;
  result.first_offset = 1 - overlaps;
  result.weight.assign(static_cast<std::size_t>(blocks + overlaps - 1), 0);
  for (std::int64_t m = 0; m < blocks; ++m) {
    for (std::int64_t u = 0; u < overlaps; ++u) {
      ++result.weight[static_cast<std::size_t>(m - u - result.first_offset)];
    }
  }
  return result;
}

template <class S>
void select_blocks(const NsaGeometry& nsa, const S* importance, std::int64_t own,
                   std::vector<std::int32_t>& order, std::int32_t* indices) {
  const std::int64_t count = std::min(nsa.sel_count, own + 1);
  order.clear();
  for (std::int64_t block = 0; block <= own; ++block) {
    order.push_back(static_cast<std::int32_t>(block));
  }
  const auto goes_before = [&](std::int32_t a, std::int32_t b) {
    const bool forced_a = is_forced(nsa, a, own);
    const bool forced_b = is_forced(nsa, b, own);
    if (forced_a != forced_b) {
      return forced_a;
    }
    if (!forced_a && importance[a] != importance[b]) {
      return importance[a] > importance[b];
    }
    return a < b;
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), goes_before);
  std::sort(order.begin(), order.begin() + count);
  std::copy_n(order.begin(), count, indices);
  std::fill(indices + count, indices + nsa.sel_count, -1);
}

template <class S>
void select_blocks_by(TopkVariant variant, const NsaGeometry& nsa, const S* importance,
                      std::int64_t own, const std::int32_t* hint, std::vector<S>& scores,
                      std::vector<S>& values, std::int32_t* indices) {
  scores.assign(importance, importance + own + 1);
  for (std::int64_t block = 0; block <= own; ++block) {
    if (is_forced(nsa, block, own)) {
      scores[static_cast<std::size_t>(block)] = std::numeric_limits<S>::infinity();
    }
  }
  values.resize(static_cast<std::size_t>(nsa.sel_count));
  topk_cpu<S>({.variant = variant,
               .rows = 1,
               .length = own + 1,
               .k = nsa.sel_count,
               .scores = scores.data(),
               .hint = hint,
               .indices = indices,
               .values = values.data()},
              1);
}

std::int64_t representative(const std::int32_t* position, std::int64_t first, std::int64_t end) {
  return std::max_element(position + first, position + end) - position;
}

template void select_blocks<double>(const NsaGeometry&, const double*, std::int64_t,
                                    std::vector<std::int32_t>&, std::int32_t*);
template void select_blocks<float>(const NsaGeometry&, const float*, std::int64_t,
                                   std::vector<std::int32_t>&, std::int32_t*);
template void select_blocks_by<double>(TopkVariant, const NsaGeometry&, const double*, std::int64_t,
                                       const std::int32_t*, std::vector<double>&,
                                       std::vector<double>&, std::int32_t*);
template void select_blocks_by<float>(TopkVariant, const NsaGeometry&, const float*, std::int64_t,
                                      const std::int32_t*, std::vector<float>&, std::vector<float>&,
                                      std::int32_t*);

}  // namespace versieve::kernels
