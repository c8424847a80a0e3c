// Every CUDA launch: one section a family, in alphabetical order; what a family is for and how fast
// it is stands in kernels/<family>/README.md, the shapes in ops.h and <family>/params.h, the code
// in <family>/launch.cu and the .cuh beside it. launch_ functions enqueue and never wait.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <memory>

#include "kernels/block_keys/params.h"
#include "kernels/common/launch_context.h"
#include "kernels/decode_layers/params.h"
#include "kernels/draft_levels/params.h"
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
// attention_weights on CUDA: scores, each head's maximum and sum, the mean over heads.

// What launch_attention_weights needs of context.scratch.
template <class T>
std::size_t attention_weights_scratch_bytes(const AttentionWeightsParams<T>& p);
// T = float or Bf16. Enqueues, never waits. Throws Error(kAnswerNo) for a head size that is no
// multiple of 16 up to 128 or more than 16 query heads a KV head.
template <class T>
void launch_attention_weights(const AttentionWeightsParams<T>& p, const LaunchContext& context);

// --- block_keys ---
// block_keys on the GPU.

// T = float or Bf16. Uses no scratch.
template <class T>
void launch_block_keys(const BlockKeysParams<T>& p, const LaunchContext& context);

// --- compress ---
// compress (phi) on the GPU: one CTA a (row, KV head), one thread an element.

// T = float or Bf16. Throws Error(kAnswerNo) for a head size above 1024. Uses no scratch.
template <class T>
void launch_compress(const CompressParams<T>& p, const LaunchContext& context);

// --- copy_rows ---
// copy_rows on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_copy_rows(const CopyRowsParams<T>& p, const LaunchContext& context);

// --- decode_layers ---
// decode_layers on CUDA.

// What launches of one Ops keep between them: a table of the layers and the packets' memory.
class DecodeWorkspace;
std::shared_ptr<DecodeWorkspace> make_decode_workspace();

// Whether one persistent launch computes it: heads of 64 or 128, at most 8 query heads a KV head,
// blocks of 4 and compressed tokens of 2 strides, matrices whose blocks fit the chip at once
// (model/launches/decode_layers.h); reuse layers take the blocks of the newest layer that routes.
bool decode_layers_takes(const DecodeLayersParams<Bf16>& p);

// Makes ready what a launch of these params needs: may allocate, upload and wait. Does nothing
// where it was ready. REQUIRES: decode_layers_takes(p); not while a graph is captured. Throws
// Error(kEnvironment) if the GPU has no memory left or its driver no tensor maps.
void prepare_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                           const LaunchContext& context);
// Enqueues, never waits. REQUIRES: prepared for these params.
void launch_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                          const LaunchContext& context);

// --- draft_levels ---
// draft_levels on CUDA.

// What launches of one Ops keep between them: packets' memory.
class DraftWorkspace;
std::shared_ptr<DraftWorkspace> make_draft_workspace();

// Whether one persistent launch computes it (model/launches/draft_levels.h).
bool draft_levels_takes(const DraftLevelsParams<Bf16>& p);

// The tokens' table (Ops::draft_token_rows). Enqueues, never waits. REQUIRES:
// draft_levels_takes(p).
void launch_draft_token_rows(const DraftLevelsParams<Bf16>& p, float* rows,
                             const LaunchContext& context);

// Makes ready what a launch of these params needs: may allocate and enqueue. Does nothing where it
// was ready. REQUIRES: draft_levels_takes(p); not while a graph is captured. Throws
// Error(kEnvironment) if the GPU has no memory left.
void prepare_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                          const LaunchContext& context);
// Enqueues, never waits. REQUIRES: prepared for these params.
void launch_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                         const LaunchContext& context);

// --- dense_pass ---
// tree_attention of a chain of many queries by wgmma, its keys split over blocks: the form of
// rectification. Sums follow the call: the same call has the same bits.

// Whether launch_dense_pass has a kernel for that launch: a chain that allows it, bf16, all tokens,
// and the rows that takes_dense_pass (model/launches/dense_pass.h) names.
template <class T>
bool dense_pass_takes(const TreeAttentionParams<T>& p);
// What launch_dense_pass needs of context.scratch.
std::size_t dense_pass_scratch_bytes(const TreeAttentionParams<Bf16>& p);
// Enqueues, never waits. REQUIRES: dense_pass_takes(p).
void launch_dense_pass(const TreeAttentionParams<Bf16>& p, const LaunchContext& context);

// --- draft_tree ---
// draft_tree on CUDA: one block a launch, except the commit's copies. Nothing waits or allocates.

