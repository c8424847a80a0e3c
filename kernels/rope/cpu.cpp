#include "kernels/cpu.h"

#include <cmath>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// theta^(-2i/d) for i < d/2.
std::vector<double> inverse_frequencies(double theta, std::int64_t head_dim) {
  std::vector<double> f(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < f.size(); ++i) {
    f[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return f;
}

// All heads of one row: pair i of every head turns by the same angle.
template <class T>
void rope_row(const RopeParams<T>& p, const std::vector<double>& frequencies, std::int64_t n) {
  const std::int64_t half = p.head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = p.position[n] * frequencies[static_cast<std::size_t>(i)];
    const SumOf<T> cosine = static_cast<SumOf<T>>(std::cos(angle));
    const SumOf<T> sine = static_cast<SumOf<T>>(std::sin(angle));
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t at = (n * p.heads + h) * p.head_dim + i;
      const SumOf<T> low = to_sum(p.x[at]);
      const SumOf<T> high = to_sum(p.x[at + half]);
      p.y[at] = from_sum<T>(low * cosine - high * sine);
      p.y[at + half] = from_sum<T>(high * cosine + low * sine);
    }
  }
}

}  // namespace

template <class T>
void rope_cpu(const RopeParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  const std::vector<double> frequencies = inverse_frequencies(p.theta, p.head_dim);
  parallel_for(p.n, p.n * p.heads * p.head_dim < kSmallElements ? 1 : threads,
               [&](std::int64_t n) { rope_row(p, frequencies, n); });
}

template void rope_cpu<double>(const RopeParams<double>&, int);
template void rope_cpu<float>(const RopeParams<float>&, int);
template void rope_cpu<Bf16>(const RopeParams<Bf16>&, int);

}  // namespace versieve::kernels
