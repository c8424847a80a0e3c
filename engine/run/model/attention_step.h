// What a layer's attention is given in the running step: the nodes, where kernels read them, and
// the rows that they leave for the commit.
#pragma once

#include <cstdint>

#include "engine/run/model/block_key_cache.h"
#include "engine/run/model/kv_cache.h"
#include "engine/run/model/verify_options.h"
#include "kernels/ops.h"
#include "kernels/ops_together.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// The nodes of the running step. With `counts` sizes are bounds, and the true ones are read where
// kernels run.
struct StepNodes {
  std::int64_t count = 1;                       // N
  bool chain = false;                           // each node follows the one before it
  bool keeps_rows = false;                      // the cache takes their rows at once
  const kernels::StepCounts* counts = nullptr;  // null: the sizes are the host's
  std::int64_t context_len = 0;                 // L
  std::int64_t compressed_rows = 0;             // E
  std::int64_t newest_position = 0;
  const std::int32_t* token = nullptr;     // [N]
  const std::int32_t* parent = nullptr;    // [N]
  const std::int32_t* position = nullptr;  // [N]
  const std::int32_t* owner = nullptr;     // [E]
  const std::int32_t* block = nullptr;     // [E]
  const std::int32_t* source = nullptr;    // [E, l]
};

// Keys and values of the nodes, [layers, rows, G, d] each: what the commit copies into the cache.
template <class T>
class TreeKv {
 public:
  TreeKv(kernels::Ops<T>& ops, const LlmShape& shape, bool keeps_raw_keys);

  void ensure_rows(std::int64_t rows);
  std::int64_t rows() const { return rows_; }               // between two layers
  std::int64_t width() const { return width_; }             // G d
  T* k(std::int64_t layer) const { return at(k_, layer); }  // after rotary
  T* v(std::int64_t layer) const { return at(v_, layer); }
  T* k_raw(std::int64_t layer) const { return at(k_raw_, layer); }  // before rotary, or null
  T* k_cmp(std::int64_t layer) const { return at(k_cmp_, layer); }  // of NSA, or null
  T* v_cmp(std::int64_t layer) const { return at(v_cmp_, layer); }
  TreeRows<T> view() const;

 private:
  using Buffer = kernels::OpsBuffer<T>;
  T* at(const Buffer& buffer, std::int64_t layer) const {
    return buffer.data() == nullptr ? nullptr : buffer.data() + layer * rows_ * width_;
  }

  kernels::Ops<T>* ops_;
  std::int64_t layers_;
  std::int64_t width_;  // G d
  bool compresses_;
  bool keeps_raw_;
  std::int64_t rows_ = 0;
  Buffer k_, v_, k_raw_, k_cmp_, v_cmp_;
};

// The rows of TreeKv from one on, compressed ones from another: those of a sequence, in a step that
// several share.
template <class T>
class TreeKvPart {
 public:
  explicit TreeKvPart(const TreeKv<T>& all, std::int64_t first = 0,
                      std::int64_t first_compressed = 0)
      : all_(&all), first_(first), first_compressed_(first_compressed) {}

  const TreeKv<T>& all() const { return *all_; }
  T* k(std::int64_t layer) const { return at(all_->k(layer), first_); }
  T* v(std::int64_t layer) const { return at(all_->v(layer), first_); }
  T* k_raw(std::int64_t layer) const { return at(all_->k_raw(layer), first_); }
  T* k_cmp(std::int64_t layer) const { return at(all_->k_cmp(layer), first_compressed_); }
  T* v_cmp(std::int64_t layer) const { return at(all_->v_cmp(layer), first_compressed_); }

 private:
  T* at(T* row, std::int64_t first) const {
    return row == nullptr ? nullptr : row + first * all_->width();
  }

  const TreeKv<T>* all_;
  std::int64_t first_, first_compressed_;
};

// Of one sequence: its nodes, its cache, its rows of what all nodes of the step have.
template <class T>
struct AttentionStep {
  const VerifyOptions& options;
  const StepNodes& nodes;
  const KvCache<T>& cache;
  const BlockKeyCache<T>* block_keys = nullptr;  // of the cache; null: BlockAttention keeps them
  TreeKvPart<T> tree;
  std::int64_t first_row = 0;             // of the sequence's nodes among the step's
  bool keeps_rows_first = false;          // the cache takes rows of this layer before it is read
  // Of a prepared step: the first list that its layers read (null: all tokens), where those of
  // layer 0 find the newest node's weights (null: nowhere), and what of both differs by layer.
  kernels::SelectedTokens selected = {};
  kernels::SumOf<T>* weights = nullptr;
  kernels::CallLayers layers = {};
  const double* frequency = nullptr;      // [d/2] of rotary pairs, or null: powers of theta
  const T* q = nullptr;                   // [N, H, d]
  const T* gates = nullptr;               // [N, H, 3], NSA alone
  T* out = nullptr;                       // [N, H, d]
};

}  // namespace versieve::engine
