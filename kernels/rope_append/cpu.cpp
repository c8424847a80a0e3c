#include "kernels/cpu.h"
#include "kernels/swiglu/activation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// One head: pair (i, i + d/2) turns by the row's angle i.
template <class T>
void rotate(const SumOf<T>* x, const SumOf<T>* cosine, const SumOf<T>* sine, std::int64_t half,
            T* y) {
  for (std::int64_t i = 0; i < half; ++i) {
    const SumOf<T> low = x[i];
    const SumOf<T> high = x[i + half];
    y[i] = from_sum<T>(low * cosine[i] - high * sine[i]);
    y[i + half] = from_sum<T>(high * cosine[i] + low * sine[i]);
  }
}

template <class T>
std::int64_t row_width(const RopeAppendParams<T>& p) {
  return (p.num_heads + 2 * p.num_kv_heads) * p.head_dim + p.gate_count;
}

// x / sqrt(mean(x^2) + eps) * weight, in place.
template <class T>
void norm_head(double eps, const T* weight, std::int64_t d, SumOf<T>* x) {
  SumOf<T> squares = 0;
  for (std::int64_t e = 0; e < d; ++e) {
    squares += x[e] * x[e];
  }
  const SumOf<T> scale =
      1 / std::sqrt(squares / static_cast<SumOf<T>>(d) + static_cast<SumOf<T>>(eps));
  for (std::int64_t e = 0; e < d; ++e) {
    x[e] = x[e] * scale * to_sum(weight[e]);
  }
}

// Row n of x, its queries, keys and values with what comes before rotary.
template <class T>
std::vector<SumOf<T>> prepared_row(const RopeAppendParams<T>& p, std::int64_t n) {
  const std::int64_t d = p.head_dim;
  const T* const x = p.x + n * (p.x_stride == 0 ? row_width(p) : p.x_stride);
  std::vector<SumOf<T>> row(static_cast<std::size_t>(row_width(p)));
  std::transform(x, x + row_width(p), row.begin(), to_sum<T>);
  for (std::int64_t i = 0; p.bias != nullptr && i < row_width(p) - p.gate_count; ++i) {
    row[static_cast<std::size_t>(i)] += to_sum(p.bias[i]);
  }
  for (std::int64_t h = 0; p.q_norm != nullptr && h < p.num_heads + p.num_kv_heads; ++h) {
    norm_head(p.norm_eps, h < p.num_heads ? p.q_norm : p.k_norm, d, row.data() + h * d);
  }
  return row;
}

template <class T>
void append_row(const RopeAppendParams<T>& p, std::int64_t n) {
  const std::int64_t d = p.head_dim, half = d / 2, width = p.num_kv_heads * d;
  const std::vector<SumOf<T>> row = prepared_row(p, n);
  const SumOf<T>* x = row.data();
  for (std::int64_t h = 0; h < p.num_heads; ++h, x += d) {
    rotate(x, p.cosine + n * half, p.sine + n * half, half, p.q + (n * p.num_heads + h) * d);
  }
  if (p.k_raw != nullptr) {
    std::transform(x, x + width, p.k_raw + n * width, from_sum<T, SumOf<T>>);
  }
  for (std::int64_t g = 0; g < p.num_kv_heads; ++g, x += d) {
    rotate(x, p.cosine + n * half, p.sine + n * half, half, p.k + n * width + g * d);
  }
  std::transform(x, x + width, p.v + n * width, from_sum<T, SumOf<T>>);
  if (p.cache_row != nullptr && p.cache_row[n] >= 0) {
    std::copy_n(p.k + n * width, width, p.k_cache + p.cache_row[n] * width);
    std::copy_n(p.v + n * width, width, p.v_cache + p.cache_row[n] * width);
  }
  for (std::int64_t i = 0; i < p.gate_count; ++i) {
    p.gates[n * p.gate_count + i] = from_sum<T>(logistic(x[width + i]));
  }
}

}  // namespace

template <class T>
void rope_table_cpu(const RopeTableParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  const std::int64_t half = p.head_dim / 2;
  parallel_for(half, p.n * half < kSmallElements ? 1 : threads, [&](std::int64_t i) {
    const double frequency =
        p.frequency != nullptr
            ? p.frequency[i]
            : std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(p.head_dim));
    for (std::int64_t n = 0; n < p.n; ++n) {
      const double angle = p.position[n] * frequency;
      p.cosine[n * half + i] = static_cast<SumOf<T>>(std::cos(angle) * p.scale);
      p.sine[n * half + i] = static_cast<SumOf<T>>(std::sin(angle) * p.scale);
    }
  });
}

template <class T>
void rope_append_cpu(const RopeAppendParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  parallel_for(p.n, p.n * row_width(p) < kSmallElements ? 1 : threads,
               [&](std::int64_t n) { append_row(p, n); });
}

template void rope_table_cpu<double>(const RopeTableParams<double>&, int);
template void rope_table_cpu<float>(const RopeTableParams<float>&, int);
template void rope_table_cpu<Bf16>(const RopeTableParams<Bf16>&, int);
template void rope_append_cpu<double>(const RopeAppendParams<double>&, int);
template void rope_append_cpu<float>(const RopeAppendParams<float>&, int);
template void rope_append_cpu<Bf16>(const RopeAppendParams<Bf16>&, int);

}  // namespace versieve::kernels
