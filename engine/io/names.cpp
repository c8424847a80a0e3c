#include "engine/io/names.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "engine/io/checkpoint.h"

namespace versieve::engine {
namespace {

// How one family spells a canonical name: prefix and the parts that differ from Llama's.
struct Spelling {
  const char* embedding;
  const char* layer_prefix;
  const char* final_norm;
  const char* attention_norm;
  const char* mlp_norm;
  const char* attention;  // "self_attn."
  const char* q;
  const char* k;
  const char* v;
  const char* o;
  const char* gate;
  const char* mlp;
};

constexpr Spelling kLlamaSpelling = {"model.embed_tokens.weight",
                                     "model.layers.",
                                     "model.norm.weight",
                                     "input_layernorm.weight",
                                     "post_attention_layernorm.weight",
                                     "self_attn.",
                                     "q_proj.weight",
                                     "k_proj.weight",
                                     "v_proj.weight",
                                     "o_proj.weight",
                                     "g_proj.weight",
                                     "mlp."};
constexpr Spelling kFlaSpelling = {
    "model.embeddings.weight", "model.layers.", "model.norm.weight", "attn_norm.weight",
    "mlp_norm.weight",         "attn.",         "q_proj.weight",     "k_proj.weight",
    "v_proj.weight",           "o_proj.weight", "g_proj.weight",     "mlp."};
constexpr Spelling kToySpelling = {"embedding.weight", "layers.",         "norm.weight",
                                   "attn_norm.weight", "ffn_norm.weight", "nsa.",
                                   "proj_q.weight",    "proj_k.weight",   "proj_v.weight",
                                   "proj_o.weight",    "gate.0.weight",   "ffn."};

const Spelling& spelling_of(ModelFamily family) {
  switch (family) {
    case ModelFamily::kFlaNsa:
      return kFlaSpelling;
    case ModelFamily::kToyNsa:
      return kToySpelling;
    case ModelFamily::kVersieveNsa:
    case ModelFamily::kLlama:
    case ModelFamily::kMistral:
    case ModelFamily::kQwen2:
    case ModelFamily::kQwen3:
    case ModelFamily::kSmolLm3:
    case ModelFamily::kLlamaNsa:
      break;
  }
  return kLlamaSpelling;
}

// Whole parts of a name: "x.rotary.inv_freq" and "rotary.inv_freq" end with the latter.
bool ends_with_one_of(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [name](std::string_view end) {
    return name.ends_with(end) &&
           (name.size() == end.size() || name[name.size() - end.size() - 1] == '.' ||
            name[name.size() - end.size() - 1] == '_');
  });
}

// The config's keys that a weight's extents come from, by the end of its canonical name; the first
// row that fits.
struct ExtentKeys {
  std::string_view end;
  const char* keys;
};
constexpr ExtentKeys kTargetExtents[] = {
    {"embed_tokens.weight", "vocab_size, hidden_size"},
    {"lm_head.weight", "vocab_size, hidden_size"},
    {"q_norm.weight", "head_dim"},
    {"k_norm.weight", "head_dim"},
    {"norm.weight", "hidden_size"},
    {"q_proj.bias", "num_attention_heads x head_dim"},
    {"k_proj.bias", "num_key_value_heads x head_dim"},
    {"v_proj.bias", "num_key_value_heads x head_dim"},
    {"q_proj.weight", "num_attention_heads x head_dim, hidden_size"},
    {"k_proj.weight", "num_key_value_heads x head_dim, hidden_size"},
    {"v_proj.weight", "num_key_value_heads x head_dim, hidden_size"},
    {"o_proj.weight", "hidden_size, num_attention_heads x head_dim"},
    {"g_proj.weight", "3 x num_attention_heads, hidden_size"},
    {"gate_proj.weight", "intermediate_size, hidden_size"},
    {"up_proj.weight", "intermediate_size, hidden_size"},
    {"down_proj.weight", "hidden_size, intermediate_size"},
};
constexpr ExtentKeys kDraftExtents[] = {
    {"d2t", "draft_vocab_size"},
    {"t2d", "vocab_size"},
    {"fc.weight", "hidden_size, 3 x the target's hidden_size"},
    {"embed_tokens.weight", "vocab_size, hidden_size"},
    {"lm_head.weight", "draft_vocab_size, hidden_size"},
    {"norm.weight", "hidden_size"},
    {"q_proj.weight", "num_attention_heads x head_dim, 2 x hidden_size"},
    {"k_proj.weight", "num_key_value_heads x head_dim, 2 x hidden_size"},
    {"v_proj.weight", "num_key_value_heads x head_dim, 2 x hidden_size"},
    {"o_proj.weight", "hidden_size, num_attention_heads x head_dim"},
    {"gate_proj.weight", "intermediate_size, hidden_size"},
    {"up_proj.weight", "intermediate_size, hidden_size"},
    {"down_proj.weight", "hidden_size, intermediate_size"},
};

void name_extents(std::span<const ExtentKeys> rows, std::vector<ExpectedTensor>& expected) {
  for (ExpectedTensor& tensor : expected) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const ExtentKeys& each) {
      return std::string_view(tensor.name).ends_with(each.end);
    });
    tensor.keys = row == rows.end() ? "" : row->keys;
  }
}

