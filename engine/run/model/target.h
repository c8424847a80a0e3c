// The target model: one forward, `verify`, over the nodes of a draft tree (root = the newest token,
// not yet in the cache), and `commit`, which appends an accepted path to the cache. Prefill is
// chains through the same forward, autoregressive decoding is a tree of one node; because every op
// is batch invariant all three give the same bits (design: tree verification is exact).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model/attention_step.h"
#include "engine/run/model/block_attention.h"
#include "engine/run/model/choice_keys.h"
#include "engine/run/model/dense_attention.h"
#include "engine/run/model/device_ints.h"
#include "engine/run/model/index_selector.h"
#include "engine/run/model/kv_cache.h"
#include "engine/run/model/nsa_attention.h"
#include "engine/run/model/step_recordings.h"
#include "engine/run/model/tree_layout.h"
#include "engine/run/model/verify_options.h"
#include "engine/run/model/weights.h"
#include "kernels/ops.h"
#include "model/words/draft_tree.h"
#include "model/words/joint_rows.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// A tree that device code made: its sizes are bounds, the true ones are read where it runs. Nodes
// beyond the grown tree are padding that belongs to no path.
struct DeviceTree {
  std::int64_t nodes = 1;        // N
  std::int64_t max_depth = 0;    // of a node
  std::int64_t max_context = 0;  // bound of counts->context_len
  bool chain = false;            // each node follows the one before it
  // The nodes' keys and values go to the cache rows of their positions at once, with nothing to
  // commit. Dense targets.
  bool keeps_rows = false;
  const kernels::StepCounts* counts = nullptr;
  const std::int32_t* token = nullptr;     // [N]
  const std::int32_t* parent = nullptr;    // [N]
  const std::int32_t* position = nullptr;  // [N]
  const std::int32_t* owner = nullptr;     // [E <= N], as TreeLayout's
  const std::int32_t* block = nullptr;     // [E]
  const std::int32_t* source = nullptr;    // [E, l]
};

// A sequence's part of a step that several share: its tree over its own cache.
template <class T>
struct SequencePart {
  DraftTree tree;
  VerifyOptions options;
  KvCache<T>* cache = nullptr;
  ChoiceKeys<T>* choice = nullptr;  // of that cache, which a commit keeps; null: none
  // A piece of a prompt: a chain that will be committed whole, of whose layers all refresh.
  bool of_prompt = false;
  // Of a dense target and a pool's cache: the committed tokens that its layers read, where somebody
  // chose them, or where the last node's weights go.
  StepLists lists = {};
  AttentionCapture<T> capture = {};
  // Of an idle sequence (idle_sequences.h), whose cache has no length: its context. Else -1.
  std::int64_t idle_context = -1;
};

template <class T>
class IdleSequences;

template <class T>
class Target {
 public:
  // `capture_layers`: the streams (entering layer j; j = layers: leaving the last) that a draft
  // reads; empty or three.
  Target(kernels::Ops<T>& ops, LlmShape shape, TargetWeights<T> weights,
         std::vector<std::int64_t> capture_layers);

  const LlmShape& shape() const { return shape_; }
  const T* embedding() const { return weights_.embedding.data(); }  // [V, hidden]
  const T* head() const {                                           // [V, hidden]
    return (shape_.tied_embeddings ? weights_.embedding : weights_.head).data();
  }
  KvCache<T>& cache() { return cache_; }
  std::int64_t length() const { return cache_.length(); }

