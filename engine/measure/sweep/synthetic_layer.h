// One NSA layer of a geometry filled with random keys, values and queries, in as many copies as a
// cold cache needs. Queries follow each other like an AR(1) sequence in traversal order, so that
// adjacent ones select similar blocks: how similar is one number in [0, 1].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/measure/sweep/synthetic_random.h"
#include "engine/run/speculate/block_statistics.h"
#include "kernels/ops.h"
#include "model/launches/nsa_shape.h"
#include "model/words/draft_tree.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Whose launches run, in which groups, and whether the layer routes or inherits its blocks.
struct LayerVariant {
  NsaForm form = NsaForm::kFused;
  std::int64_t group_size = 1;
  GroupMode group_mode = GroupMode::kExact;
  bool reuse = false;

  bool operator==(const LayerVariant&) const = default;
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
  // Moves the correlation until the overlap of what queries route to is near `overlap`, as near as
  // the context allows (a context of few blocks has a high least overlap), and gives reuse layers
  // blocks of that overlap. Runs the layer a few times; an answer found for a tree is kept.
  void set_overlap(double overlap);
  // From the next run on. Without a set_overlap before, a reuse layer's queries all agree.
  void set_variant(const LayerVariant& variant);

  void run(std::int64_t set);         // enqueues nsa_verify
  BlockStatistics measured_blocks();  // of the last run; waits
  // What it attended to: [N, G, n]; waits.
  std::vector<std::int32_t> selected_blocks();
  // Distinct blocks of a group of the variant's size, mean over groups and KV heads; waits.
  double measured_group_blocks();
  traffic::NsaVerifyShape traffic_shape() const;

  std::int64_t context_len() const { return context_len_; }
  std::int64_t sets() const { return sets_; }
  const LlmShape& shape() const { return shape_; }

 private:
  void make_cache(SyntheticRandom& random);
  void make_tree_cache();
  void impose_overlap();
  void make_inherited();
  kernels::NsaVerifyParams<T> params(std::int64_t set);

  kernels::Ops<T>& ops_;
  LlmShape shape_;
  std::int64_t context_len_ = 0;     // L
  std::int64_t num_compressed_ = 0;  // Lc
  std::int64_t sets_ = 1;            // R
  std::uint64_t seed_ = 0;
  DraftTree tree_;
  LayerVariant variant_;
  double overlap_ = 1.0;
  std::map<std::pair<std::vector<std::int32_t>, double>, double> correlations_;  // of tree, overlap
  std::vector<std::int32_t> imposed_;    // [N, G, n]: of that overlap, each query its own
  std::vector<std::int32_t> inherited_;  // [N, G, n]: what a reuse layer of the variant gets
  std::vector<std::int32_t> position_;   // [N]
  std::vector<std::int32_t> cmp_owner_;  // [E]
  std::vector<float> innovation_;        // [N, H, d]: what the queries are made of

  kernels::OpsBuffer<T> k_, v_;                    // [R, L, G, d]
  kernels::OpsBuffer<T> k_cmp_, v_cmp_;            // [R, Lc, G, d]
  kernels::OpsBuffer<T> k_tree_, v_tree_;          // [N, G, d]
  kernels::OpsBuffer<T> k_cmp_tree_, v_cmp_tree_;  // [E, G, d]
  kernels::OpsBuffer<T> q_, gates_, out_;          // [N, H, d], [N, H, 3], [N, H, d]
  kernels::OpsBuffer<T, std::int32_t> parent_, position_buffer_, owner_buffer_, indices_,
      inherited_buffer_;
};

extern template class SyntheticLayer<float>;
extern template class SyntheticLayer<Bf16>;

}  // namespace versieve::engine