void launch_grow_tree(const GrowTreeParams& p, const LaunchContext& context);
// top_logits and grow_tree of what it lists, in one launch (Ops::grow_tree_from); T = float or
// Bf16. Whether it takes that list: rows of up to 1,024 logits, 16 rows and 256 children at most.
template <class T>
bool grows_from_logits(const TopLogitsParams<T>& top);
// REQUIRES: grows_from_logits; top's rows are level p.level's frontier, top.k is p.branch. Neither
// top's list nor p's is read or written.
template <class T>
void launch_grow_from_logits(const TopLogitsParams<T>& top, const GrowTreeParams& p,
                             const LaunchContext& context);
void launch_finish_tree(const FinishTreeParams& p, const LaunchContext& context);
void launch_accept_tree(const AcceptTreeParams& p, const LaunchContext& context);
// T = float or Bf16.
template <class T>
void launch_commit_path(const CommitPathParams<T>& p, const LaunchContext& context);

// --- embed ---
// embed on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_embed(const EmbedParams<T>& p, const LaunchContext& context);

// --- flash_decode ---
// tree_attention over a long context, its keys split over blocks, on the GPU: the form in which a
// dense target decodes, verifies and rectifies.

// Whether launch_flash_decode has a kernel for that launch: bf16, a head size of 64 or 128, H/G <=
// 16, at most 4096 nodes, no window, keys from position 0 on; chosen tokens too.
template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p);
// Whether it gives p.weights too: a chain of few enough rows for one warp, as a draft's step is.
bool flash_decode_captures(const TreeAttentionParams<Bf16>& p);
// What launch_flash_decode needs of context.scratch.
std::size_t flash_decode_scratch_bytes(const TreeAttentionParams<Bf16>& p);
// Enqueues, never waits. REQUIRES: flash_decode_takes(p); a child's position is its parent's + 1.
void launch_flash_decode(const TreeAttentionParams<Bf16>& p, const LaunchContext& context);

// --- gumbel_top ---
// gumbel_top on CUDA: the perturbed rows in f32, then top_logits over them.

// T = float or Bf16. Enqueues, never waits.
template <class T>
void launch_gumbel_top(const GumbelTopParams<T>& p, const LaunchContext& context);

// --- index_keys ---
// index_keys and index_query on CUDA.

// T = float or Bf16. Enqueue, never wait, need no scratch.
template <class T>
void launch_index_keys(const IndexKeysParams<T>& p, const LaunchContext& context);
template <class T>
void launch_index_query(const IndexQueryParams<T>& p, const LaunchContext& context);

// --- layer_map ---
// layer_map on CUDA: one warp, columns in turn; offline work, written to be right.

// What launch_layer_map needs of context.scratch.
std::size_t layer_map_scratch_bytes(const LayerMapParams& p);
// Enqueues, never waits. REQUIRES: as layer_map_cpu, and fewer than 2^31 cells.
void launch_layer_map(const LayerMapParams& p, const LaunchContext& context);

// --- linear ---
// linear on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_linear(const LinearParams<T>& p, const LaunchContext& context);

// --- nsa_verify ---
// nsa_verify on the GPU. Fused form: fused.h. Vanilla form (Sparse Speculative Verification,
// section 3): compressed, select, selected, window and combine as separate launches, one query and
// KV head a CTA, branch outputs through memory; the baseline that the other is quoted against.

// T = float or Bf16. Scratch that a launch of this shape needs, 256-byte aligned. Throws as that.
template <class T>
std::size_t nsa_verify_scratch_bytes(const NsaVerifyParams<T>& p);

// Enqueues; never waits or allocates. Throws Error(kAnswerNo) with a sentence for a shape it does
// not take: head size not a multiple of 16 up to 128, H/G > 16, N > 4096, G > 65,535, more than
// 33,553,920 compressed tokens, B/s + l/s > 1024, or more selection blocks than shared memory holds
// (about 50,000).
template <class T>
void launch_nsa_verify(const NsaVerifyParams<T>& p, const LaunchContext& context);

// --- resa_decode ---
// resa_decode on the GPU: scores, selection, attention, merge.

// What launch_resa_decode needs of context.scratch. Throws as that.
template <class T>
std::size_t resa_decode_scratch_bytes(const ResaDecodeParams<T>& p);
// T = float or Bf16. Enqueues, never waits. Throws Error(kAnswerNo) for a head size not a multiple
// of 16 up to 128, H/G > 16, G > 65,535 or 2^31 - 1 tokens.
template <class T>
void launch_resa_decode(const ResaDecodeParams<T>& p, const LaunchContext& context);

// --- rope ---
// rope on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_rope(const RopeParams<T>& p, const LaunchContext& context);