  // Appends the prompt's next tokens in one forward; their bits are those of verify() and commit()
  // of any chains of them. captured() has a row a token, logits() the last one's
  // (target_prefill.cpp).
  void read_prompt(std::span<const std::int32_t> tokens);
  // Runs the tree's nodes over the committed context; results stay valid until the next verify.
  void verify(const DraftTree& tree, const VerifyOptions& options);
  // The trees of several sequences in one forward (target_batch.cpp): what works row by row takes
  // the nodes of all at once, sequence after sequence; attention is each sequence's own. A
  // sequence's rows have the bits of verify() alone. Steps of one shape are recorded once (bf16 on
  // a GPU). Never waits for the device but where memory grows. A part that chooses tokens
  // (ReSA, an indexer) needs keys of its own; steps in which tokens are chosen are not recorded,
  // but those that read lists made before are. REQUIRES: the caches differ, hold their contexts
  // and, of several, are of one pool. `idle`: of that pool, fills the step up to a size class; what
  // is asked of it later is of the other sequences alone. Or null.
  void verify_batch(std::vector<SequencePart<T>> parts, IdleSequences<T>* idle = nullptr);
  // The same in two. First all that follows the trees' shapes and the contexts' lengths: lists are
  // made and uploaded, what layers share is worked out; the step before may still run, committed
  // already, and its logits() stay. Then the forward. `tokens`: of all nodes, sequence after
  // sequence, where the trees' were not known yet; empty: they are the trees'.
  void prepare_batch(std::vector<SequencePart<T>> parts, IdleSequences<T>* idle = nullptr);
  void run_prepared(std::span<const std::int32_t> tokens = {});
  // Appends a path of each sequence of the last verify_batch, none where it is empty. REQUIRES: the
  // caches are of one pool.
  void commit_batch(std::span<const std::vector<std::int32_t>> paths);
  // Of the last verify_batch: where that sequence's nodes lie in captured(), and in logits() its
  // first row, or its last node's where no more was asked for.
  std::int64_t first_row(std::size_t part) const { return parts_[part].first_row; }
  std::int64_t logits_row(std::size_t part) const;
  std::int64_t logits_rows() const { return logits_rows_ - idle_rows_; }
  const StepRecordings<T>& recordings() const { return recordings_; }
  // Whether steps of such a target can be recorded on these ops.
  static bool records_steps(kernels::Ops<T>& ops, const LlmShape& shape) {
    return kernels::has_step_shapes(ops) && !shape.has_windows();
  }
  // Whether steps of a pool's sequences are recorded; from the next one on. No bit depends on it.
  void set_records(bool records) { records_ = records; }
  // Tokens of a prompt's piece that share the launches of a step's trees, at most, as many nodes as
  // NSA's fused launches take: more of them have an attention launch of their own. No bit depends
  // on it.
  static constexpr std::int64_t kMostTogether = 256;
  // Whether the attention of the next `count` tokens of a prompt behind `before` can be one launch
  // (target_prefill.cpp, as the next).
  bool attends_at_once(std::int64_t before, std::int64_t count) const;
  // Device memory that such launches take at most beside that of a step, for a prompt of so many
  // tokens in pieces of up to `rows`; 0 where there is none.
  static std::int64_t prompt_bytes(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t tokens,
                                   std::int64_t rows);
  // Device memory that a step of so many nodes with so many rows of logits takes beside weights and
  // caches.
  static std::int64_t step_bytes(const LlmShape& shape, std::int64_t nodes,
                                 std::int64_t logits_rows);

  // The same of a tree in device memory; only enqueues. REQUIRES: the cache is reserved up to
  // max_context + max_depth + 1, can_verify_device().
  void verify_device(const DeviceTree& tree, const VerifyOptions& options);
  // Whether every op of verify_device takes its sizes from device memory.
  bool can_verify_device(const DeviceTree& tree, const VerifyOptions& options) const;
  // Appends the path that `state` holds; the cache's length on the host stays as it is.
  void commit_device(const kernels::StepState* state, std::int64_t max_path);
  // Appends the path, node 0 first, each the parent of the next, of the last verify.
  void commit(std::span<const std::int32_t> path);

  // For dense targets, from the next verify on. Both null: every token is read, nothing is kept.
  void set_attention_capture(const AttentionCapture<T>& capture) { dense_.set_capture(capture); }
  void set_token_selector(TokenSelector<T>* selector) { dense_.set_selector(selector); }
  // Builds the block keys of the committed tokens; from now on every commit keeps them.
  void keep_block_keys(std::int64_t key_block) { blocks_.keep(cache_, key_block); }
  void drop_block_keys() { blocks_.drop(); }
  const BlockKeyCache<T>& block_keys() const { return blocks_.keys(); }
  // Builds the keys that such verifies choose by (ReSA's block keys, an indexer's index keys),
  // which every commit keeps from now on, and drops others.
  void keep_choice_keys(const VerifyOptions& options);
  // What that layer of an indexer's last verify chose, the newest tokens behind it. Waits.
  std::vector<std::int32_t> indexed_tokens(std::int64_t layer) const {
    return indexer_.listed(layer);
  }

