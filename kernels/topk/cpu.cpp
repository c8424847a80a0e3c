#include "kernels/topk/cpu.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/topk/order_key.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
T minus_infinity() {
  return -std::numeric_limits<T>::infinity();
}
template <>
Bf16 minus_infinity<Bf16>() {
  return {0xFF80};
}

template <class T>
void topk_row(const TopkParams<T>& p, std::int64_t row) {
  using Bits = typename OrderBits<T>::Bits;
  const T* scores = p.scores + row * p.length;
  std::vector<Bits> key(static_cast<std::size_t>(p.length));
  std::transform(scores, scores + p.length, key.begin(),
                 [](T score) { return order_key<T>(std::bit_cast<Bits>(score)); });
  std::vector<std::int32_t> order(key.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const Bits key_a = key[static_cast<std::size_t>(a)];
    const Bits key_b = key[static_cast<std::size_t>(b)];
    return key_a != key_b ? key_a > key_b : a < b;
  });
  const std::int64_t count = std::min(p.k, p.length);
  std::sort(order.begin(), order.begin() + count);
  std::int32_t* indices = p.indices + row * p.k;
  T* values = p.values + row * p.k;
  for (std::int64_t j = 0; j < p.k; ++j) {
    indices[j] = j < count ? order[static_cast<std::size_t>(j)] : -1;
    values[j] = j < count ? scores[indices[j]] : minus_infinity<T>();
  }
}

}  // namespace

template <class T>
void topk_cpu(const TopkParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
  VERSIEVE_ASSERT(p.length <= std::numeric_limits<std::int32_t>::max(), "indices are 32-bit");
  parallel_for(p.rows, threads, [&](std::int64_t row) { topk_row(p, row); });
}

template void topk_cpu<double>(const TopkParams<double>&, int);
template void topk_cpu<float>(const TopkParams<float>&, int);
template void topk_cpu<Bf16>(const TopkParams<Bf16>&, int);

}  // namespace versieve::kernels
