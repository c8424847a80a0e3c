// One NSA layer of a geometry filled with random keys, values and queries, in as many copies as a
// cold cache needs. Queries follow each other like an AR(1) sequence in traversal order, so that
// adjacent ones select similar blocks: how similar is one number in [0, 1].
#pragma once

#include <cstdint>
#include <vector>

#include "engine/speculate/block_statistics.h"
#include "kernels/ops.h"
#include "model/draft_tree.h"
#include "model/llm_shape.h"
#include "model/traffic.h"

namespace versieve::engine {

// Numbers in a fixed order from a seed: splitmix64, and normals by Box and Muller, so that the
// same seed gives the same tensors with every compiler.
class SyntheticRandom {
 public:
  explicit SyntheticRandom(std::uint64_t seed) : state_(seed) {}
  double uniform();  // in (0, 1)
  double normal();

 private:
  std::uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

template <class T>
class SyntheticLayer {
 public:
  // Keys and values of `context_len` tokens in `sets` copies of the same numbers.
  SyntheticLayer(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t context_len,
                 std::int64_t sets, std::uint64_t seed);

  // The tree whose nodes are the queries, in its traversal order.
  void set_tree(const DraftTree& tree);
  // Queries with that correlation of neighbours: 0 unrelated, 1 the same.
  void set_correlation(double correlation);
  // Moves the correlation until the measured overlap is near `overlap`, as near as the context
  // allows (a context of few blocks has a high least overlap). Runs the layer a few times.
  void set_overlap(double overlap);

  void run(std::int64_t set);         // enqueues nsa_verify
  BlockStatistics measured_blocks();  // of the last run; waits
  traffic::NsaVerifyShape traffic_shape() const;

  std::int64_t context_len() const { return context_len_; }
  std::int64_t sets() const { return sets_; }

 private:
  void make_cache(SyntheticRandom& random);
  void make_tree_cache();
  kernels::NsaVerifyParams<T> params(std::int64_t set);

  kernels::Ops<T>& ops_;
  LlmShape shape_;
  std::int64_t context_len_ = 0;     // L
  std::int64_t num_compressed_ = 0;  // Lc
  std::int64_t sets_ = 1;            // R
  std::uint64_t seed_ = 0;
  DraftTree tree_;
  std::vector<std::int32_t> position_;   // [N]
  std::vector<std::int32_t> cmp_owner_;  // [E]
  std::vector<float> innovation_;        // [N, H, d]: what the queries are made of

  kernels::OpsBuffer<T> k_, v_;                    // [R, L, G, d]
  kernels::OpsBuffer<T> k_cmp_, v_cmp_;            // [R, Lc, G, d]
  kernels::OpsBuffer<T> k_tree_, v_tree_;          // [N, G, d]
  kernels::OpsBuffer<T> k_cmp_tree_, v_cmp_tree_;  // [E, G, d]
  kernels::OpsBuffer<T> q_, gates_, out_;          // [N, H, d], [N, H, 3], [N, H, d]
  kernels::OpsBuffer<T, std::int32_t> parent_, position_buffer_, owner_buffer_, indices_;
};

extern template class SyntheticLayer<float>;
extern template class SyntheticLayer<Bf16>;

}  // namespace versieve::engine
