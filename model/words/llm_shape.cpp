#include "model/words/llm_shape.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "model/words/error.h"

namespace versieve {
namespace {

// q, k, v, o projections and a SwiGLU MLP, both norms.
std::int64_t layer_parameters(std::int64_t input_width, std::int64_t hidden, std::int64_t q_width,
                              std::int64_t kv_width, std::int64_t intermediate) {
  const std::int64_t attention = input_width * (q_width + 2 * kv_width) + q_width * hidden;
  return attention + 3 * hidden * intermediate + 2 * hidden;
}

// Before a geometry's name ends and what is said of its draft begins.
constexpr std::string_view kDraftMark = ":v";

// The shape of a target, by a name that says nothing of its draft; none for an unknown one.
std::optional<LlmShape> target_shape(std::string_view name) {
  LlmShape shape{.name = std::string(name),
                 .layers = 16,
                 .hidden = 2048,
                 .intermediate = 8192,
                 .vocab = 128256,
                 .num_heads = 32,
                 .num_kv_heads = 8,
                 .head_dim = 64,
                 .max_position = 1 << 18,
                 .rope_theta = 500000.0};
  if (name == "nsa-1b") {
    return shape;
  }
  if (name == "dense-1b") {
    shape.attention = AttentionKind::kDense;
    return shape;
  }
  if (name == "nsa-8b" || name == "dense-8b") {
    shape.attention = name == "dense-8b" ? AttentionKind::kDense : AttentionKind::kNsa;
    shape.layers = 32;
    shape.hidden = 4096;
    shape.intermediate = 14336;
    shape.head_dim = 128;
    shape.tied_embeddings = false;
    return shape;
  }
  if (name == "demo") {
    shape.layers = 8;
    shape.hidden = 320;
    shape.intermediate = 896;
    shape.vocab = 272;
    shape.num_heads = 8;
    shape.num_kv_heads = 2;
    shape.max_position = 1 << 14;
    return shape;
  }
  return {};
}

// As digits alone write it: no sign, no blank, no leading 0.
std::optional<std::int64_t> plain_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && text.front() != '0' && text.front() != '-' ? std::optional(number) : std::nullopt;
}

}  // namespace

std::int64_t compressed_count(const NsaGeometry& nsa, std::int64_t tokens) {
  return tokens >= nsa.cmp_block ? (tokens - nsa.cmp_block) / nsa.cmp_stride + 1 : 0;
}

std::string geometry_error(const NsaGeometry& nsa) {
  if (nsa.cmp_block < 1 || nsa.cmp_stride < 1 || nsa.sel_block < 1 || nsa.sel_count < 1) {
    return "cmp_block, cmp_stride, sel_block and sel_count must be at least 1";
  }
  if (nsa.init_blocks < 0 || nsa.local_blocks < 0 || nsa.window < 0) {
    return "init_blocks, local_blocks and window must not be negative";
  }
  if (nsa.cmp_block % nsa.cmp_stride != 0 || nsa.sel_block % nsa.cmp_stride != 0) {
    return "cmp_stride must divide cmp_block and sel_block";
  }
  if (nsa.sel_count < nsa.init_blocks + nsa.local_blocks) {
    return "sel_count must hold the forced blocks: init_blocks + local_blocks";
  }
  return {};
}

bool LlmShape::has_windows() const {
  return std::any_of(dense_layers.begin(), dense_layers.end(),
                     [](const DenseLayer& layer) { return layer.window > 0; });
}

std::int64_t LlmShape::parameter_count() const {
  std::int64_t layer = layer_parameters(hidden, hidden, q_width(), kv_width(), intermediate);
  if (attention == AttentionKind::kNsa) {
    layer += 3 * num_heads * hidden;
    if (pooling == CompressPooling::kWeighted) {
      layer += num_kv_heads * nsa.cmp_block * (2 + head_dim);
    }
  }
  layer += qkv_bias ? q_width() + 2 * kv_width() : 0;
  layer += qk_norm ? 2 * head_dim : 0;
  return layers * layer + vocab * hidden * (tied_embeddings ? 1 : 2) + hidden;
}

std::int64_t DraftShape::parameter_count() const {
  const std::int64_t layer = layer_parameters(2 * hidden, hidden, num_heads * head_dim,
                                              num_kv_heads * head_dim, intermediate);
  return 3 * hidden * hidden + layer + hidden + hidden + vocab * hidden;
}

LlmShape named_llm_shape(std::string_view name) {
  const std::string target = target_name(name);
  std::optional<LlmShape> shape = target_shape(target);
  if (!shape) {
    throw Error(ExitCode::kUsage,
                "unknown geometry '" + std::string(name) +
                    "': the named ones are nsa-1b, nsa-8b, dense-1b, dense-8b and demo, "
                    "and as nsa-1b:v32000 with a draft of fewer tokens");
  }
  shape->name = name;
  if (target.size() < name.size()) {
    const auto tokens = plain_number(name.substr(target.size() + kDraftMark.size()));
    if (!tokens || *tokens >= shape->vocab) {
      throw Error(ExitCode::kUsage, "geometry '" + std::string(name) +
                                        "': after :v stands how many tokens the draft proposes, 1 "
                                        "to " +
                                        std::to_string(shape->vocab - 1) + "; with all " +
                                        std::to_string(shape->vocab) + " it is " + target);
    }
    shape->draft_vocab = *tokens;
  }
  return *shape;
}

std::string target_name(std::string_view name) {
  return std::string(name.substr(0, name.find(kDraftMark)));
}

DraftShape draft_shape_for(const LlmShape& target) {
  return {.hidden = target.hidden,
          .intermediate = target.intermediate,
          .vocab = target.draft_vocab > 0 ? target.draft_vocab : target.vocab,
          .num_heads = target.num_heads,
          .num_kv_heads = target.num_kv_heads,
          .head_dim = target.head_dim,
          .window = 512,
          .rope_theta = target.rope_theta,
          .norm_eps = target.norm_eps,
          .capture_layers = {std::min<std::int64_t>(2, target.layers), target.layers / 2,
                             std::max<std::int64_t>(target.layers - 3, 0)},
          .rope = target.rope};
}

DraftShape usual_draft(const LlmShape& target) {
  DraftShape draft = draft_shape_for(target);
  if (target.draft_vocab == 0) {
    draft.vocab = std::min(draft.vocab, kPublishedDraftVocab);
  }
  return draft;
}

}  // namespace versieve
