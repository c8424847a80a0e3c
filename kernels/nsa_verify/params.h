// nsa_verify: one NSA layer's attention for the N nodes of a draft tree over a committed cache.
// Source: Sparse Speculative Verification, section 2; exact readings of every rule: README.md of
// this folder (the door). Shapes: N queries, H query heads, G KV heads, d head size, L committed
// tokens, Lc committed compressed tokens, E path-local compressed tokens, n selected blocks, S
// selection blocks.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/common/page_table.h"
#include "kernels/common/step_counts.h"
#include "kernels/topk/params.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::kernels {

// Answers of the forms agree within the door's tolerances; each by itself is batch invariant.
using versieve::NsaForm;

template <class T>
struct NsaVerifyParams {
  NsaGeometry nsa;
  NsaForm form = NsaForm::kFused;
  // Groups are rows [jC, (j+1)C). kExact: never changes an answer, only what is loaded how often.
  // kApprox: all rows of a group take the blocks that its representative routes to, the row with
  // the greatest position (the lowest such row); ignored where indices_in is given.
  GroupMode group_mode = GroupMode::kExact;
  std::int64_t group_size = 1;  // C
  // Device memory; null: the counts below. Not null (kFused, CUDA): context_len, num_compressed,
  // num_tree_compressed and num_blocks are upper bounds, position follows the counts read, and rows
  // of the caches past the counts hold finite values.
  const StepCounts* counts = nullptr;
  std::int64_t num_heads = 0;            // H
  std::int64_t num_kv_heads = 0;         // G, divides H
  std::int64_t head_dim = 0;             // d
  std::int64_t context_len = 0;          // L
  std::int64_t num_queries = 0;          // N
  std::int64_t num_compressed = 0;       // Lc = compressed_count(nsa, L)
  std::int64_t num_tree_compressed = 0;  // E
  std::int64_t num_blocks = 0;           // S = max position / B + 1

  const T* q = nullptr;  // [N, H, d]
  // Of k and v, and of k_cmp and v_cmp: where they come in pages, of buffers that hold others' too.
  PageTable pages, compressed_pages;
  const T* k = nullptr;                    // [L, G, d], or [*, G, d] by `pages`
  const T* v = nullptr;                    // [L, G, d]
  const T* k_cmp = nullptr;                // [Lc, G, d], or by `compressed_pages`
  const T* v_cmp = nullptr;                // [Lc, G, d]
  const T* k_tree = nullptr;               // [N, G, d], row i belongs to node i
  const T* v_tree = nullptr;               // [N, G, d]
  const T* k_cmp_tree = nullptr;           // [E, G, d]
  const T* v_cmp_tree = nullptr;           // [E, G, d]
  const T* gates = nullptr;                // [N, H, 3], after sigmoid: compressed, selected, window
  const std::int32_t* parent = nullptr;    // [N], parent[0] = -1, parent[i] < i
  const std::int32_t* position = nullptr;  // [N], L + depth
  const std::int32_t* cmp_tree_owner = nullptr;  // [E], ascending
  // [N, G, n], blocks below S, or null: routing runs (refresh)
  const std::int32_t* indices_in = nullptr;

  // Complete before any launch that may still run began, so that a launch begins with it under the
  // one before (kFused, CUDA, N > 1): counts, parents, positions, owners and the caches' rows; the
  // blocks of indices_in. Never changes an answer.
  bool older_lists = false;
  bool older_blocks = false;

  // What ranks the blocks (kVanilla and the CPU; the fused launches rank within): `sort` within the
  // selecting launch, the others kernels/topk over rows of importance. The choice is the same.
  TopkVariant topk = TopkVariant::kSort;
  // Where `gvr` begins: blocks that one query chose before, of any quality. May lie in `indices`.
  const std::int32_t* hint = nullptr;  // [G, n] or null

  // For measurements of a refresh layer under an imposed overlap (kFused, CUDA): routing runs and
  // writes `indices`, selection attends these instead. [N, G, n] or null.
  const std::int32_t* imposed_indices = nullptr;

  T* out = nullptr;                 // [N, H, d]
  std::int32_t* indices = nullptr;  // [N, G, n], ascending, then -1
  SumOf<T>* importance = nullptr;   // [N, G, S], or null if it is not wanted
};

}  // namespace versieve::kernels
