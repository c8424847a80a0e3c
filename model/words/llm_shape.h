// The geometry of a target model and of its draft: what the engine allocates, the kernels assert
// and the cost model multiplies. Letters follow the papers (Sparse Speculative Verification,
// section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/words/rotary.h"

namespace versieve {

// Native Sparse Attention geometry. Defaults: Sparse Speculative Verification, section 5 (32/16/64,
// top 16, window 512).
struct NsaGeometry {
  std::int64_t cmp_block = 32;    // l: tokens in one compression block
  std::int64_t cmp_stride = 16;   // s: tokens between the starts of two compression blocks
  std::int64_t sel_block = 64;    // B: tokens in one selection block
  std::int64_t sel_count = 16;    // n: selected blocks a query, the forced ones included
  std::int64_t init_blocks = 1;   // forced at the start of the sequence
  std::int64_t local_blocks = 2;  // forced at its end, the current block included
  // W: tokens of the sliding window, the query's own included; 0: there is no such branch.
  std::int64_t window = 512;

  bool operator==(const NsaGeometry&) const = default;
};

// Compressed tokens that lie wholly within the first `tokens` tokens: floor((tokens - l)/s) + 1 or
// 0.
std::int64_t compressed_count(const NsaGeometry& nsa, std::int64_t tokens);
// Why a geometry cannot be computed, or an empty text if it can (kernels/nsa_verify/README.md).
std::string geometry_error(const NsaGeometry& nsa);

enum class AttentionKind { kDense, kNsa };

// How a checkpoint family forms compressed tokens (research notes on engines, part 9).
enum class CompressPooling { kMean, kWeighted, kLinear };
enum class CompressStage { kBeforeRope, kAfterRope };

// What differs between the layers of a dense target.
struct DenseLayer {
  std::int64_t window = 0;  // tokens that a query sees, its own included; 0: all
  bool turns = true;        // queries and keys are rotated by their positions

  bool operator==(const DenseLayer&) const = default;
};

struct LlmShape {
  std::string name;  // as it was asked for: "nsa-1b", "nsa-1b:v32000"
  AttentionKind attention = AttentionKind::kNsa;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // G, divides H
  std::int64_t head_dim = 0;      // d
  std::int64_t max_position = 0;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tied_embeddings = true;
  NsaGeometry nsa;
  CompressPooling pooling = CompressPooling::kWeighted;
  CompressStage compress_stage = CompressStage::kBeforeRope;
  std::int64_t draft_vocab = 0;  // tokens that draft_shape_for's draft proposes; 0: all of vocab
  RopeScaling rope;              // how rope_theta's frequencies are scaled
  bool qkv_bias = false;         // added to queries, keys and values before all else
  bool qk_norm = false;          // RMS norms over each query's and key's elements, before rotary
  std::vector<DenseLayer> dense_layers;  // one each; empty: all alike

  DenseLayer dense_layer(std::int64_t layer) const {
    return dense_layers.empty() ? DenseLayer{} : dense_layers[static_cast<std::size_t>(layer)];
  }
  bool has_windows() const;  // of dense layers
  // Whether rows of the joint projection are queries, keys and values as they come, turned by
  // theta's own frequencies: what the launches for whole layers take.
  bool is_plain() const {
    return !qkv_bias && !qk_norm && rope == RopeScaling{} && dense_layers.empty();
  }
  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }
  // Parameters of all layers, embeddings and head included.
  std::int64_t parameter_count() const;
};

// An EAGLE-3-style draft: three captured streams -> fc -> one decoder layer with a sliding window.
struct DraftShape {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;  // draft vocabulary
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 512;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  std::int64_t capture_layers[3] = {
      0, 0, 0};  // the stream entering layer j; j = layers: leaving the last
  RopeScaling rope;
  bool norm_before_residual = false;  // the normed feature, not the feature, is the residual
  // Of its entries and nodes, which is a limit on drafting and on nothing else; 0: the target's.
  std::int64_t max_position = 0;

  bool is_plain() const { return rope == RopeScaling{} && !norm_before_residual; }
  std::int64_t joint_rows() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  std::int64_t parameter_count() const;
};

// Named geometries: `nsa-1b` (16 layers, 2048, 32/8 heads, d 64, MLP 8192, vocabulary 128,256),
// `nsa-8b` (32 layers, 4096, 32/8, d 128, MLP 14336, vocabulary 128,256), `demo` (the shipped
// trained pair's: 8 layers, 320, 8/2, d 64, MLP 896, 272 tokens), used with synthetic weights.
// `nsa-1b:v32000`: the same target, whose draft proposes 32,000 of its tokens. A pair has one name:
// all tokens are written without the suffix and no number begins with 0.
// Throws Error(kUsage) naming the known ones, or what may follow `:v`.
LlmShape named_llm_shape(std::string_view name);
// Without what it says of the draft: "nsa-1b" for "nsa-1b:v32000". REQUIRES: a geometry's name.
std::string target_name(std::string_view name);
// The draft that goes with a target of that shape: one layer of the target's widths, window 512,
// capturing the streams entering layers 2, layers/2 and layers-3 (EAGLE-3), proposing draft_vocab.
DraftShape draft_shape_for(const LlmShape& target);

// Tokens that published EAGLE-3 heads for large vocabularies propose.
inline constexpr std::int64_t kPublishedDraftVocab = 32000;
// What a geometry is planned and predicted with where nobody says: draft_shape_for's draft, which
// proposes kPublishedDraftVocab tokens where the target has more and its name says nothing.
DraftShape usual_draft(const LlmShape& target);

}  // namespace versieve