class TargetNames {
 public:
  TargetNames(const TargetConfig& config, std::vector<ExpectedTensor>& out)
      : config_(config), shape_(config.shape), s_(spelling_of(config.family)), out_(out) {}

  void add_ends() {
    add("model.embed_tokens.weight", s_.embedding, {shape_.vocab, shape_.hidden});
    add("model.norm.weight", s_.final_norm, {shape_.hidden});
    if (!shape_.tied_embeddings) {
      add("lm_head.weight", "lm_head.weight", {shape_.vocab, shape_.hidden});
    }
  }

  void add_layer(std::int64_t layer) {
    layer_ = layer;
    const std::int64_t hidden = shape_.hidden;
    add_part("input_layernorm.weight", s_.attention_norm, {hidden});
    add_part("post_attention_layernorm.weight", s_.mlp_norm, {hidden});
    add_attention("q_proj.weight", s_.q, {shape_.q_width(), hidden});
    add_attention("k_proj.weight", s_.k, {shape_.kv_width(), hidden});
    add_attention("v_proj.weight", s_.v, {shape_.kv_width(), hidden});
    add_attention("o_proj.weight", s_.o, {hidden, shape_.q_width()});
    add_mlp("gate_proj.weight", {shape_.intermediate, hidden});
    add_mlp("up_proj.weight", {shape_.intermediate, hidden});
    add_mlp("down_proj.weight", {hidden, shape_.intermediate});
    if (shape_.qkv_bias) {
      add_attention("q_proj.bias", "q_proj.bias", {shape_.q_width()});
      add_attention("k_proj.bias", "k_proj.bias", {shape_.kv_width()});
      add_attention("v_proj.bias", "v_proj.bias", {shape_.kv_width()});
    }
    if (shape_.qk_norm) {
      add_attention("q_norm.weight", "q_norm.weight", {shape_.head_dim});
      add_attention("k_norm.weight", "k_norm.weight", {shape_.head_dim});
    }
    if (shape_.attention == AttentionKind::kNsa) {
      add_attention("g_proj.weight", s_.gate, {3 * shape_.num_heads, hidden});
      add_compression();
    }
  }

