// A token-level indexer on a dense target (after DeepSeek Sparse Attention, whose indexer is
// trained; this one is made of the target's own keys and queries: model/words/index_shape.h). In
// each layer the root's index query scores all committed tokens but the newest ones, the k best are
// chosen exactly, with the layer's last choice as the hint, and all nodes of the tree read them and
// the newest ones. Nothing of it waits for the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/kv_cache.h"
#include "engine/run/model/token_selector.h"
#include "engine/run/model/verify_options.h"
#include "kernels/ops.h"
#include "model/words/index_shape.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

template <class T>
class IndexSelector final : public TokenSelector<T> {
 public:
  IndexSelector(kernels::Ops<T>& ops, const LlmShape& shape) : ops_(&ops), shape_(shape) {}

  // Makes the index keys of the committed tokens; from then on they are kept with every commit.
  // REQUIRES: a dense target of at most kIndexPairs KV heads.
  void keep(const KvCache<T>& cache);
  void drop() { keeps_ = false; }
  // After the cache got tokens from `first_token` on; nothing if no keys are kept.
  void update(const KvCache<T>& cache, std::int64_t first_token);
  // The call that does so, for several in one launch. REQUIRES: keep().
  kernels::IndexKeysParams<T> update_call(const KvCache<T>& cache, std::int64_t first_token);
  // Enqueues the same for the newest `tokens` of a length in device memory.
  void update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                     std::int64_t tokens);
  // Device memory of the keys and scores of a cache with room for so many tokens.
  static std::int64_t bytes(const LlmShape& shape, std::int64_t capacity) {
    return (shape.layers * index_shape(shape).dim + 1) * capacity *
           static_cast<std::int64_t>(sizeof(T));
  }
  // What the next verify is to choose. Choices of another text may be its first hints: worse ones,
  // of which no choice depends. REQUIRES: keep().
  void begin(const IndexSelection& selection);

  // All tokens, without a list, where the host knows that the selection is not smaller. REQUIRES:
  // begin().
  kernels::SelectedTokens select(const LayerQueries<T>& layer) override;
  // Of several sequences: once a step, before its first layer, what its layers will read (of layer
  // 0, `list_stride` elements before the next), and layer by layer the choices, in few launches.
  // REQUIRES: begin(); of select_together: announce() gave each a list.
  kernels::SelectedTokens announce(std::int64_t context_len);
  std::int64_t list_stride() const { return selection_.tokens(); }
  struct Choice {
    IndexSelector* selector = nullptr;
    LayerQueries<T> layer;
  };
  static void select_together(kernels::Ops<T>& ops, std::span<const Choice> choices);
  // Of the last select() of that layer, ascending; empty where it read all. Waits.
  std::vector<std::int32_t> listed(std::int64_t layer) const;

 private:
  using Ints = kernels::OpsBuffer<T, std::int32_t>;

  kernels::IndexKeysParams<T> key_params(const KvCache<T>& cache) const;
  void ensure_room(const KvCache<T>& cache, std::int64_t& first_token);
  kernels::IndexQueryParams<T> query_call(const LayerQueries<T>& layer) const;
  kernels::IndexScoresParams<T> scores_call(const LayerQueries<T>& layer) const;
  kernels::TopkParams<T> topk_call(const LayerQueries<T>& layer) const;
  // A recorded step's length is a bound, behind which nothing has a score.
  std::int64_t scored(const LayerQueries<T>& layer) const {
    return layer.counts != nullptr ? layer.context_len : layer.context_len - selection_.newest;
  }
  std::int32_t* list(std::int64_t layer) const {
    return lists_.data() + layer * selection_.tokens();
  }

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  IndexShape index_;
  bool keeps_ = false;
  bool read_all_ = true;  // the last select()
  IndexSelection selection_;
  std::int64_t capacity_ = 0;             // of the cache, in tokens
  kernels::OpsBuffer<T> keys_;            // [layers, capacity, D]
  kernels::OpsBuffer<T> query_;           // [I, D]
  kernels::OpsBuffer<T, float> weights_;  // [I], ones
  kernels::OpsBuffer<T> scores_;          // [capacity]
  kernels::OpsBuffer<T> values_;          // [k]: of the chosen scores
  Ints lists_, hint_, count_;             // [layers, k + w], [k], [1]
};

}  // namespace versieve::engine
