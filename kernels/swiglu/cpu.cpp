#include "kernels/cpu.h"
#include "kernels/swiglu/activation.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kPiece = 4096;  // elements of one thread's turn

// body(i) for every i in [0, count).
template <class Body>
void for_each_element(std::int64_t count, int threads, const Body& body) {
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  parallel_for(pieces, count < kSmallElements ? 1 : threads, [&](std::int64_t piece) {
    const std::int64_t end = std::min(count, (piece + 1) * kPiece);
    for (std::int64_t i = piece * kPiece; i < end; ++i) {
      body(i);
    }
  });
}

}  // namespace

template <class T>
void swiglu_cpu(const SwigluParams<T>& p, int threads) {
  for_each_element(p.count, threads, [&](std::int64_t i) {
    p.y[i] = from_sum<T>(silu_product(to_sum(p.gate[i]), to_sum(p.up[i])));
  });
}

template <class T>
void sigmoid_cpu(const SigmoidParams<T>& p, int threads) {
  for_each_element(p.count, threads,
                   [&](std::int64_t i) { p.y[i] = from_sum<T>(logistic(to_sum(p.x[i]))); });
}

template void swiglu_cpu<double>(const SwigluParams<double>&, int);
template void swiglu_cpu<float>(const SwigluParams<float>&, int);
template void swiglu_cpu<Bf16>(const SwigluParams<Bf16>&, int);
template void sigmoid_cpu<double>(const SigmoidParams<double>&, int);
template void sigmoid_cpu<float>(const SigmoidParams<float>&, int);
template void sigmoid_cpu<Bf16>(const SigmoidParams<Bf16>&, int);

}  // namespace versieve::kernels
