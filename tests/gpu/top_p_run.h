// top_p of rows of weights on a GPU and on the CPU.
#pragma once

#include <vector>

#include "kernels/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {

using Ints = std::vector<std::int32_t>;

struct TopPAnswer {
  Ints mask;
  std::vector<float> mass;
};

inline TopPParams<float> top_p_params(std::int64_t rows, std::int64_t length, std::int64_t stride,
                                      double p) {
  return {.rows = rows, .length = length, .row_stride = stride, .p = p};
}

inline TopPAnswer top_p_on_gpu(Ops<float>& ops, TopPParams<float> p,
                               const std::vector<float>& weights) {
  const OpsBuffer<float> device(ops, weights);
  OpsBuffer<float, std::int32_t> mask(ops, Ints(static_cast<std::size_t>(p.length), -5));
  OpsBuffer<float> mass = test::poisoned<float>(ops, p.rows);
  p.weights = device.data();
  p.mask = mask.data();
  p.mass = mass.data();
  ops.top_p(p);
  return {mask.read(), mass.read()};
}

inline TopPAnswer top_p_on_cpu(TopPParams<float> p, const std::vector<float>& weights) {
  TopPAnswer answer{.mask = Ints(static_cast<std::size_t>(p.length)),
                    .mass = std::vector<float>(static_cast<std::size_t>(p.rows))};
  p.weights = weights.data();
  p.mask = answer.mask.data();
  p.mass = answer.mass.data();
  top_p_cpu(p, 2);
  return answer;
}

}  // namespace versieve::kernels
