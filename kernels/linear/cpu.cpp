#include "kernels/cpu.h"
#include "kernels/swiglu/activation.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kLanes = 8;
// Outputs of one thread's piece of M: weights of a piece stay in the second-level cache while the
// row tiles pass over them.
constexpr std::int64_t kPanel = 24;

template <class T>
T sum_lanes(const T* a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

// sums[r, c] = x[r] . w[c] for a tile of kRows x kCols outputs; the portable form of the order
// above, which the compiler turns into vector code where it can.
template <class T, int kRows, int kCols>
void dot_tile(const T* x, const T* w, std::int64_t k, T* sums) {
  T lanes[kRows * kCols][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        for (int j = 0; j < kLanes; ++j) {
          T& lane = lanes[r * kCols + c][j];
          lane = std::fma(x[r * k + i + j], w[c * k + i + j], lane);
        }
      }
    }
  }
  for (std::int64_t j = 0; i + j < k; ++j) {
    for (int o = 0; o < kRows * kCols; ++o) {
      const T* row = x + (o / kCols) * k + i;
      const T* column = w + (o % kCols) * k + i;
      lanes[o][j] = std::fma(row[j], column[j], lanes[o][j]);
    }
  }
  for (int o = 0; o < kRows * kCols; ++o) {
    sums[o] = sum_lanes(lanes[o]);
  }
}

#if defined(__AVX2__) && defined(__FMA__)
float sum_lanes(__m256 a) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

__m256i tail_mask(std::int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}

// The same sums as dot_tile, bit for bit: one register of 8 lanes an output.
template <int kRows, int kCols>
void dot_tile_avx2(const float* x, const float* w, std::int64_t k, float* sums) {
  __m256 lanes[kRows][kCols];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) {
      lanes[r][c] = _mm256_setzero_ps();
    }
  }
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    __m256 column[kCols];
    for (int c = 0; c < kCols; ++c) {
      column[c] = _mm256_loadu_ps(w + c * k + i);
    }
    for (int r = 0; r < kRows; ++r) {
      const __m256 row = _mm256_loadu_ps(x + r * k + i);
      for (int c = 0; c < kCols; ++c) {
        lanes[r][c] = _mm256_fmadd_ps(row, column[c], lanes[r][c]);
      }
    }
  }
  if (i < k) {  // lanes past the end add 0 * 0
    const __m256i mask = tail_mask(k - i);
    for (int r = 0; r < kRows; ++r) {
      const __m256 row = _mm256_maskload_ps(x + r * k + i, mask);
      for (int c = 0; c < kCols; ++c) {
        const __m256 column = _mm256_maskload_ps(w + c * k + i, mask);
        lanes[r][c] = _mm256_fmadd_ps(row, column, lanes[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) {
      sums[r * kCols + c] = sum_lanes(lanes[r][c]);
    }
  }
}
#endif

// What the sums of row n are multiplied by: 1 / RMS of the rows that x was made of.
template <class T>
T row_scale(const LinearParams<T>& p, std::int64_t n) {
  if (p.norm.x_squares == nullptr) {
    return T{1};
  }
  const double sum = static_cast<double>(p.norm.x_squares[n]) * kSquareSumUnit;
  return static_cast<T>(1.0 / std::sqrt(sum / static_cast<double>(p.k) + p.norm.eps));
}

template <int kRows, int kCols, class T>
void linear_tile(const LinearParams<T>& p, std::int64_t n, std::int64_t m) {
  T sums[kRows * kCols];
#if defined(__AVX2__) && defined(__FMA__)
  if constexpr (std::is_same_v<T, float>) {
    dot_tile_avx2<kRows, kCols>(p.x + n * p.k, p.w + m * p.k, p.k, sums);
  } else {
    dot_tile<T, kRows, kCols>(p.x + n * p.k, p.w + m * p.k, p.k, sums);
  }
#else
  dot_tile<T, kRows, kCols>(p.x + n * p.k, p.w + m * p.k, p.k, sums);
#endif
  for (int r = 0; r < kRows; ++r) {
    const T scale = row_scale(p, n + r);
    for (int c = 0; c < kCols; ++c) {
      const std::int64_t at = (n + r) * p.m + m + c;
      const T sum = sums[r * kCols + c] * scale;
      p.y[at] = p.residual == nullptr ? sum : p.residual[at] + sum;
    }
  }
}

// kRows rows against columns [m, m_end), kCols at a time.
template <int kRows, int kCols, class T>
void linear_rows(const LinearParams<T>& p, std::int64_t n, std::int64_t m, std::int64_t m_end) {
  for (; m + kCols <= m_end; m += kCols) {
    linear_tile<kRows, kCols>(p, n, m);
  }
  for (; m < m_end; ++m) {
    linear_tile<kRows, 1>(p, n, m);
  }
}

template <class T>
void linear_panel(const LinearParams<T>& p, std::int64_t m, std::int64_t m_end) {
  std::int64_t n = 0;
  for (; n + 4 <= p.n; n += 4) {
    linear_rows<4, 3>(p, n, m, m_end);
  }
  if (n + 2 <= p.n) {
    linear_rows<2, 4>(p, n, m, m_end);
    n += 2;
  }
  if (n < p.n) {
    linear_rows<1, 8>(p, n, m, m_end);
  }
}

// Of the panel's finished outputs: y times the next norm's weight, and their squares.
template <class T>
void weigh_panel(const LinearParams<T>& p, std::int64_t m, std::int64_t m_end) {
  for (std::int64_t n = 0; n < p.n; ++n) {
    double square = 0.0;
    for (std::int64_t i = m; i < m_end; ++i) {
      const SumOf<T> y = to_sum(p.y[n * p.m + i]);
      p.norm.y_weighted[n * p.m + i] = from_sum<T>(y * to_sum(p.norm.y_weight[i]));
      square += static_cast<double>(y) * static_cast<double>(y);
    }
    std::atomic_ref<SquareSum>(p.norm.y_squares[n])
        .fetch_add(static_cast<SquareSum>(std::llrint(square / kSquareSumUnit)),
                   std::memory_order_relaxed);
  }
}

// The panel's finished outputs once more.
template <class T>
void copy_panel(const LinearParams<T>& p, std::int64_t m, std::int64_t m_end) {
  for (std::int64_t n = 0; n < p.n; ++n) {
    std::copy(p.y + n * p.m + m, p.y + n * p.m + m_end, p.y_copy + n * p.y_copy_stride + m);
  }
}

// Panel by panel: gate sums into y, up sums beside them, then their product.
template <class T>
void linear_swiglu(const LinearParams<T>& p, int threads) {
  std::vector<T> up(static_cast<std::size_t>(p.n * p.m));
  LinearParams<T> up_rows = p;
  up_rows.w = p.w + p.m * p.k;
  up_rows.y = up.data();
  const std::int64_t panels = (p.m + kPanel - 1) / kPanel;
  parallel_for(panels, p.n * p.k * p.m < kSmallProducts ? 1 : threads, [&](std::int64_t panel) {
    const std::int64_t end = std::min(p.m, (panel + 1) * kPanel);
    linear_panel(p, panel * kPanel, end);
    linear_panel(up_rows, panel * kPanel, end);
    for (std::int64_t n = 0; n < p.n; ++n) {
      for (std::int64_t at = n * p.m + panel * kPanel; at < n * p.m + end; ++at) {
        p.y[at] = silu_product(p.y[at], up[static_cast<std::size_t>(at)]);
      }
    }
  });
}

// Panel by panel, all that a call asks for.
template <class T>
void linear_panels(const LinearParams<T>& p, int threads) {
  if (p.swiglu) {
    linear_swiglu(p, threads);
    return;
  }
  const std::int64_t panels = (p.m + kPanel - 1) / kPanel;
  parallel_for(panels, p.n * p.k * p.m < kSmallProducts ? 1 : threads, [&](std::int64_t panel) {
    const std::int64_t end = std::min(p.m, (panel + 1) * kPanel);
    linear_panel(p, panel * kPanel, end);
    if (p.norm.y_weight != nullptr) {
      weigh_panel(p, panel * kPanel, end);
    }
    if (p.y_copy != nullptr) {
      copy_panel(p, panel * kPanel, end);
    }
  });
}

std::vector<float> widened(const Bf16* elements, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::transform(elements, elements + count, out.begin(), to_sum<Bf16>);
  return out;
}

constexpr std::int64_t kWidenedRows = 384;  // of weights at once

// Outputs [m, m_end) of bf16 rows: the float sums of the same numbers, each rounded once.
void linear_widened(const LinearParams<Bf16>& p, const std::vector<float>& x, std::int64_t m,
                    std::int64_t m_end, int threads) {
  const std::int64_t columns = m_end - m;
  std::vector<float> w = widened(p.w + m * p.k, columns * p.k);
  if (p.swiglu) {
    const std::vector<float> up = widened(p.w + (p.m + m) * p.k, columns * p.k);
    w.insert(w.end(), up.begin(), up.end());
  }
  std::vector<float> y(static_cast<std::size_t>(p.n * columns));
  LinearParams<float> sums{.n = p.n,
                           .k = p.k,
                           .m = columns,
                           .swiglu = p.swiglu,
                           .x = x.data(),
                           .w = w.data(),
                           .y = y.data()};
  sums.norm.x_squares = p.norm.x_squares;
  sums.norm.eps = p.norm.eps;
  linear_panels(sums, threads);
  for (std::int64_t n = 0; n < p.n; ++n) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = n * p.m + m + i;
      const float sum = y[static_cast<std::size_t>(n * columns + i)];
      p.y[at] = to_bf16(p.residual == nullptr ? sum : to_float(p.residual[at]) + sum);
    }
  }
}

