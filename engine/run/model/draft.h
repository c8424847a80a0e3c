// The EAGLE-3 draft head: entries by position, each made of its token and of the feature of the
// position before it. `extend` appends entries with the target's true features; `step` runs nodes
// of a growing tree, whose features are the draft's own outputs. Nothing here touches the target's
// results, so it may be wrong without harm to the text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/weights.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

template <class T>
class Draft {
 public:
  // `embedding` [V, hidden] is the target's and outlives the draft; weights may hold another.
  Draft(kernels::Ops<T>& ops, const DraftShape& shape, DraftWeights<T> weights, const T* embedding);

  const DraftShape& shape() const { return shape_; }
  // The target's token of a draft token.
  std::int32_t target_token(std::int32_t draft_token) const;
  // [V] of the draft: the target's tokens; empty: the same vocabulary.
  const std::vector<std::int32_t>& target_tokens() const { return weights_.target_token; }
  bool has_own_vocabulary() const { return !weights_.target_token.empty(); }

  // Rows for positions below length() are there (those a window away or more may be unset).
  std::int64_t length() const { return length_; }
  void reserve(std::int64_t positions);
  void truncate(std::int64_t length);
  void set_length(std::int64_t length) { length_ = length; }

  // Entries for positions first, first + 1, ...: entry i has tokens[i] and the captured streams of
  // the position before it, row rows[i] of `captured` [*, 3 * hidden]. With `read_out` the newest
  // entry's logits and output follow: logits() row 0, and the root's feature for `step`.
  void extend(std::int64_t first, std::span<const std::int32_t> tokens, const T* captured,
              std::span<const std::int32_t> rows, bool read_out);

  // Runs nodes over the committed entries and their ancestors. Slot s is the s-th node given since
  // the last extend; parent -1 is the newest entry. logits() then has a row a node.
  struct Nodes {
    std::vector<std::int32_t> token;     // target's tokens
    std::vector<std::int32_t> position;  // newest entry's position + depth
    std::vector<std::int32_t> parent;    // slot, or -1
  };
  void step(const Nodes& nodes);

  // The same two in device memory, for steps that no host takes part in; they only enqueue, once
  // reserve_device was called. Slot 0 is the newest entry.
  struct DeviceSlots {
    const kernels::StepCounts* counts = nullptr;  // context_len: the newest entry's position
    std::int64_t max_context = 0;                 // its bound
    const std::int32_t* identity = nullptr;       // [slots]: 0, 1, ...
    const std::int32_t* parent = nullptr;         // [slots], -1 for slot 0
    const std::int32_t* position = nullptr;       // [slots]
  };
  struct DeviceEntries {
    std::int64_t rows = 0;                   // P
    const std::int32_t* token = nullptr;     // [P], row 0 the newest
    const std::int32_t* row = nullptr;       // [P]: of `captured`
    const std::int32_t* position = nullptr;  // [P]; padding lies beyond the newest
  };
  // Room for entries up to `positions`, P of them a call, `rows` nodes a step and `slots` in all.
  void reserve_device(std::int64_t positions, std::int64_t rows, std::int64_t slots);
  void extend_device(const DeviceSlots& slots, const DeviceEntries& entries, const T* captured);
  // The entries alone, of which nothing is read out: for steps that grow no tree.
  void keep_device(const DeviceEntries& entries, const T* captured);
  // Runs slots first ... first + count - 1.
  void step_device(const DeviceSlots& slots, std::int64_t first, std::int64_t count,
                   const std::int32_t* token);

  // Entries, levels and growth of a tree in one launch (Ops::draft_levels), which writes the tree's
  // pool; false: the device has none for this draft and tree, and nothing ran. No bit depends on
  // it.
  struct DeviceGrowth {
    DraftChoice choice;
    bool scores_by_rank = false;
    const std::int32_t* target_token = nullptr;  // in device memory, or null: the same vocabulary
    kernels::StepState* state = nullptr;
    std::int64_t max_context = 0;  // bound of the newest entry's position
  };
  bool try_grow_device(const DeviceGrowth& growth, const DeviceEntries& entries, const T* captured,
                       std::int64_t target_vocab);

  // The same two for several sequences at once, whose entries are rows of memory that they share
  // (kv_pool.h): what works row by row takes all of them, attention is each sequence's own. What
  // extend and step keep is left alone but for their newest results.
  struct SharedEntries {
    T* k = nullptr;  // [*, G, d]
    T* v = nullptr;
  };
  struct BatchEntries {
    std::span<const std::int32_t> page;  // of its rows in the shared memory
    kernels::PageTable table;            // the same in memory of the Ops
    std::int64_t first = 1;              // position of the oldest new entry
    std::vector<std::int32_t> token;     // of each entry
    std::vector<std::int32_t> rows;      // of `captured`
    std::int64_t slots = 0;              // nodes that step_batch will run; 0: nothing is read out
  };
  // logits() then has a row for the newest entry of each sequence that is read out, in order.
  void extend_batch(const SharedEntries& shared, std::span<const BatchEntries> sequences,
                    const T* captured);
  struct BatchNodes {
    std::size_t sequence = 0;  // among those that the last extend_batch read out
    Nodes nodes;
  };
  // logits() then has a row a node, sequence after sequence.
  void step_batch(const SharedEntries& shared, std::span<const BatchNodes> sequences);
  // The same of trees that are grown in device memory: of each a level's nodes, padded to its
  // width.
  struct LevelTree {
    std::size_t sequence = 0;              // as BatchNodes
    std::int64_t first = 0, count = 0;     // slots of the level
    const std::int32_t* slot = nullptr;    // [count]: first, first + 1, ...
    const std::int32_t* parent = nullptr;  // [first + count]: a slot, or -1
    const std::int32_t* position = nullptr;
  };
  struct Level {
    std::int64_t rows = 0;                      // of all trees, tree after tree
    const std::int32_t* token = nullptr;        // [rows]
    const std::int32_t* position = nullptr;     // [rows]
    const std::int32_t* feature_row = nullptr;  // [rows]: output that the node's feature is: those
                                                // of newest entries come first, then all nodes'
    std::span<const LevelTree> trees;
  };
  void step_level(const SharedEntries& shared, const Level& level);
  // Device memory of calls of so many rows and slots, beside weights and entries.
  static std::int64_t step_bytes(const DraftShape& shape, std::int64_t rows, std::int64_t slots);

