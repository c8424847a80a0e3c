// What the steps of one of several sequences choose tokens by, made of its own cache: ReSA's block
// keys, an indexer's index keys. Made when a step first asks for them, kept by every commit of the
// sequence from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model/block_key_cache.h"
#include "engine/run/model/index_selector.h"
#include "engine/run/model/verify_options.h"
#include "kernels/choose_together.h"

namespace versieve::engine {

template <class T>
class ChoiceKeys {
 public:
  ChoiceKeys(kernels::Ops<T>& ops, const LlmShape& shape) : ops_(&ops), shape_(shape) {}

  // What such verifies choose by is kept from now on, other keys are dropped.
  void keep(const KvCache<T>& cache, const VerifyOptions& options) {
    if (!options.resa) {
      blocks_.reset();
    } else if (!blocks_ || blocks_->key_block() != options.resa->key_block) {
      blocks_.emplace(*ops_, shape_, options.resa->key_block);
      blocks_->update(cache, 0);
    }
    if (!options.index) {
      index_.reset();
    } else if (!index_) {
      index_.emplace(*ops_, shape_);
      index_->keep(cache);
    }
  }
  // The caches of several got tokens from their `first_token` on.
  struct Update {
    ChoiceKeys* keys = nullptr;
    const KvCache<T>* cache = nullptr;
    std::int64_t first_token = 0;
  };
  static void update_together(kernels::Ops<T>& ops, std::span<const Update> updates) {
    std::vector<kernels::BlockKeysParams<T>> blocks;
    std::vector<kernels::IndexKeysParams<T>> index;
    for (const Update& update : updates) {
      if (update.keys->blocks_) {
        blocks.push_back(update.keys->blocks_->update_call(*update.cache, update.first_token));
      }
      if (update.keys->index_) {
        index.push_back(update.keys->index_->update_call(*update.cache, update.first_token));
      }
    }
    kernels::block_keys_together<T>(ops, blocks);
    kernels::index_keys_together<T>(ops, index);
  }
  const BlockKeyCache<T>* blocks() const { return blocks_ ? &*blocks_ : nullptr; }  // or null
  IndexSelector<T>* index() { return index_ ? &*index_ : nullptr; }                 // or null

  // Device memory of the keys of a cache with room for so many tokens.
  static std::int64_t bytes(const LlmShape& shape, const VerifyOptions& options,
                            std::int64_t capacity) {
    return (options.resa ? BlockKeyCache<T>::bytes(shape, options.resa->key_block, capacity) : 0) +
           (options.index ? IndexSelector<T>::bytes(shape, capacity) : 0);
  }

 private:
  kernels::Ops<T>* ops_;
  LlmShape shape_;
  std::optional<BlockKeyCache<T>> blocks_;
  std::optional<IndexSelector<T>> index_;
};

}  // namespace versieve::engine
