// The CPU's form of every kernel family: double is the reference that all others are compared with,
// and the CPU engine runs these. One section a family, in alphabetical order; the rules and what a
// family is for stand in kernels/<family>/README.md, the shapes in ops.h and <family>/params.h, the
// code in <family>/cpu.cpp. `threads`: 0 takes all; results do not depend on it.
#pragma once

#include "kernels/block_keys/params.h"
#include "kernels/draft_tree/params.h"
#include "kernels/index_keys/params.h"
#include "kernels/layer_map/params.h"
#include "kernels/nsa_verify/params.h"
#include "kernels/ops.h"
#include "kernels/resa_decode/params.h"
#include "kernels/token_list/params.h"
#include "kernels/top_p/params.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// --- attention_weights ---
// attention_weights on the CPU: the reference.

// T = double, float or Bf16.
template <class T>
void attention_weights_cpu(const AttentionWeightsParams<T>& p, int threads);

// --- block_keys ---
// block_keys on the CPU.

// T = double, float or Bf16. NaN in a block: which value is taken is not defined.
template <class T>
void block_keys_cpu(const BlockKeysParams<T>& p, int threads);

// --- compress ---
// compress (phi) on the CPU: one compressed token per (row, KV head).

// T = double, float or Bf16 (computed in f32). Sums over the l tokens in their order.
template <class T>
void compress_cpu(const CompressParams<T>& p, int threads);

// --- copy_rows ---
// copy_rows on the CPU: dst[dst_row[i]] = src[src_row[i]]; embedding look-up, feature
// concatenation and KV commit.

// T = double, float or Bf16.
template <class T>
void copy_rows_cpu(const CopyRowsParams<T>& p, int threads);

// --- draft_tree ---
// draft_tree on the CPU: the reference, written with the host's own tree functions.

void grow_tree_cpu(const GrowTreeParams& p);
void finish_tree_cpu(const FinishTreeParams& p);
void accept_tree_cpu(const AcceptTreeParams& p);
// T = double, float or Bf16.
template <class T>
void commit_path_cpu(const CommitPathParams<T>& p);

// --- embed ---
// embed on the CPU: its parts one after another. T = double or float.

template <class T>
void embed_cpu(const EmbedParams<T>& p, int threads);

// --- gumbel_top ---
// gumbel_top on the CPU: the reference.

// T = double, float or Bf16; the noise has T's precision.
template <class T>
void gumbel_top_cpu(const GumbelTopParams<T>& p, int threads);

// --- index_keys ---
// index_keys and index_query on the CPU: copies, bit for bit.

// T = double, float or Bf16.
template <class T>
void index_keys_cpu(const IndexKeysParams<T>& p, int threads);
template <class T>
void index_query_cpu(const IndexQueryParams<T>& p);

// --- layer_map ---
// layer_map on the CPU: the reference.

// REQUIRES: m, n >= 1; no NaN and no +infinity.
void layer_map_cpu(const LayerMapParams& p);

// --- linear ---
// linear on the CPU: y = x w^T (+ residual). Every output y[n, m] is summed in one fixed order,
// whatever N and the tile it falls in: lane j of 8 takes k = j, j + 8, ... in turn (fused
// multiply-adds), then the lanes are added as ((0+4)+(2+6)) + ((1+5)+(3+7)).

// T = double, float or Bf16.
template <class T>
void linear_cpu(const LinearParams<T>& p, int threads);

// --- nsa_verify ---
// nsa_verify on the CPU, one (node, KV head) after the other. T = double is the reference that
// every other form of this family is compared with.

// T = double, float or Bf16 (computed in f32 on the rounded inputs). Results do not depend on
// `threads`.
template <class T>
void nsa_verify_cpu(const NsaVerifyParams<T>& p, int threads);

// --- resa_decode ---
// resa_decode on the CPU, one KV head after the other.

// T = double, float or Bf16 (computed in f32). Results depend neither on `threads` nor on splits:
// keys are absorbed in ascending position, so that all blocks active gives tree_attention's bits.
template <class T>
void resa_decode_cpu(const ResaDecodeParams<T>& p, int threads);

// --- rms_norm ---
// rms_norm on the CPU: y = x / sqrt(mean(x^2) + eps) * weight, row by row, or its first half.

// T = double, float or Bf16. The squares are summed in double, in index order.
template <class T>
void rms_norm_cpu(const RmsNormParams<T>& p, int threads);

// --- rope ---
// rope on the CPU: rotary embedding of queries and keys, HF Llama "rotate half".

// T = double, float or Bf16. Angles, sines and cosines in double, rounded once to T.
template <class T>
void rope_cpu(const RopeParams<T>& p, int threads);

// --- rope_append ---
// rope_append on the CPU. T = double or float.

template <class T>
void rope_table_cpu(const RopeTableParams<T>& p, int threads);
template <class T>
void rope_append_cpu(const RopeAppendParams<T>& p, int threads);

// --- spec_sample ---
// spec_sample on the CPU: speculative sampling of a chain, the reference of every variant.

// T = double, float, Bf16 or F16. Computes in double whatever T is.
template <class T>
void spec_sample_cpu(const SpecSampleParams<T>& p, int threads);

// --- swiglu ---
// swiglu and sigmoid on the CPU: the two elementwise activations of the engine.

// T = double, float or Bf16.
template <class T>
void swiglu_cpu(const SwigluParams<T>& p, int threads);
template <class T>
void sigmoid_cpu(const SigmoidParams<T>& p, int threads);

// --- token_list ---
// token_list on the CPU: the reference.

// REQUIRES: chunk >= 1, L < 2^31.
void token_list_cpu(const TokenListParams& p, int threads);

// --- top_logits ---
// top_logits on the CPU: the k largest logits of each row and their log-probabilities.

inline constexpr std::int64_t kMaxTopLogits = 64;

// T = double, float or Bf16. Lower index first among equals; NaN ranks below everything. The
// normaliser is summed in double, in index order.
template <class T>
void top_logits_cpu(const TopLogitsParams<T>& p, int threads);

// --- top_p ---
// top_p on the CPU: the reference.

// S = double or float. REQUIRES: weights finite and not negative.
template <class S>
void top_p_cpu(const TopPParams<S>& p, int threads);

// --- topk ---
// topk on the CPU. `sort` is the exact reference of every variant, by a full sort of each row;
// `radix` and `gvr` find the cut of cut.h.

// T = double, float or Bf16.
template <class T>
void topk_cpu(const TopkParams<T>& p, int threads);

// --- tree_attention ---
// tree_attention on the CPU, one (query, KV head) after the other.

// T = double, float or Bf16 (computed in f32). Results do not depend on `threads`.
template <class T>
void tree_attention_cpu(const TreeAttentionParams<T>& p, int threads);

// --- tree_sample ---
// tree_sample on the CPU: speculative sampling of a tree, the reference of every variant.

// T = double, float, Bf16 or F16. Computes in double whatever T is.
template <class T>
void tree_sample_cpu(const TreeSampleParams<T>& p, int threads);

}  // namespace versieve::kernels
