// Every kernel family of the engine behind one interface, so that the engine's algorithm is written
// once and runs on the CPU (f64, f32) and on a GPU (f32, bf16). Pointers in params are memory of
// this Ops.
//
// Promise of every op here (batch invariance): a row's result is the same, bit for bit, whatever
// the other rows of the call are and however many there are. Sums run in an order fixed by the
// reduced index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/block_keys/params.h"
#include "kernels/common/element.h"
#include "kernels/common/launch_observer.h"
#include "kernels/common/page_table.h"
#include "kernels/common/square_sum.h"
#include "kernels/decode_layers/params.h"
#include "kernels/draft_levels/params.h"
#include "kernels/draft_tree/params.h"
#include "kernels/index_keys/params.h"
#include "kernels/index_scores/params.h"
#include "kernels/layer_map/params.h"
#include "kernels/nsa_verify/params.h"
#include "kernels/resa_decode/params.h"
#include "kernels/token_list/params.h"
#include "kernels/top_p/params.h"
#include "kernels/topk/params.h"
#include "model/words/llm_shape.h"

namespace versieve::kernels {

// RMS norm without a launch of its own (kernels/rms_norm): the layer that makes rows also writes
// them times the norm's weight and adds up their squares; the layer that reads those divides its
// sums by the root of the mean square.
template <class T>
struct FoldedNorm {
  const SquareSum* x_squares = nullptr;  // [N] of the rows that x holds times a weight; null: none
  double eps = 1e-5;
  SquareSum* cleared = nullptr;    // [N] or null: set to 0, for a later layer's y_squares
  const T* y_weight = nullptr;     // [M] or null; read early on CUDA, as w
  T* y_weighted = nullptr;         // [N, M]: y * y_weight, y rounded first
  SquareSum* y_squares = nullptr;  // [N]: squares of y are added
};

// y = x w^T (+ residual), or with `swiglu` y = silu(x wg^T) (x wu^T). Sums over K in a fixed order.
// On CUDA weights are read before the launches that came before have ended: they are written once,
// when the model is made.
template <class T>
struct LinearParams {
  std::int64_t n = 0, k = 0, m = 0;
  bool swiglu = false;             // w is wg over wu; takes no residual
  const T* x = nullptr;            // [N, K]
  const T* w = nullptr;            // [M, K], or [2 M, K]
  const T* residual = nullptr;     // [N, M] or null; may alias y
  T* y = nullptr;                  // [N, M]
  T* y_copy = nullptr;             // or null: rows of y once more; not with swiglu
  std::int64_t y_copy_stride = 0;  // elements between them
  FoldedNorm<T> norm = {};
  TrafficTerm weight_term = TrafficTerm::kWeights;
};

// y = x / sqrt(mean(x^2) + eps) * weight, row by row; with `squares` y = x * weight, for the linear
// layer that divides (FoldedNorm::x_squares).
template <class T>
struct RmsNormParams {
  std::int64_t n = 0, k = 0;
  std::int64_t x_stride = 0, y_stride = 0;  // elements between rows; 0 means k
  double eps = 1e-5;
  const std::int32_t* x_row = nullptr;  // [N]: row of x; null: i
  const T* x = nullptr;                 // [N, K]
  const T* weight = nullptr;            // [K]; read early on CUDA, as linear's w
  T* y = nullptr;                       // [N, K]
  T* copy = nullptr;                    // [N, K] or null: the rows as they are
  SquareSum* squares = nullptr;         // [N] or null: set to their sums of squares
};

// Rotary embedding, HF Llama "rotate half": pairs (i, i + d/2), angle position * theta^(-2i/d),
// angles in double, rounded once.
template <class T>
struct RopeParams {
  std::int64_t n = 0, heads = 0, head_dim = 0;
  double theta = 10000.0;
  const std::int32_t* position = nullptr;  // [N]
  const T* x = nullptr;                    // [N, heads, d]
  T* y = nullptr;                          // [N, heads, d], may be x
};

// Cosines and sines of position[n] * frequency[i], i < d/2, times `scale`: what all layers of a
// step share. Frequencies and angles in double, rounded once.
template <class T>
struct RopeTableParams {
  std::int64_t n = 0, head_dim = 0;
  double theta = 10000.0;
  const double* frequency = nullptr;  // [d/2], or null: theta^(-2i/d)
  double scale = 1.0;
  const std::int32_t* position = nullptr;  // [N]
  SumOf<T>* cosine = nullptr;              // [N, d/2]
  SumOf<T>* sine = nullptr;                // [N, d/2]
};

// What a forward begins with, one launch on CUDA: rows normed, a draft's in two halves, and the
// rotary angles of their positions. Parts of n = 0 are left out; none may read what another writes.
template <class T>
struct EmbedParams {
  RmsNormParams<T> token;
  RmsNormParams<T> feature = {};
  RopeTableParams<T> angles = {};
};

// phi: compressed tokens (Sparse Speculative Verification, section 2; pooling and stage by
// checkpoint family).
//   key   = sum_j compress_key[g, j] * (k_raw[token_j] + intra_block_pe[g, j]), then rotary at
//   block * s
//           if `rotate` (families that compress before rotary);
//   value = sum_j compress_value[g, j] * v[token_j].
// Mean pooling is the caller's weights 1/l and a null intra_block_pe.
template <class T>
struct CompressParams {
  // Device memory; null: all rows. Not null: rows is an upper bound of counts->tree_compressed, and
  // what lies past it is left alone.
  const StepCounts* counts = nullptr;
  // CUDA: counts, lists and caches were complete before the first of the launches that may still
  // run began (one between had waited before it let others start), so they are read early.
  bool older_lists = false;
  std::int64_t rows = 0, num_kv_heads = 0, head_dim = 0, cmp_block = 0, cmp_stride = 0;
  bool rotate = true;
  double theta = 10000.0;
  const double* frequency = nullptr;  // [d/2], or null: theta^(-2i/d)
  double scale = 1.0;                 // of cosines and sines
  const std::int32_t* source =
      nullptr;  // [rows, l]: c >= 0 is cache row c, c < 0 is tree row -1 - c
  const std::int32_t* block = nullptr;  // [rows]: index of the compressed token
  const T* k_cache = nullptr;       // [*, G, d], keys as phi takes them (before rotary if `rotate`)
  const T* v_cache = nullptr;       // [*, G, d]
  const T* k_tree = nullptr;        // [N, G, d]
  const T* v_tree = nullptr;        // [N, G, d]
  const T* compress_key = nullptr;  // [G, l]
  const T* compress_value = nullptr;  // [G, l]
  const T* intra_block_pe = nullptr;  // [G, l, d] or null
  T* k_cmp = nullptr;                 // [rows, G, d]
  T* v_cmp = nullptr;                 // [rows, G, d]
};

// Takes apart the rows of a joint projection, [q | k | v | gates]: queries and keys turn (rotary as
// in RopeParams), values are copied, gates go through the sigmoid. On CUDA compressed tokens are
// made in the same launch, with the bits of compress after it. With a bias, q, k and v have it
// added first; with norms, every head of q and k is normed before it turns (y = x / sqrt(mean(x^2)
// + eps) * weight); keys before rotary are then those of the norm.
template <class T>
struct RopeAppendParams {
  std::int64_t n = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;  // H may be 0
  std::int64_t gate_count = 0;
  std::int64_t x_stride = 0;  // elements between rows of x; 0: (H + 2 G) d + gate_count
  const T* x = nullptr;       // [N, (H + 2 G) d + gate_count]
  const T* bias = nullptr;    // [(H + 2 G) d] or null
  const T* q_norm = nullptr;  // [d] or null; both or neither
  const T* k_norm = nullptr;  // [d]
  double norm_eps = 1e-5;
  const SumOf<T>* cosine = nullptr;  // [N, d/2]
  const SumOf<T>* sine = nullptr;    // [N, d/2]
  T* q = nullptr;                    // [N, H, d]
  T* k_raw = nullptr;                // [N, G, d] before rotary, or null
  T* k = nullptr;                    // [N, G, d]
  T* v = nullptr;                    // [N, G, d]
  T* gates = nullptr;                // [N, gate_count]
  // Or null: row i of keys and values goes to row cache_row[i] of these too, unless that is
  // negative. Rows differ.
  const std::int32_t* cache_row = nullptr;  // [N]
  T* k_cache = nullptr;                     // [*, G, d]
  T* v_cache = nullptr;                     // [*, G, d]
  // Not 0 rows: these compressed tokens too, of the k (k_raw if `rotate`) and v written here.
  CompressParams<T> compress = {};
};

// y = silu(gate) * up.
template <class T>
struct SwigluParams {
  std::int64_t count = 0;
  const T* gate = nullptr;
  const T* up = nullptr;
  T* y = nullptr;
};

// y = 1 / (1 + exp(-x)).
template <class T>
struct SigmoidParams {
  std::int64_t count = 0;
  const T* x = nullptr;
  T* y = nullptr;
};

// dst[dst_row[i], 0:width] = src[src_row[i], 0:width]; a null index list means i. Rows may not
// overlap. Embedding look-up, feature concatenation (strides) and KV commit are this one op.
template <class T>
struct CopyRowsParams {
  std::int64_t rows = 0, width = 0;
  std::int64_t src_stride = 0, dst_stride = 0;  // elements between rows; 0 means width
  const std::int32_t* src_row = nullptr;        // [rows] or null
  const std::int32_t* dst_row = nullptr;        // [rows] or null
  const T* src = nullptr;
  T* dst = nullptr;
  TrafficTerm term = TrafficTerm::kActivations;
};

// The committed tokens that tree_attention reads, in memory of its Ops.
struct SelectedTokens {
  const std::int32_t* token = nullptr;  // [count] ascending, or [G, count]; null: all there are
  std::int64_t count = 0;
  bool per_kv_head = false;
  // Device memory or null: one count for all lists. Not null: `count` is an upper bound of it, and
  // the places between the lists of KV heads.
  const std::int32_t* known_count = nullptr;
};

// Queries that come as rows of a joint projection, [q | k | v]: the launch that attends takes them
// apart, as rope_append does, and keeps each key and value in the tree's row of its node.
template <class T>
struct JointQueries {
  const T* x = nullptr;              // [num_queries, (H + 2 G) d]; null: q is read as it is
  const SumOf<T>* cosine = nullptr;  // [num_queries, d/2]
  const SumOf<T>* sine = nullptr;    // [num_queries, d/2]
  T* k = nullptr;                    // k_tree and v_tree, written
  T* v = nullptr;
};

// Dense or windowed causal attention of tree nodes: committed keys at positions [first_position, L)
// and the node's ancestors and itself; a node at position t sees positions > t - window (0: no
// window). Cache row = position, of the sequence. Keys are reduced in ascending position, in chunks
// fixed by position.
template <class T>
struct TreeAttentionParams {
  SelectedTokens selected;  // takes no window; with counts its count is on the device, too
  // Not null: q is not read. No query is another's ancestor. Takes no selected tokens and weights.
  JointQueries<T> joint;
  // Device memory; null: context_len. Not null: context_len is an upper bound of it.
  const StepCounts* counts = nullptr;
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0, first_position = 0, window = 0;
  std::int64_t num_queries = 0;
  std::int64_t num_nodes = 0;  // rows of the tree buffers
  const std::int32_t* query_node =
      nullptr;                             // [num_queries]: the node of each query row, or null: i
  const std::int32_t* parent = nullptr;    // [num_nodes], -1 for a root; parent[i] < i
  const std::int32_t* position = nullptr;  // [num_nodes]
  const T* q = nullptr;                    // [num_queries, H, d]
  PageTable pages;                         // of k and v
  const T* k = nullptr;                    // [>= L, G, d], or [*, G, d] by `pages`
  const T* v = nullptr;
  const T* k_tree = nullptr;  // [num_nodes, G, d]
  const T* v_tree = nullptr;
  T* out = nullptr;  // [num_queries, H, d]
  TrafficTerm cache_term = TrafficTerm::kWindow;
  // Every node is a query and the child of the node before it, and there is no window. It changes
  // no bit; CUDA saves looking up paths (kernels/flash_decode).
  bool splits_chain = false;
  // A chain that writes rows anew (rectification), of which no bit has to agree with a step's: CUDA
  // may take kernels/dense_pass, whose sums follow the call.
  bool dense_pass = false;
  // Or null. Of the last query: its head-averaged weights, as attention_weights gives them. Takes
  // no query_node, selected tokens and window.
  SumOf<T>* weights = nullptr;  // [L + depth + 1], by position
};

// How much one node attends to each position: softmax(q k / sqrt(d)) over the committed keys, its
// ancestors and itself, averaged over the query heads (SpecAttn, section 3.3).
template <class T>
struct AttentionWeightsParams {
  // Device memory; null: context_len. Not null: context_len is an upper bound of it.
  const StepCounts* counts = nullptr;
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0;          // L
  std::int64_t num_nodes = 0;            // rows of the tree buffer
  std::int64_t query_node = 0;           // the node
  const std::int32_t* parent = nullptr;  // [num_nodes], -1 for the root at position L
  const T* q = nullptr;                  // [H, d]
  PageTable pages;                       // of k
  const T* k = nullptr;                  // [>= L, G, d], or [*, G, d] by `pages`
  const T* k_tree = nullptr;             // [num_nodes, G, d]
  SumOf<T>* weights = nullptr;           // [L + depth + 1], by position
};

// The op that gives p.weights alone.
template <class T>
AttentionWeightsParams<T> weights_of(const TreeAttentionParams<T>& p) {
  return {.counts = p.counts,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .context_len = p.context_len,
          .num_nodes = p.num_nodes,
          .query_node = p.num_queries - 1,
          .parent = p.parent,
          .q = p.q + (p.num_queries - 1) * p.num_heads * p.head_dim,
          .pages = p.pages,
          .k = p.k,
          .k_tree = p.k_tree,
          .weights = p.weights};
}

// The k largest logits of each row, lower index first among equals, and their log-probabilities
// (log-softmax over the row; the normaliser is summed in index order). k in 1..64.
template <class T>
struct TopLogitsParams {
  std::int64_t rows = 0, vocab = 0, k = 1;
  const T* logits = nullptr;         // [rows, V]
  std::int32_t* index = nullptr;     // [rows, k]
  float* log_probability = nullptr;  // [rows, k] or null
};

// The k largest of each row's logits / T + Gumbel noise, as top_logits lists them; the first is a
// draw from softmax(logits / T) (the Gumbel-max trick), all k a draw without replacement. The noise
// is a function of (seed, position, token) alone: two models that are asked for one place share it,
// which couples their draws.
template <class T>
struct GumbelTopParams {
  std::int64_t rows = 0, vocab = 0, k = 1;  // k in 1..64
  double temperature = 1.0;                 // T > 0
  std::uint64_t seed = 0;
  const std::uint64_t* device_seed = nullptr;  // or null; not null: read in place of `seed`
  const T* logits = nullptr;                   // [rows, V]
  const std::int32_t* position = nullptr;      // [rows], of the node that the token drawn follows
  const std::int32_t* token = nullptr;         // [V]: what each logit is of; null: its index
  SumOf<T>* perturbed = nullptr;               // [rows, V], written
  std::int32_t* index = nullptr;               // [rows, k]
  float* log_probability = nullptr;  // [rows, k] or null: log-softmax of the perturbed row
};

// What is left of a row of logits before it is a law, in this order: the top_k largest logits
// (0: all), of their law the fewest largest that have a mass of top_p together (1: all), of those
// the tokens that are at least min_p times as likely as the likeliest (0: all). A token whose logit
// equals that of the last one kept is kept, too. At temperature 0 the best token alone is left.
struct Truncation {
  std::int64_t top_k = 0;
  double top_p = 1.0;  // in (0, 1]
  double min_p = 0.0;  // in [0, 1]