void linear_widened(const LinearParams<Bf16>& p, int threads) {
  const std::vector<float> x = widened(p.x, p.n * p.k);
  for (std::int64_t m = 0; m < p.m && p.n > 0; m += kWidenedRows) {
    const std::int64_t end = std::min(p.m, m + kWidenedRows);
    linear_widened(p, x, m, end, threads);
    if (p.norm.y_weight != nullptr) {
      weigh_panel(p, m, end);
    }
    if (p.y_copy != nullptr) {
      copy_panel(p, m, end);
    }
  }
}

}  // namespace

template <class T>
void linear_cpu(const LinearParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.n >= 0 && p.k >= 1 && p.m >= 1, "linear needs K and M");
  VERSIEVE_ASSERT(p.n == 0 || (p.x != nullptr && p.w != nullptr && p.y != nullptr), "no memory");
  VERSIEVE_ASSERT(!p.swiglu || p.residual == nullptr, "swiglu takes no residual");
  VERSIEVE_ASSERT(!p.swiglu || p.norm.y_weight == nullptr, "no norm follows swiglu");
  VERSIEVE_ASSERT(!p.swiglu || p.y_copy == nullptr, "swiglu writes its rows once");
  if (p.norm.cleared != nullptr) {
    std::fill_n(p.norm.cleared, p.n, SquareSum{0});
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    linear_widened(p, threads);
  } else {
    linear_panels(p, threads);
  }
}

template void linear_cpu<double>(const LinearParams<double>&, int);
template void linear_cpu<float>(const LinearParams<float>&, int);
template void linear_cpu<Bf16>(const LinearParams<Bf16>&, int);

}  // namespace versieve::kernels