  // Of the last verify.
  std::int64_t node_count() const { return nodes_.count; }
  const T* logits() const { return logits_.data(); }      // [N or 1, V]
  const T* captured() const { return captured_.data(); }  // [N, 3 * hidden]
  // Room for the captured streams of that many nodes, to be filled by hand.
  T* reserve_captured(std::int64_t nodes);
  std::vector<std::int32_t> selected_blocks(std::int64_t layer) const {  // [N, G, n]
    return parts_[0].options.resa ? blocks_.selected_blocks(layer)
                                  : nsa_.selected_blocks(layer, node_count());
  }
  // [G, n] or empty: where the next verify's ranking begins (gvr), until it has begun.
  std::vector<std::int32_t> hinted_blocks(std::int64_t layer) const {
    return nsa_.hinted_blocks(layer);
  }
  std::vector<T> hidden_states() const { return read(hidden_, node_count() * shape_.hidden); }

 private:
  using Buffer = kernels::OpsBuffer<T>;
  static constexpr std::int64_t kCaptureCount = 3;

  // A sequence of the running step.
  struct Part {
    DraftTree tree;     // after verify_device: empty
    TreeLayout layout;  // after verify_device: empty
    VerifyOptions options;
    KvCache<T>* cache = nullptr;
    ChoiceKeys<T>* choice = nullptr;
    StepLists lists = {};
    AttentionCapture<T> capture = {};
    StepNodes nodes;
    bool keeps_rows = false;  // its rows go to its cache's pages layer by layer
    std::int64_t first_row = 0;
    std::int64_t first_compressed = 0;  // of the tree's compressed rows

    // Its attention is a call of its own, which no step prepares.
    bool stands_apart() const { return keeps_rows || options.resa; }
    bool chooses() const { return options.index || stands_apart(); }
    // Of the step's logits: rows before first_logits are not computed.
    std::int64_t first_logits() const {
      return first_row + (options.last_logits_only ? nodes.count - 1 : 0);
    }
  };

  // Rows of the running step that go to pages layer by layer, of all parts that keep theirs.
  struct KeptRows {
    const std::int32_t* of_nodes = nullptr;    // [nodes]: rows of pages, or -1; null: none
    const std::int32_t* compressed = nullptr;  // [2, count]: rows of the tree, then of pages
    std::int64_t count = 0;
  };

  // While a prompt is read in pieces: the tokens in the cache before it, and its own.
  struct PieceRows {
    std::int64_t before = 0, count = 0;
  };

