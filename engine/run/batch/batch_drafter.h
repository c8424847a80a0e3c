// Who drafts the trees of several requests side by side: the draft head, whose entries the caller
// keeps, or a draft model with a cache of its own for each request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/batch/chain_choice.h"
#include "engine/run/model/draft.h"
#include "engine/run/model/idle_sequences.h"
#include "engine/run/model/target.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
class BatchDrafter {
 public:
  // Of a sequence that began; slot s is its s-th node since then, parent -1 its root.
  using Nodes = typename Draft<T>::BatchNodes;

  virtual ~BatchDrafter() = default;
  // Runs nodes of growing trees; logits() then has a row a node, sequence after sequence.
  virtual void step(std::span<const Nodes> trees) = 0;
  // Whether it takes nodes whose tokens the host does not know, and a level of trees of such.
  virtual bool takes_levels() const { return false; }
  virtual void step_level(const typename Draft<T>::Level&) {
    VERSIEVE_ASSERT(false, "it takes nodes of the host's");
  }
  virtual const T* logits() const = 0;  // [rows, vocab()]; of the roots at first
  virtual std::int64_t vocab() const = 0;
  // [vocab()]: the target's tokens; empty: the same vocabulary.
  virtual std::vector<std::int32_t> target_tokens() const { return {}; }
  // The target's token of a draft token.
  virtual std::int32_t target_token(std::int32_t draft_token) const { return draft_token; }
};

template <class T>
class HeadBatchDrafter final : public BatchDrafter<T> {
 public:
  explicit HeadBatchDrafter(Draft<T>& draft) : draft_(&draft) {}

  // Draft::extend_batch with these entries comes before each tree.
  void use(const typename Draft<T>::SharedEntries& entries) { entries_ = entries; }
  void step(std::span<const typename BatchDrafter<T>::Nodes> trees) override {
    draft_->step_batch(entries_, trees);
  }
  bool takes_levels() const override { return true; }
  void step_level(const typename Draft<T>::Level& level) override {
    draft_->step_level(entries_, level);
  }
  const T* logits() const override { return draft_->logits(); }
  std::int64_t vocab() const override { return draft_->shape().vocab; }
  std::vector<std::int32_t> target_tokens() const override { return draft_->target_tokens(); }
  std::int32_t target_token(std::int32_t token) const override {
    return draft_->target_token(token);
  }

 private:
  Draft<T>* draft_;
  typename Draft<T>::SharedEntries entries_;
};

// A model's rows of one request's tokens, which it keeps from step to step.
template <class T>
struct DraftContext {
  KvCache<T> cache;
  std::vector<std::int32_t> cached;  // whose rows the cache holds
};

// As ModelDrafter (engine/run/speculate), of several sequences: a chain is decoded token by token;
// a tree is run again with each level.
template <class T>
class ModelBatchDrafter final : public BatchDrafter<T> {
 public:
  // `idle`: of the model's pool, fills its steps up; or null.
  ModelBatchDrafter(kernels::Ops<T>& ops, Target<T>& model, IdleSequences<T>* idle)
      : ops_(&ops), model_(&model), idle_(idle) {}

  struct Sequence {
    DraftContext<T>* context = nullptr;
    std::span<const std::int32_t> text;   // all tokens, the root last
    bool chain = false;                   // the tree is one path
    ChainChoice<T>* attention = nullptr;  // of a chain: takes its steps' weights; null: nobody
  };
  // Each context takes what it lacks of its text; logits() then has each root's row. REQUIRES: the
  // caches are of one pool, with room for text and path.
  void begin(std::vector<Sequence> sequences);

  void step(std::span<const typename BatchDrafter<T>::Nodes> trees) override;
  const T* logits() const override { return logits_.data(); }
  std::int64_t vocab() const override { return model_->shape().vocab; }

 private:
  void catch_up();
  void verify_roots();
  // Rows of the model's newest logits, in that order.
  void gather(const std::vector<std::int32_t>& rows);

  kernels::Ops<T>* ops_;
  Target<T>* model_;
  IdleSequences<T>* idle_;
  std::vector<Sequence> sequences_;
  std::vector<DraftTree> trees_;  // of each: the root and all nodes since begin, if no chain
  kernels::OpsBuffer<T> logits_;  // [rows, V]
  DeviceInts<T> staged_;
};

// Chains of the target's own steps over chosen tokens, appended to each request's cache and dropped
// at the end: as SelfDrafter (engine/run/speculate), of several sequences.
template <class T>
class SelfBatchDrafter final : public BatchDrafter<T> {
 public:
  explicit SelfBatchDrafter(Target<T>& target) : target_(&target) {}

  struct Sequence {
    KvCache<T>* cache = nullptr;
    ChoiceKeys<T>* choice = nullptr;
    VerifyOptions sparse;
    std::int64_t position = 0;  // of the root
    std::int32_t root = 0;
  };
  // logits() then has each root's row.
  void begin(std::vector<Sequence> sequences);
  // Drops what was drafted since.
  void end();

  void step(std::span<const typename BatchDrafter<T>::Nodes> trees) override;
  const T* logits() const override { return target_->logits(); }
  std::int64_t vocab() const override { return target_->shape().vocab; }

 private:
  // A token of each of those sequences.
  void run(const std::vector<std::size_t>& sequences, const std::vector<std::int32_t>& tokens);

  Target<T>* target_;
  std::vector<Sequence> sequences_;
};

}  // namespace versieve::engine
