// One nsa_verify problem held in double, an independent plain-loop answer to it, and the changes of
// form (a node alone, another order, nodes committed) that must not change a bit of any answer.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/nsa_verify/params.h"

namespace versieve::testing {

enum class TreeForm { kRandom, kChain, kStar };

struct NsaCaseShape {
  NsaGeometry nsa;
  std::int64_t heads = 4, kv_heads = 2, head_dim = 16, context_len = 100, nodes = 5;
  TreeForm tree = TreeForm::kRandom;
  double logit_scale = 1.0;  // multiplies q
  bool equal_keys = false;   // every key the same: every score equal
  bool zero_keys = false;
  std::int64_t group_size = 1;
  GroupMode group_mode = GroupMode::kExact;
  std::string text() const;
};

struct NsaCase {
  NsaCaseShape shape;
  std::vector<double> q, k, v, k_cmp, v_cmp, k_tree, v_tree, k_cmp_tree, v_cmp_tree, gates;
  std::vector<std::int32_t> parent, position, owner;
  std::vector<std::int32_t> indices_in;  // empty: routing runs

  std::int64_t num_blocks() const;
};

struct NsaResult {
  std::vector<double> out;            // [N, H, d]
  std::vector<std::int32_t> indices;  // [N, G, n]
  std::vector<double> importance;     // [N, G, S]; empty where routing did not run. The plain
                                      // answer holds in each row what chose that row's blocks
};

// The row whose importance chooses the blocks of `node`: itself, unless its group is approximate.
std::int32_t routing_row(const NsaCase& c, std::int32_t node);

NsaCase make_nsa_case(const NsaCaseShape& shape, std::mt19937_64& rng);
// All tensors rounded to T and back.
template <class T>
NsaCase rounded(const NsaCase& c);
// kernels/nsa_verify/README.md by plain loops over absolute positions, in double.
NsaResult plain_nsa_verify(const NsaCase& c);

// Rows from the root to `node`.
std::vector<std::int32_t> path_of(const NsaCase& c, std::int32_t node);
// The path of `node` as a chain: its last row is the node.
NsaCase path_alone(const NsaCase& c, std::int32_t node);
// Rows in another order. REQUIRES: parents before children in `order`.
NsaCase reordered(const NsaCase& c, const std::vector<std::int32_t>& order);
// The first `count` rows of a chain moved into the cache, the rest to be verified.
NsaCase committed(const NsaCase& c, std::int64_t count);

// A case in T, params pointing into it; the outputs start as poison.
template <class T>
struct NsaBuffers {
  explicit NsaBuffers(const NsaCase& c);
  kernels::NsaVerifyParams<T> params();
  NsaResult result() const;

  NsaCase source;
  std::vector<T> q, k, v, k_cmp, v_cmp, k_tree, v_tree, k_cmp_tree, v_cmp_tree, gates, out;
  std::vector<std::int32_t> indices;
  std::vector<kernels::SumOf<T>> importance;
};

using NsaRunner = std::function<NsaResult(const NsaCase&)>;

struct Tolerance {
  double norm;        // over the whole output
  double row;         // of any one row
  double importance;  // relative, where two candidates may swap
};
template <class T>
Tolerance tolerance_of();

// An empty text, or what is wrong with `got` as an answer to `c` (rounded to T). A choice of blocks
// may differ from the double one only between candidates of nearly equal importance; the output is
// then compared under the choice made.
std::string disagreement(const NsaCase& c, const NsaResult& got, const Tolerance& tolerance);
// The same by another double answer than plain loops.
std::string disagreement(const NsaCase& c, const NsaResult& got, const Tolerance& tolerance,
                         const NsaRunner& answer);
// An empty text, or where row `row` of `a` and row `other` of `b` differ in a bit.
std::string row_difference(const NsaCase& c, const NsaResult& a, std::int64_t row,
                           const NsaResult& b, std::int64_t other);

// Whether `run` gives each node the same bits alone, in another order, after part of its path was
// committed, and one by one: an empty text, or the first difference.
std::string invariance_failure(const NsaCase& c, const NsaRunner& run, std::mt19937_64& rng);

// Odd and ordinary shapes; `cuda` keeps to what the CUDA kernels take.
NsaCaseShape random_nsa_shape(std::mt19937_64& rng, bool cuda);
// Tie rule, huge logits, zero keys, one-block contexts, block borders.
std::vector<NsaCaseShape> adversarial_nsa_shapes();
// VERSIEVE_SEED, or a fixed default; printed by the caller on failure.
std::uint64_t test_seed();

}  // namespace versieve::testing
