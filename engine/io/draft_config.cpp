// The configuration of a draft head.
#include <algorithm>
#include <set>

#include "engine/io/config_checks.h"
#include "engine/io/model_config.h"
#include "engine/io/shards.h"
#include "engine/io/strict_json.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

// Streams that the draft's fc reads, as "entering layer j" (j = layers: leaving the last).
void read_capture_layers(const ConfigFields& config, const LlmShape& target, DraftShape& shape) {
  const DraftShape usual = draft_shape_for(target);
  std::copy(std::begin(usual.capture_layers), std::end(usual.capture_layers),
            std::begin(shape.capture_layers));
  const ConfigFields eagle = config.has("eagle_config") ? config.object("eagle_config") : config;
  if (!eagle.flag_or("use_aux_hidden_state", true)) {
    eagle.refuse("use_aux_hidden_state false is not supported");
  }
  constexpr const char* kIds = "eagle_aux_hidden_state_layer_ids";
  if (!eagle.has(kIds)) {
    return;
  }
  const std::string meaning = eagle.text_or("id_semantics", "entering_layer");
  if (meaning != "entering_layer" && meaning != "leaving_layer") {
    eagle.refuse("id_semantics '" + meaning +
                 "' is not supported; entering_layer and leaving_layer are");
  }
  const nlohmann::json& ids = eagle.value(kIds);
  if (!ids.is_array() || ids.size() != 3) {
    eagle.refuse(std::string(kIds) + " must be three layer ids");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t shift = meaning == "leaving_layer" ? 1 : 0;
    const std::optional<std::int64_t> id = whole_number(ids[i]);
    if (!id || *id < 0 || *id > target.layers - shift) {
      eagle.refuse(std::string(kIds) + " holds " + ids[i].dump() + ", but the target has " +
                   std::to_string(target.layers) + " layers");
    }
    shape.capture_layers[i] = *id + shift;
  }
}

// A draft without a window sees its whole context: as wide as any position can be.
std::int64_t draft_window(const ConfigFields& layer, const LlmShape& target) {
  const std::int64_t all = std::max(
      target.max_position, layer.integer_or("max_position_embeddings", 1, target.max_position));
  return sliding_window(layer, {}, true).value_or(all);
}

// The draft's own positions, where they are fewer than the target's.
std::int64_t draft_positions(const ConfigFields& layer, const LlmShape& target) {
  const std::int64_t own = layer.integer_or("max_position_embeddings", 1, target.max_position);
  return own < target.max_position ? own : 0;
}

// A flag that stands in either of two objects.
bool flag_of(const ConfigFields& config, const ConfigFields& layer, const char* key) {
  return config.flag_or(key, layer.flag_or(key, false));
}

void check_draft(const ConfigFields& config, const ConfigFields& layer) {
  check_unsupported(layer);
  check_dtype(layer);
  config.refuse_flags({"norm_before_fc", "norm_output", "fc_norm"});
  if (layer.integer_or("num_hidden_layers", 1, 1) != 1) {
    layer.refuse("num_hidden_layers must be 1: a draft is one decoder layer");
  }
}

// Keys that only an EAGLE head's configuration has.
bool is_head(const ConfigFields& config) {
  for (const char* key : {"draft_vocab_size", "eagle_config", "target_hidden_size",
                          "transformer_layer_config", "eagle_aux_hidden_state_layer_ids"}) {
    if (config.has(key)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_draft_model(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const nlohmann::json document = read_json_object(path);
  if (document.contains("architectures")) {
    return is_draft_model_config(document, path.string());
  }
  const std::set<std::string> names = stored_names(folder);
  return !is_head(ConfigFields(document, path.string())) && !names.empty() &&
         names.count("fc.weight") == 0;
}

bool is_draft_model_config(const nlohmann::json& document, const std::string& origin) {
  const ConfigFields config(document, origin);
  if (is_head(config) || !config.has("architectures")) {
    return false;
  }
  const nlohmann::json& names = config.value("architectures");
  if (!names.is_array()) {
    return false;
  }
  for (const char* model : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                            "Qwen3ForCausalLM", "SmolLM3ForCausalLM"}) {
    if (std::find(names.begin(), names.end(), model) != names.end()) {
      return true;
    }
  }
  return false;
}

LlmShape read_draft_model(const fs::path& folder, const LlmShape& target) {
  const fs::path path = folder / "config.json";
  return draft_model_of(read_json_object(path), path.string(), target);
}

LlmShape draft_model_of(const nlohmann::json& document, const std::string& origin,
                        const LlmShape& target) {
  const LlmShape shape = target_config_of(document, origin, target.max_position).shape;
  const ConfigFields config(document, origin);
  if (shape.attention != AttentionKind::kDense) {
    config.refuse("a draft model is dense");
  }
  if (shape.vocab != target.vocab) {
    config.refuse("vocab_size must be the target's, " + std::to_string(target.vocab));
  }
  return shape;
}

DraftConfig read_draft_config(const fs::path& folder, const LlmShape& target) {
  const fs::path path = folder / "config.json";
  return draft_config_of(read_json_object(path), path.string(), target);
}

DraftConfig draft_config_of(const nlohmann::json& document, const std::string& origin,
                            const LlmShape& target) {
  const ConfigFields config(document, origin);
  // Some engines nest the layer's own fields.
  constexpr const char* kNested = "transformer_layer_config";
  const ConfigFields layer = config.has(kNested) ? config.object(kNested) : config;
  check_draft(config, layer);
  LlmShape widths;
  widths.layers = 1;
  widths.hidden = layer.integer("hidden_size", 1);
  if (widths.hidden != target.hidden ||
      config.integer_or("target_hidden_size", 1, target.hidden) != target.hidden) {
    config.refuse("hidden_size must be the target's, " + std::to_string(target.hidden));
  }
  if (layer.integer("vocab_size", 1) != target.vocab) {
    layer.refuse("vocab_size must be the target's, " + std::to_string(target.vocab));
  }
  const std::int64_t heads = layer.integer("num_attention_heads", 1);
  DraftConfig draft;
  DraftShape& shape = draft.shape;
  shape.hidden = widths.hidden;
  shape.intermediate = layer.integer("intermediate_size", 1);
  shape.vocab = config.integer_or("draft_vocab_size", 1, target.vocab);
  shape.num_heads = heads;
  shape.num_kv_heads = layer.integer_or("num_key_value_heads", 1, heads);
  shape.head_dim = layer.integer_or("head_dim", 2, shape.hidden / heads);
  shape.window = draft_window(layer, target);
  shape.max_position = draft_positions(layer, target);
  const Rotary rotary =
      read_rotary(layer, layer.integer_or("max_position_embeddings", 1, target.max_position));
  shape.rope_theta = rotary.theta;
  shape.rope = rotary.scaling;
  shape.norm_before_residual = flag_of(config, layer, "norm_before_residual");
  shape.norm_eps = layer.positive_or("rms_norm_eps", 1e-6);
  if (heads % shape.num_kv_heads != 0) {
    layer.refuse("num_key_value_heads must divide num_attention_heads");
  }
  if (shape.head_dim < 2 || shape.head_dim % 2 != 0) {
    layer.refuse("head_dim must be even for the rotary embedding");
  }
  if (shape.vocab > target.vocab) {
    config.refuse("draft_vocab_size is larger than the target's vocabulary");
  }
  draft.has_vocab_map = shape.vocab != target.vocab;
  read_capture_layers(config, target, shape);
  return draft;
}

}  // namespace versieve::engine