  Part make_part(SequencePart<T> sequence) const;
  std::vector<std::int32_t> compressed_of(const Part& part,
                                          std::span<const std::int32_t> path) const;
  void ensure_rows(std::int64_t nodes);
  void run_nodes();
  void lay_out(std::vector<SequencePart<T>> parts);
  bool can_bound(const Part& part) const;
  void bound_alone();
  void prepare_attention();
  kernels::StepShape shape_alone() const;
  void keep_piece_rows(std::int64_t layer);       // target_prefill.cpp
  void keep_compressed_rows(std::int64_t layer);  // target_batch.cpp, of KeptRows
  std::vector<std::int32_t> kept_rows();
  std::int32_t source_row(const Part& part, std::int32_t source) const;
  void upload_layout();
  // Of the nodes' tokens in what is uploaded; StepCounts lie before them.
  std::int64_t tokens_at() const { return together_ || alone_ ? 2 : 0; }
  std::vector<AttentionStep<T>> prepared_steps();  // of parts that do not stand apart
  void begin_choices();
  void choose_tokens(std::int64_t layer);
  IndexSelector<T>& indexer_of(const Part& part) {
    return part.choice != nullptr ? *part.choice->index() : indexer_;
  }
  void attend_apart(std::int64_t layer);
  void capture_embedding();
  void repeat_captures();
  // Where the stream entering that layer is kept (the first slot that asks for it), or null.
  T* captured_before(std::int64_t layer) const;
  T* captured_slot(std::size_t slot) const {
    return captured_.data() + static_cast<std::int64_t>(slot) * shape_.hidden;
  }
  void run_layers();
  bool try_decode_layers();  // target_decode.cpp, as the next two
  kernels::DecodeLayersParams<T> decode_params();
  kernels::DecodeLayer<T> decode_layer(std::int64_t layer);
  void run_layer(std::int64_t layer);
  void project(const LayerWeights<T>& w, std::int64_t layer);
  void ensure_angles();
  kernels::CompressParams<T> compressed_tokens(const LayerWeights<T>& w, std::int64_t layer) const;
  void attend(std::int64_t layer);
  AttentionStep<T> attention_step(const Part& part) const;
  void count_logits();
  void read_out();
  void linear_of_norm(kernels::LinearParams<T> p, std::int64_t first = 0);
  void linear_to_norm(const T* x, const Buffer& w, std::int64_t k, const Buffer& norm,
                      T* captured = nullptr);
  const Buffer& norm_after(std::int64_t layer) const {
    const bool last = layer + 1 == shape_.layers;
    return last ? weights_.norm : weights_.layers[static_cast<std::size_t>(layer + 1)].input_norm;
  }
  std::int64_t joint_width() const { return joint_rows(shape_); }
  std::vector<T> read(const Buffer& buffer, std::int64_t count) const;

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  TargetWeights<T> weights_;
  std::vector<std::int64_t> capture_layers_;
  KvCache<T> cache_;
  TreeKv<T> tree_kv_;
  NsaAttention<T> nsa_;
  DenseAttention<T> dense_;
  BlockAttention<T> blocks_;
  IndexSelector<T> indexer_;
  kernels::OpsBuffer<T, double> frequency_;  // [d/2] of rotary pairs, or empty: powers of theta

  // The running step.
  std::vector<Part> parts_;     // idle ones last
  std::size_t live_parts_ = 0;  // that are not idle
  std::int64_t idle_rows_ = 0;  // of the step's last nodes
  bool together_ = false;       // its attention is prepared for all layers at once
  // Of an NSA sequence of a pool, alone: its sizes are read on the device, as verify_device's, so
  // that the launches hold while it grows.
  bool alone_ = false;
  kernels::StepShape step_shape_;  // of what was prepared; empty: it is not recorded
  std::int64_t released_ = 0;      // Ops::released() then
  StepNodes nodes_;                // of all parts: their count, tokens and positions
  DeviceInts<T> staged_, staged_commit_;
  std::vector<KvCache<T>> piece_caches_;  // the cache as each piece of a prompt finds it
  std::optional<PieceRows> piece_rows_;
  KeptRows kept_rows_;
  std::int64_t logits_rows_ = 0;  // of the step's last nodes
  bool records_ = true;
  StepRecordings<T> recordings_;  // of steps of a pool's sequences

  // Activations for up to rows_ nodes.
  std::int64_t rows_ = 0;
  Buffer hidden_;    // [N, hidden]: the residual stream
  Buffer weighted_;  // [N, hidden]: times the next norm's weight
  kernels::OpsBuffer<T, kernels::SquareSum> squares_[2];  // [N] of weighted_'s rows, in turn
  int squares_turn_ = 0;
  kernels::OpsBuffer<T, kernels::SumOf<T>> cosine_, sine_;  // [N, d/2]: the step's rotary angles
  kernels::OpsBuffer<T, kernels::SumOf<T>> one_, zero_;     // the same of layers that do not turn
  Buffer query_;                                            // [N, H, d]
  Buffer gates_;                                            // [N, H, 3]
  Buffer attention_;                                        // [N, H, d]
  Buffer joint_;                                            // [N, joint_rows]: the joint projection
  Buffer mlp_;                                              // [N, intermediate]: silu(gate) * up
  Buffer captured_;                                         // [N, 3, hidden]
  Buffer logits_;                                           // [logits_rows_, V]
};

}  // namespace versieve::engine