// --- rope_append ---
// rope_append on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_rope_append(const RopeAppendParams<T>& p, const LaunchContext& context);

// --- spec_sample ---
// spec_sample on CUDA: which launches a variant is (model/launches/spec_sample.h says which). Both
// forms decide alike for the same numbers. T = float, Bf16 or F16.

// What launch_spec_sample needs of context.scratch.
template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p);
// Enqueues, never waits.
template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context);

// `cuts`: the least logit that is kept of each row, target's rows and then the draft's, or null.
// One launch a step, laws in memory (baseline.cu).
template <class T>
std::size_t spec_baseline_scratch_bytes(const SpecSampleParams<T>& p);
template <class T>
void launch_spec_baseline(const SpecSampleParams<T>& p, const float* cuts,
                          const LaunchContext& context);

// A cluster of blocks a position, then the pick of the first rejection (fused.cu).
template <class T>
std::size_t spec_fused_scratch_bytes(const SpecSampleParams<T>& p);
template <class T>
void launch_spec_fused(const SpecSampleParams<T>& p, const float* cuts,
                       const LaunchContext& context);

// The least logit of each row that a truncation keeps (row_cuts.cu): of `rows` rows from `first`
// and `more` rows from `second`. REQUIRES: temperature > 0.
template <class T>
struct RowCutsParams {
  const T* first = nullptr;   // [rows, V]
  const T* second = nullptr;  // [more, V]
  std::int64_t rows = 0, more = 0, vocab = 0;
  double temperature = 1.0;
  Truncation truncation = {};
  float* cuts = nullptr;  // [rows + more]
};
template <class T>
void launch_row_cuts(const RowCutsParams<T>& p, const LaunchContext& context);

// --- swiglu ---
// swiglu and sigmoid on CUDA.

// T = float or Bf16. Enqueue, never wait; need no scratch.
template <class T>
void launch_swiglu(const SwigluParams<T>& p, const LaunchContext& context);
template <class T>
void launch_sigmoid(const SigmoidParams<T>& p, const LaunchContext& context);

// --- token_list ---
// token_list on CUDA: two launches, so that lists need not pass through the host.

// What launch_token_list needs of context.scratch.
std::size_t token_list_scratch_bytes(const TokenListParams& p);
// Enqueues, never waits. REQUIRES: as token_list_cpu.
void launch_token_list(const TokenListParams& p, const LaunchContext& context);

// --- top_logits ---
// top_logits on CUDA.

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_top_logits(const TopLogitsParams<T>& p, const LaunchContext& context);

// --- top_p ---
// top_p on CUDA: a cluster a row bisects over weights held in shared memory, then one launch forms
// the union.

// What launch_top_p needs of context.scratch.
std::size_t top_p_scratch_bytes(const TopPParams<float>& p);
// Enqueues, never waits. REQUIRES: as top_p_cpu.
void launch_top_p(const TopPParams<float>& p, const LaunchContext& context);

// --- topk ---
// topk on CUDA: every variant, every shape.

// What launch_topk needs of context.scratch.
template <class T>
std::size_t topk_scratch_bytes(const TopkParams<T>& p);
// T = float or Bf16. Rows too long for a cluster (select.h) are sorted, whatever the variant.
// Enqueues, never waits.
template <class T>
void launch_topk(const TopkParams<T>& p, const LaunchContext& context);

// --- tree_attention ---
// tree_attention on the GPU: one CTA a (query, KV head), keys in chunks fixed by position.

// T = float or Bf16. REQUIRES: a child's position is its parent's + 1. Throws Error(kAnswerNo) for
// a head size not a multiple of 16 up to 128, H/G > 16 or more than 4096 nodes. Uses no scratch.
template <class T>
void launch_tree_attention(const TreeAttentionParams<T>& p, const LaunchContext& context);

// --- tree_sample ---
// tree_sample on CUDA: which launches a variant is (model/launches/tree_sample.h says which). Both
// forms decide alike for the same numbers. T = float, Bf16 or F16.

// What launch_tree_sample needs of context.scratch.
template <class T>
std::size_t tree_sample_scratch_bytes(const TreeSampleParams<T>& p);
// Enqueues, never waits.
template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context);

// `cuts`: the least logit that is kept of each row, or null.
// Each test anew over the row (baseline.cu). REQUIRES: samples < 2^16.
template <class T>
void launch_tree_baseline(const TreeSampleParams<T>& p, const float* cuts,
                          const LaunchContext& context);

// Clusters of blocks share the nodes, the last one walks (fused.cu). REQUIRES: samples * N <=
// kLaunchCounters.
template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const float* cuts,
                       const LaunchContext& context);

}  // namespace versieve::kernels
#endif
