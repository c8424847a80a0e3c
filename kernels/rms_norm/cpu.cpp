#include "kernels/rms_norm/cpu.h"

#include <cmath>

#include "kernels/common/parallel_for.h"
#include "kernels/common/small_work.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
void rms_norm_row(const T* x, const T* weight, std::int64_t k, double eps, T* y) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < k; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(k) + eps);
  for (std::int64_t i = 0; i < k; ++i) {
    y[i] = static_cast<T>(static_cast<double>(x[i]) * scale * static_cast<double>(weight[i]));
  }
}

}  // namespace

template <class T>
void rms_norm_cpu(const RmsNormParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.k >= 1, "rms_norm needs K");
  const std::int64_t x_stride = p.x_stride == 0 ? p.k : p.x_stride;
  const std::int64_t y_stride = p.y_stride == 0 ? p.k : p.y_stride;
  parallel_for(p.n, p.n * p.k < kSmallElements ? 1 : threads, [&](std::int64_t n) {
    rms_norm_row(p.x + n * x_stride, p.weight, p.k, p.eps, p.y + n * y_stride);
  });
}

template void rms_norm_cpu<double>(const RmsNormParams<double>&, int);
template void rms_norm_cpu<float>(const RmsNormParams<float>&, int);

}  // namespace versieve::kernels
