// Samplers of several requests in few launches, each request by its own seed, temperature, cuts and
// length: the decisions of each are those that it has alone, bit for bit. Where the device has no
// such launch, one call follows the other.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops.h"

namespace versieve::kernels {

// What draws a row's token; at temperature 0 nothing is added to its logits.
struct RowDraw {
  std::uint64_t seed = 0;
  double temperature = 0.0;

  bool operator==(const RowDraw&) const = default;
};

// gumbel_top of rows that are several requests'.
template <class T>
struct GumbelRowsParams {
  std::int64_t rows = 0, vocab = 0, k = 1;  // k in 1..64
  const RowDraw* draw = nullptr;            // [rows], in the ops' memory
  const T* logits = nullptr;                // [rows, V]
  const std::int32_t* position = nullptr;   // [rows]
  const std::int32_t* token = nullptr;      // [V] or null, as GumbelTopParams
  // [rows, V], written; null: k = 1 without log_probability, which takes one launch and no memory.
  SumOf<T>* perturbed = nullptr;
  std::int32_t* index = nullptr;     // [rows, k]
  float* log_probability = nullptr;  // [rows, k] or null
};

template <class T>
void gumbel_rows(Ops<T>& ops, const GumbelRowsParams<T>& p);

// Chains, one sequence and sample a call. Exact ones and sigmoids go together in two launches, one
// more where laws are cut; the baseline's launches stay a call's own.
template <class T>
void spec_sample_together(Ops<T>& ops, std::span<const SpecSampleParams<T>> calls);

// Trees, one sample a call: one launch, one more where laws are cut; the baseline's a call's own.
template <class T>
void tree_sample_together(Ops<T>& ops, std::span<const TreeSampleParams<T>> calls);

}  // namespace versieve::kernels
