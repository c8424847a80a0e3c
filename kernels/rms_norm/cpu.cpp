#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
void rms_norm_row(const RmsNormParams<T>& p, std::int64_t n) {
  const std::int64_t row = p.x_row == nullptr ? n : p.x_row[n];
  const T* x = p.x + row * (p.x_stride == 0 ? p.k : p.x_stride);
  T* y = p.y + n * (p.y_stride == 0 ? p.k : p.y_stride);
  double sum = 0.0;
  for (std::int64_t i = 0; i < p.k; ++i) {
    const double element = static_cast<double>(to_sum(x[i]));
    sum += element * element;
  }
  double scale = 1.0 / std::sqrt(sum / static_cast<double>(p.k) + p.eps);
  if (p.squares != nullptr) {
    p.squares[n] = static_cast<SquareSum>(std::llrint(sum / kSquareSumUnit));
    scale = 1.0;
  }
  if (p.copy != nullptr) {
    std::copy_n(x, p.k, p.copy + n * p.k);
  }
  for (std::int64_t i = 0; i < p.k; ++i) {
    y[i] = from_sum<T>(static_cast<double>(to_sum(x[i])) * scale *
                       static_cast<double>(to_sum(p.weight[i])));
  }
}

}  // namespace

template <class T>
void rms_norm_cpu(const RmsNormParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.k >= 1, "rms_norm needs K");
  parallel_for(p.n, p.n * p.k < kSmallElements ? 1 : threads,
               [&](std::int64_t n) { rms_norm_row(p, n); });
}

template void rms_norm_cpu<double>(const RmsNormParams<double>&, int);
template void rms_norm_cpu<float>(const RmsNormParams<float>&, int);
template void rms_norm_cpu<Bf16>(const RmsNormParams<Bf16>&, int);

}  // namespace versieve::kernels