  bool cuts() const { return top_k > 0 || top_p < 1.0 || min_p > 0.0; }
  bool operator==(const Truncation&) const = default;
};

// kBaseline: a launch a step, laws in memory. kExact: the same decisions for the same numbers, one
// pass over the logits. kSigmoid: tests and redraws by sigmoids instead of softmax; lossy.
enum class SpecSampleVariant { kBaseline, kExact, kSigmoid };

// sigmoid((z / T - alpha) / (beta - alpha)); the paper's (Optimized Speculative Sampling, section
// 3.2), where nobody says others.
struct SigmoidEnds {
  double alpha = -1e3, beta = 1e3;

  bool operator==(const SigmoidEnds&) const = default;
};

// Speculative sampling of a chain (Optimized Speculative Sampling, section 3). Rules: README.md of
// kernels/spec_sample (the door).
template <class T>
struct SpecSampleParams {
  SpecSampleVariant variant = SpecSampleVariant::kExact;
  std::int64_t samples = 1, gamma = 0, vocab = 0;                 // R, gamma, V
  double temperature = 1.0;                                       // kSigmoid: above 0
  double alpha = SigmoidEnds{}.alpha, beta = SigmoidEnds{}.beta;  // kSigmoid
  const T* target_logits = nullptr;                               // [B, gamma + 1, V]
  const T* draft_logits = nullptr;                                // [B, gamma, V]
  const std::int32_t* draft_tokens = nullptr;                     // [B, R, gamma]
  const SumOf<T>* uniforms = nullptr;                             // [B, R, gamma + 1]
  std::int32_t* accepted = nullptr;                               // [B, R]
  std::int32_t* tokens = nullptr;  // [B, R, gamma + 1], -1 after the last
  SumOf<T>* tau = nullptr;         // [B, R, gamma]
  std::int64_t batch = 1;          // B sequences, of R samples each
  Truncation truncation = {};      // of both models' rows
};

enum class TreeSampleVariant { kBaseline, kExact };  // as SpecSampleVariant

// Speculative sampling of a tree whose children are deterministic proposals. Rules: README.md of
// kernels/tree_sample (the door).
template <class T>
struct TreeSampleParams {
  TreeSampleVariant variant = TreeSampleVariant::kExact;
  std::int64_t samples = 1, num_nodes = 0, vocab = 0;  // R, N, V
  double temperature = 1.0;
  const T* target_logits = nullptr;      // [N, V]
  const std::int32_t* parent = nullptr;  // [N]
  const std::int32_t* token = nullptr;   // [R, N]
  const SumOf<T>* uniforms = nullptr;    // [R, N]
  std::int32_t* accepted = nullptr;      // [R]
  std::int32_t* tokens = nullptr;        // [R, N], -1 after accepted + 1
  std::int32_t* path = nullptr;          // [R, N], accepted node indices, -1 after
  SumOf<T>* tau = nullptr;               // [R, N]
  Truncation truncation = {};
};

// Work that was enqueued once and can be enqueued again: on a GPU a graph. Pointers and sizes are
// those of the recording.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void launch() = 0;
};