 private:
  void add(const std::string& canonical, const std::string& spelling, Shape shape) {
    out_.push_back({canonical, std::move(shape), {spelling}, true});
  }
  void add_part(const std::string& canonical, const std::string& spelling, Shape shape) {
    add(layer_name(layer_, canonical), s_.layer_prefix + std::to_string(layer_) + "." + spelling,
        std::move(shape));
  }
  void add_attention(const std::string& canonical, const std::string& spelling, Shape shape) {
    add_part("self_attn." + canonical, s_.attention + spelling, std::move(shape));
  }
  void add_mlp(const std::string& name, Shape shape) {
    add_part("mlp." + name, s_.mlp + name, std::move(shape));
  }
  void add_compression() {
    const std::int64_t l = shape_.nsa.cmp_block;
    if (shape_.pooling == CompressPooling::kWeighted) {
      add_attention("compress_key", "compress_key", {shape_.num_kv_heads, l});
      add_attention("compress_value", "compress_value", {shape_.num_kv_heads, l});
    }
    if (config_.family == ModelFamily::kVersieveNsa || config_.family == ModelFamily::kToyNsa) {
      add_attention("intra_block_pe", "intra_block_pe", {shape_.num_kv_heads, l, shape_.head_dim});
    }
  }

  const TargetConfig& config_;
  const LlmShape& shape_;
  const Spelling& s_;
  std::vector<ExpectedTensor>& out_;
  std::int64_t layer_ = 0;
};

}  // namespace

bool is_rotary_frequencies(const std::string& name) {
  return ends_with_one_of(
      name, {"rotary_emb.inv_freq", "rotary.inv_freq", "rotary_emb.original_inv_freq"});
}

bool is_buffer(const std::string& name, const TensorView& view) {
  if (is_rotary_frequencies(name) ||
      ends_with_one_of(name, {"rotary_emb.cos_cached", "rotary_emb.sin_cached", "position_ids"})) {
    return true;
  }
  // A causal mask, as older attention modules keep it; a bias of that name has one dimension.
  const bool mask = ends_with_one_of(
      name, {"attn.bias", "attention.bias", "attn.mask", "attn.causal_mask", "attention.mask"});
  return ends_with_one_of(name, {"attn.masked_bias", "attention.masked_bias"}) ||
         (mask && view.shape.size() >= 2 && view.shape.back() == view.shape[view.shape.size() - 2]);
}

std::vector<ExpectedTensor> expected_target(const TargetConfig& config) {
  std::vector<ExpectedTensor> expected;
  TargetNames names(config, expected);
  names.add_ends();
  for (std::int64_t layer = 0; layer < config.shape.layers; ++layer) {
    names.add_layer(layer);
  }
  name_extents(kTargetExtents, expected);
  return expected;
}

std::vector<ExpectedTensor> expected_draft(const DraftConfig& config, const LlmShape& target) {
  const DraftShape& shape = config.shape;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  std::vector<ExpectedTensor> expected;
  const auto add = [&](const std::string& name, Shape extent, bool required = true) {
    expected.push_back({name, std::move(extent), {name, "model." + name}, required});
  };
  // Some engines write the one layer as layers.0.
  const auto add_layer = [&](const std::string& rest, Shape extent) {
    expected.push_back({"midlayer." + rest,
                        std::move(extent),
                        {"midlayer." + rest, "layers.0." + rest, "model.midlayer." + rest,
                         "model.layers.0." + rest},
                        true});
  };
  add("fc.weight", {hidden, 3 * target.hidden});
  for (const char* norm : {"input_layernorm", "hidden_norm", "post_attention_layernorm"}) {
    add_layer(std::string(norm) + ".weight", {hidden});
  }
  add_layer("self_attn.q_proj.weight", {q_width, 2 * hidden});
  add_layer("self_attn.k_proj.weight", {kv_width, 2 * hidden});
  add_layer("self_attn.v_proj.weight", {kv_width, 2 * hidden});
  add_layer("self_attn.o_proj.weight", {hidden, q_width});
  add_layer("mlp.gate_proj.weight", {shape.intermediate, hidden});
  add_layer("mlp.up_proj.weight", {shape.intermediate, hidden});
  add_layer("mlp.down_proj.weight", {hidden, shape.intermediate});
  add("norm.weight", {hidden});
  add("lm_head.weight", {shape.vocab, hidden}, false);
  add("embed_tokens.weight", {target.vocab, hidden}, false);
  add("d2t", {shape.vocab}, config.has_vocab_map);
  add("t2d", {target.vocab}, false);
  name_extents(kDraftExtents, expected);
  return expected;
}

}  // namespace versieve::engine