  const T* logits() const { return logits_.data(); }  // [rows, draft V]
  std::vector<T> newest_feature() const;              // [hidden]: the newest entry's output
  T* k() const { return k_.data(); }                  // [capacity, G, d]
  T* v() const { return v_.data(); }

 private:
  using Buffer = kernels::OpsBuffer<T>;

  void ensure_rows(std::int64_t rows);
  void ensure_slots(std::int64_t slots);
  // The tokens' embeddings and features -> input_ [rows, 2 * hidden], and the rows' rotary angles.
  // Features lie in feature_, or in the rows `feature_row` [rows] of output_, which are copied
  // there.
  void embed(std::int64_t rows, const std::int32_t* tokens, const std::int32_t* positions,
             const std::int32_t* feature_row = nullptr);
  // input_ [rows, 2 * hidden] -> joint_.
  void project(std::int64_t rows);
  // joint_ -> query_, keys and values; these also to rows `cache_row` [rows] of a cache if not
  // null.
  void take_apart(std::int64_t rows, T* k, T* v, const std::int32_t* cache_row = nullptr,
                  T* k_cache = nullptr, T* v_cache = nullptr);
  void read_out_batch(const SharedEntries& shared, const std::int32_t* ints, std::int64_t rows);
  struct BatchSequence;
  // Slots first ... first + count - 1 of a sequence, from row `at` of the call on.
  kernels::TreeAttentionParams<T> slot_attention(const SharedEntries& shared,
                                                 const BatchSequence& sequence, std::int64_t at,
                                                 const LevelTree& slots) const;
  // joint_ as queries of nodes, which attention takes apart.
  kernels::JointQueries<T> joint_queries() const;
  // attention_, the residual in `feature` -> `output` [rows, hidden] and logits.
  void finish(std::int64_t rows, const T* feature, T* output);
  kernels::TreeAttentionParams<T> attention_over(const DeviceSlots& slots) const;
  void read_out(std::int64_t row, const std::int32_t* ints, std::int64_t rows);
  void linear(std::int64_t rows, const T* x, const T* w, std::int64_t k, std::int64_t m, T* y,
              const T* residual = nullptr);

  std::int64_t kv_width() const { return shape_.num_kv_heads * shape_.head_dim; }
  std::int64_t q_width() const { return shape_.num_heads * shape_.head_dim; }

  kernels::Ops<T>* ops_;
  DraftShape shape_;
  DraftWeights<T> weights_;
  const T* embedding_;       // [V, hidden]
  std::int64_t length_ = 1;  // position 0 has no entry
  std::int64_t capacity_ = 0;
  std::int64_t rows_ = 0;
  DeviceInts<T> staged_;

  // Slots since the last extend.
  std::vector<std::int32_t> slot_parent_;
  std::vector<std::int32_t> slot_position_;
  std::int64_t slot_capacity_ = 0;

  // Those that the last extend_batch read out.
  struct BatchSequence {
    kernels::PageTable table;
    std::int64_t newest_row = 0;  // of the shared memory
    std::int64_t length = 0;      // entries, position 0 counted
    std::int64_t entry = 0;       // the newest's row in the call
    std::int64_t first_slot = 0;  // its slots' first row in k_tree_ and v_tree_
    std::int64_t slots = 0;
    std::vector<std::int32_t> parent, position;  // of the slots so far
    std::vector<std::int32_t> output;            // row of output_: the newest entry's, the slots'
  };
  std::vector<BatchSequence> batch_;
  std::int64_t batch_outputs_ = 0;  // rows of output_ that are taken
  Buffer k_tree_;                   // [slots, G, d]
  Buffer v_tree_;                   // [slots, G, d]
  Buffer output_;  // [1 + slots, hidden]: row 0 the newest entry's, then the slots'

  Buffer k_, v_;                                            // [capacity, G, d]
  Buffer captured_;                                         // [rows, 3 * hidden]
  Buffer feature_;                                          // [rows, hidden]
  Buffer input_;                                            // [rows, 2 * hidden]
  kernels::OpsBuffer<T, kernels::SumOf<T>> cosine_, sine_;  // [rows, d/2]: rotary angles
  kernels::OpsBuffer<T, double> frequency_;  // [d/2] of rotary pairs, or empty: powers of theta
  Buffer query_;                             // [rows, H, d]
  Buffer attention_;                         // [rows, H, d]
  Buffer weighted_;                          // [rows, hidden]: outputs times the next norm's weight
  kernels::OpsBuffer<T, kernels::SquareSum> squares_[2];  // [rows]: after attention, at the end
  Buffer joint_;   // [rows, (H + 2 G) d]: the joint projection
  Buffer mlp_;     // [rows, intermediate]: silu(gate) * up
  Buffer logits_;  // [rows, draft V]
  // [target V, (H + 2 G) d]: Ops::draft_token_rows, once a launch asks for it.
  kernels::OpsBuffer<T, kernels::SumOf<T>> token_rows_;
};

}  // namespace versieve::engine