// A point between pieces of enqueued work, which the host can wait for.
class Marker {
 public:
  virtual ~Marker() = default;
  virtual void mark() = 0;
  // Everything enqueued before the newest mark has run, or nothing was marked.
  virtual void wait() = 0;
};

template <class T>
class Ops {
 public:
  virtual ~Ops() = default;

  // Memory of this device; a GPU's is zeroed. Throws Error(kEnvironment) when there is none left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  // Blocks of memory released so far. A recording made before a release may name what is gone.
  std::int64_t released() const { return released_; }
  virtual void upload(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void download(void* destination, const void* source, std::size_t bytes) = 0;
  // Everything enqueued so far has run.
  virtual void synchronize() = 0;
  virtual void set_observer(LaunchObserver* observer) = 0;
  // Memory of the host that ops can write; released by release_host.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(void* memory) noexcept = 0;
  // `work` calls ops that only enqueue, each of which ran before with the same sizes. It is called
  // once at the recording on a GPU (nothing runs then), at each launch on the CPU.
  virtual std::unique_ptr<Recording> record(std::function<void()> work) = 0;
  virtual std::unique_ptr<Marker> make_marker() = 0;
  // What `work` enqueues comes after what was enqueued before and may run beside what is enqueued
  // until join_beside(), which comes before anything else waits for the device: neither writes what
  // the other touches. On a GPU a branch with scratch memory of its own; nothing is nested.
  virtual void enqueue_beside(const std::function<void()>& work) { work(); }
  virtual void join_beside() {}

  virtual void linear(const LinearParams<T>& p) = 0;
  virtual void embed(const EmbedParams<T>& p) = 0;
  virtual void rope(const RopeParams<T>& p) = 0;
  virtual void rope_append(const RopeAppendParams<T>& p) = 0;
  virtual void swiglu(const SwigluParams<T>& p) = 0;
  virtual void sigmoid(const SigmoidParams<T>& p) = 0;
  virtual void copy_rows(const CopyRowsParams<T>& p) = 0;
  virtual void compress(const CompressParams<T>& p) = 0;
  virtual void nsa_verify(const NsaVerifyParams<T>& p) = 0;
  // Whether nsa_verify of that shape can read its sizes from device memory (p.counts).
  virtual bool reads_counts(const NsaVerifyParams<T>& p) const = 0;
  virtual void decode_layers(const DecodeLayersParams<T>& p) = 0;
  // Whether decode_layers computes that model and step; its counts may be in device memory.
  virtual bool decode_layers_takes(const DecodeLayersParams<T>& p) const = 0;
  virtual void tree_attention(const TreeAttentionParams<T>& p) = 0;
  virtual void attention_weights(const AttentionWeightsParams<T>& p) = 0;
  virtual void block_keys(const BlockKeysParams<T>& p) = 0;
  virtual void resa_decode(const ResaDecodeParams<T>& p) = 0;
  virtual void top_logits(const TopLogitsParams<T>& p) = 0;
  virtual void gumbel_top(const GumbelTopParams<T>& p) = 0;
  virtual void topk(const TopkParams<T>& p) = 0;
  virtual void index_keys(const IndexKeysParams<T>& p) = 0;
  virtual void index_query(const IndexQueryParams<T>& p) = 0;
  virtual void index_scores(const IndexScoresParams<T>& p) = 0;
  virtual void layer_map(const LayerMapParams& p) = 0;
  virtual void top_p(const TopPParams<SumOf<T>>& p) = 0;
  virtual void token_list(const TokenListParams& p) = 0;
  virtual void spec_sample(const SpecSampleParams<T>& p) = 0;
  virtual void tree_sample(const TreeSampleParams<T>& p) = 0;
  // The same of logits in f16, whatever T is.
  virtual void spec_sample_f16(const SpecSampleParams<F16>& p) = 0;
  virtual void tree_sample_f16(const TreeSampleParams<F16>& p) = 0;
  virtual void grow_tree(const GrowTreeParams& p) = 0;
  // top_logits of level p.level's frontier (k = p.branch) and then grow_tree of what it lists;
  // both name the same list, which may stay unwritten where one launch does both.
  virtual void grow_tree_from(const TopLogitsParams<T>& logits, const GrowTreeParams& p) {
    top_logits(logits);
    grow_tree(p);
  }
  // Every target token's half of the draft's joint projection, before it is rounded -> `rows`
  // [target V, (H + 2 G) d]: what draft_levels reads as p.token_rows. Once for a draft's weights.
  virtual void draft_token_rows(const DraftLevelsParams<T>& p, SumOf<T>* rows) = 0;
  // A draft tree's levels in one launch, if draft_levels_takes says so.
  virtual void draft_levels(const DraftLevelsParams<T>& p) = 0;
  virtual bool draft_levels_takes(const DraftLevelsParams<T>& p) const = 0;
  virtual void finish_tree(const FinishTreeParams& p) = 0;
  virtual void accept_tree(const AcceptTreeParams& p) = 0;
  virtual void commit_path(const CommitPathParams<T>& p) = 0;

 protected:
  std::int64_t released_ = 0;
};

// T = double, float or Bf16. `threads` >= 1; results do not depend on it.
template <class T>
std::unique_ptr<Ops<T>> make_cpu_ops(int threads);
// T = float or Bf16; the current device, one stream (a cudaStream_t, null: one of its own).
// Throws Error(kEnvironment) in a build without CUDA or on a machine without a GPU.
template <class T>
std::unique_ptr<Ops<T>> make_cuda_ops(void* stream = nullptr);

// A typed block of an Ops's memory; frees itself.
template <class T, class E = T>
class OpsBuffer {
 public:
  OpsBuffer() = default;
  OpsBuffer(Ops<T>& ops, std::int64_t count)
      : ops_(&ops),
        count_(count),
        data_(static_cast<E*>(ops.allocate(static_cast<std::size_t>(count) * sizeof(E)))) {}
  OpsBuffer(Ops<T>& ops, const std::vector<E>& values)
      : OpsBuffer(ops, static_cast<std::int64_t>(values.size())) {
    ops.upload(data_, values.data(), values.size() * sizeof(E));
  }
  OpsBuffer(OpsBuffer&& other) noexcept { swap(other); }
  OpsBuffer& operator=(OpsBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  OpsBuffer(const OpsBuffer&) = delete;
  OpsBuffer& operator=(const OpsBuffer&) = delete;
  ~OpsBuffer() {
    if (data_ != nullptr) {
      ops_->release(data_);
    }
  }

  E* data() const { return data_; }
  std::int64_t count() const { return count_; }
  std::vector<E> read() const {
    std::vector<E> values(static_cast<std::size_t>(count_));
    ops_->download(values.data(), data_, values.size() * sizeof(E));
    return values;
  }
  void write(const std::vector<E>& values) {
    ops_->upload(data_, values.data(), values.size() * sizeof(E));
  }

 private:
  void swap(OpsBuffer& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(count_, other.count_);
    std::swap(data_, other.data_);
  }
  Ops<T>* ops_ = nullptr;
  std::int64_t count_ = 0;
  E* data_ = nullptr;
};

}  // namespace versieve::kernels
