// resa_decode: group block-sparse attention of one decoding query (Rectified Sparse Attention,
// section 2.1). Exact readings of every rule: README.md of this folder (the door). Shapes: H query
// heads, G KV heads, d head size, L visible tokens, b tokens a block, M = ceil(L / b) blocks.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/block_keys/params.h"
#include "kernels/common/element.h"
#include "kernels/common/step_counts.h"

namespace versieve::kernels {

// Which blocks are attended. Defaults: Rectified Sparse Attention, section 3.
struct ResaSelection {
  std::int64_t key_block = 16;  // b
  double active_ratio = 0.1;    // p: the active fraction of the blocks
  std::int64_t n_min = 16;
  std::int64_t n_local = 1;  // newest blocks, always attended, counted within the number

  bool operator==(const ResaSelection&) const = default;
};

// Blocks attended of M: min(M, max(n_min, ceil(M p - 1e-9), n_local)), Rectified Sparse Attention,
// equation 4. The tenth's error of p as a double must not add a block: M = 10, p = 0.1 is one
// block.
VERSIEVE_HOST_DEVICE inline std::int64_t resa_block_count(std::int64_t blocks,
                                                          const ResaSelection& s) {
  const std::int64_t share =
      static_cast<std::int64_t>(ceil(static_cast<double>(blocks) * s.active_ratio - 1e-9));
  std::int64_t count = share > s.n_min ? share : s.n_min;
  count = s.n_local > count ? s.n_local : count;
  return count < blocks ? count : blocks;
}

template <class T>
struct ResaDecodeParams {
  ResaSelection selection;
  // Device memory; null: context_len. Not null: context_len is an upper bound of it.
  const StepCounts* counts = nullptr;
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // G, divides H
  std::int64_t head_dim = 0;      // d
  std::int64_t context_len = 0;   // rows of k and v that are visible
  // Into how many parts a KV head's blocks are cut on a GPU; 0: as many as fill it. Never changes a
  // bit of the result.
  std::int64_t splits = 0;
  // On a GPU four launches, each with a range of its own, where one would do: what scoring,
  // selection and attending take. The same blocks.
  bool vanilla = false;
  const T* q = nullptr;      // [H, d]
  PageTable pages;           // of k and v
  const T* k = nullptr;      // [>= context_len, G, d], or [*, G, d] by `pages`
  const T* v = nullptr;      // likewise
  const T* k_new = nullptr;  // [G, d]: the row after those, or null: L = context_len
  const T* v_new = nullptr;  // [G, d]
  const T* kmin = nullptr;   // [M, G, d], block keys; those of forced blocks are not looked at
  const T* kmax = nullptr;   // [M, G, d]
  T* out = nullptr;          // [H, d]
  std::int32_t* indices = nullptr;  // [G, count], ascending

  std::int64_t length() const { return context_len + (k_new == nullptr ? 0 : 1); }  // L
  std::int64_t block_count() const { return key_block_count(length(), selection.key_block); }
  std::int64_t active_count() const { return resa_block_count(block_count(), selection); }
};

}  // namespace versieve::kernels
