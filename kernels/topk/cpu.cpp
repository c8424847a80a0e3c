#include "kernels/cpu.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/topk/cut.h"
#include "kernels/topk/order_key.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
using Key = typename OrderBits<T>::Bits;

template <class T>
T minus_infinity() {
  return -std::numeric_limits<T>::infinity();
}
template <>
Bf16 minus_infinity<Bf16>() {
  return {0xFF80};
}

// The first `count` indices of a full sort by (key descending, index ascending), then ascending.
template <class K>
std::vector<std::int32_t> chosen_by_sort(const std::vector<K>& key, std::int64_t count) {
  std::vector<std::int32_t> order(key.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const K key_a = key[static_cast<std::size_t>(a)];
    const K key_b = key[static_cast<std::size_t>(b)];
    return key_a != key_b ? key_a > key_b : a < b;
  });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

template <class K>
std::vector<std::int32_t> chosen_by_cut(const std::vector<K>& key, TopkCut<K> cut) {
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i] > cut.key || (key[i] == cut.key && cut.ties-- > 0)) {
      chosen.push_back(static_cast<std::int32_t>(i));
    }
  }
  return chosen;
}

template <class T>
std::vector<std::int32_t> chosen_of(const TopkParams<T>& p, std::int64_t row,
                                    const std::vector<Key<T>>& key) {
  const std::int64_t count = std::min(p.k, p.length);
  const std::span<const Key<T>> keys(key);
  switch (p.variant) {
    case TopkVariant::kSort:
      return chosen_by_sort(key, count);
    case TopkVariant::kRadix:
      return chosen_by_cut(key, radix_cut(keys, count));
    case TopkVariant::kGvr:
      break;
  }
  std::span<const std::int32_t> hint;
  if (p.hint != nullptr) {
    hint = {p.hint + row * p.k, static_cast<std::size_t>(p.k)};
  }
  return chosen_by_cut(key, gvr_cut(keys, count, hint));
}

template <class T>
void topk_row(const TopkParams<T>& p, std::int64_t row) {
  const T* scores = p.scores + row * p.length;
  std::vector<Key<T>> key(static_cast<std::size_t>(p.length));
  std::transform(scores, scores + p.length, key.begin(),
                 [](T score) { return order_key<T>(std::bit_cast<Key<T>>(score)); });
  const std::vector<std::int32_t> chosen = chosen_of(p, row, key);
  std::int32_t* indices = p.indices + row * p.k;
  T* values = p.values + row * p.k;
  for (std::int64_t j = 0; j < p.k; ++j) {
    const bool exists = j < p.length;
    indices[j] = exists ? chosen[static_cast<std::size_t>(j)] : -1;
    values[j] = exists ? scores[indices[j]] : minus_infinity<T>();
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
