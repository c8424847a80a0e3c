#include "engine/io/model_config.h"

#include <algorithm>
#include <map>

#include "engine/io/config_checks.h"
#include "engine/io/strict_json.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxLayers = 4096;  // bounds the list of expected names

ModelFamily family_of(const ConfigFields& config) {
  if (!config.has("model_type")) {
    if (config.has("kernel_size") && config.has("kernel_stride")) {
      return ModelFamily::kToyNsa;  // ToyNSALlamaConfig written as it is has no model_type
    }
    config.refuse("the field model_type is missing");
  }
  const std::string type = config.text("model_type");
  static const std::map<std::string, ModelFamily> known = {
      {"versieve-nsa", ModelFamily::kVersieveNsa},
      {"llama", ModelFamily::kLlama},
      {"mistral", ModelFamily::kMistral},
      {"qwen2", ModelFamily::kQwen2},
      {"qwen3", ModelFamily::kQwen3},
      {"smollm3", ModelFamily::kSmolLm3},
      {"llama-nsa", ModelFamily::kLlamaNsa},
      {"nsa", ModelFamily::kFlaNsa},
      {"toy-nsa-llama", ModelFamily::kToyNsa}};
  const auto found = known.find(type);
  if (found == known.end()) {
    config.refuse("the model_type '" + type +
                  "' is not supported; known are versieve-nsa, llama, mistral, qwen2, qwen3, "
                  "smollm3, llama-nsa, nsa and toy-nsa-llama");
  }
  return found->second;
}

// What families call these numbers, and what their configuration classes have where a config says
// nothing.
struct FamilyKeys {
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  std::int64_t positions = 0;        // 0: they must be there
  std::int64_t kv_heads_absent = 0;  // 0: as many as heads; a null always means that
  std::int64_t head_dim = 0;         // 0: hidden_size / heads
  double theta = 10000.0;
  bool tied = false;
};

// `positions`: of a Llama's.
FamilyKeys keys_of(ModelFamily family, std::int64_t positions) {
  switch (family) {
    case ModelFamily::kVersieveNsa:
    case ModelFamily::kToyNsa:
      return {};
    case ModelFamily::kLlama:
    case ModelFamily::kLlamaNsa:
      return {.positions = positions};
    case ModelFamily::kFlaNsa:
      return {.heads = "num_heads", .kv_heads = "num_kv_heads", .positions = positions};
    case ModelFamily::kMistral:
      return {.positions = 131072, .kv_heads_absent = 8};
    case ModelFamily::kQwen2:
      return {.positions = 32768, .kv_heads_absent = 32};
    case ModelFamily::kQwen3:
      return {.positions = 32768, .kv_heads_absent = 32, .head_dim = 128};
    case ModelFamily::kSmolLm3:
      return {.positions = 32768, .kv_heads_absent = 4, .theta = 2e6, .tied = true};
  }
  VERSIEVE_ASSERT(false, "a family has keys");
}

// Heads, widths and rotary base: the keys all families share but for two names.
void read_widths(const ConfigFields& config, const FamilyKeys& keys, LlmShape& shape) {
  shape.hidden = config.integer("hidden_size", 1);
  shape.layers = config.integer("num_hidden_layers", 1);
  if (shape.layers > kMaxLayers) {
    config.refuse("num_hidden_layers " + std::to_string(shape.layers) + " is beyond any model");
  }
  shape.vocab = config.integer("vocab_size", 1);
  shape.num_heads = config.integer(keys.heads, 1);
  const bool by_class = !config.mentions(keys.kv_heads) && keys.kv_heads_absent > 0;
  shape.num_kv_heads =
      config.integer_or(keys.kv_heads, 1, by_class ? keys.kv_heads_absent : shape.num_heads);
  if (shape.num_heads % shape.num_kv_heads != 0) {
    config.refuse(std::string(keys.kv_heads) + " must divide " + keys.heads);
  }
  const bool divides = !config.has("head_dim") && keys.head_dim == 0;
  if (divides && shape.hidden % shape.num_heads != 0) {
    config.refuse("hidden_size is no multiple of " + std::string(keys.heads) +
                  " and head_dim is missing");
  }
  shape.head_dim =
      config.integer_or("head_dim", 2, divides ? shape.hidden / shape.num_heads : keys.head_dim);
  if (shape.head_dim < 2 || shape.head_dim % 2 != 0) {
    config.refuse("head_dim must be even for the rotary embedding, but is " +
                  std::to_string(shape.head_dim));
  }
  constexpr const char* kPositions = "max_position_embeddings";
  shape.max_position = keys.positions > 0 ? config.integer_or(kPositions, 1, keys.positions)
                                          : config.integer(kPositions, 1);
  const Rotary rotary = read_rotary(config, shape.max_position, keys.theta);
  shape.rope_theta = rotary.theta;
  shape.rope = rotary.scaling;
}

// -1: none, in configs too.
std::int32_t token_id(const ConfigFields& config, const char* key, std::int64_t vocab) {
  const std::int64_t id = config.integer_or(key, -1, -1);
  if (id >= vocab) {
    config.refuse(std::string(key) + " " + std::to_string(id) + " is not in the vocabulary");
  }
  return static_cast<std::int32_t>(id);
}

std::vector<std::int32_t> eos_ids(const ConfigFields& config, std::int64_t vocab) {
  if (!config.has("eos_token_id")) {
    return {};
  }
  const nlohmann::json& value = config.value("eos_token_id");
  if (!value.is_array()) {
    const std::int32_t id = token_id(config, "eos_token_id", vocab);
    return id < 0 ? std::vector<std::int32_t>() : std::vector<std::int32_t>{id};
  }
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : value) {
    const std::optional<std::int64_t> whole = whole_number(id);
    if (!whole || *whole < 0 || *whole >= vocab) {
      config.refuse("eos_token_id holds " + id.dump() + ", which is not in the vocabulary");
    }
    ids.push_back(static_cast<std::int32_t>(*whole));
  }
  return ids;
}

// A padding token that was added beside the vocabulary is never fed to a model that pads nothing.
std::int32_t pad_id(const ConfigFields& config, std::int64_t vocab) {
  const std::int64_t id = config.integer_or("pad_token_id", -1, -1);
  return id < vocab ? static_cast<std::int32_t>(id) : -1;
}

SpecialTokens special_tokens(const ConfigFields& config, std::int64_t vocab) {
  return {.bos = token_id(config, "bos_token_id", vocab),
          .eos = eos_ids(config, vocab),
          .pad = pad_id(config, vocab)};
}

void check_geometry(const ConfigFields& config, const NsaGeometry& nsa) {
  const std::string wrong = geometry_error(nsa);
  if (!wrong.empty()) {
    config.refuse(wrong);
  }
}

void require_semantics(const ConfigFields& nsa, const char* key, const char* wanted) {
  if (nsa.text(key) != wanted) {
    nsa.refuse(std::string(key) + " '" + nsa.text(key) + "' is not supported; " + wanted + " is");
  }
}

void read_versieve_nsa(const ConfigFields& config, TargetConfig& target) {
  const ConfigFields nsa = config.object("nsa");
  require_semantics(nsa, "semantics", "compress_before_rope");
  require_semantics(nsa, "pooling", "weighted");
  target.semantics = "compress_before_rope";
  target.shape.compress_stage = CompressStage::kBeforeRope;
  target.shape.pooling = CompressPooling::kWeighted;
  target.shape.nsa = {.cmp_block = nsa.integer("cmp_block", 1),
                      .cmp_stride = nsa.integer("cmp_stride", 1),
                      .sel_block = nsa.integer("sel_block", 1),
                      .sel_count = nsa.integer("sel_count", 1),
                      .init_blocks = nsa.integer("init_blocks", 0),
                      .local_blocks = nsa.integer("local_blocks", 0),
                      .window = nsa.integer("window", 0)};
  check_geometry(nsa, target.shape.nsa);
}

// Non-overlapping mean-pooled blocks of rotated keys, which are the selection blocks too; the
// current block is forced, no first block. A window of 0 is none: its gate is there and counts for
// nothing.
void read_block_nsa(const ConfigFields& config, TargetConfig& target) {
  const std::int64_t block = config.integer("block_size", 1);
  target.semantics = "compress_after_rope";
  target.shape.compress_stage = CompressStage::kAfterRope;
  target.shape.pooling = CompressPooling::kMean;
  target.shape.nsa = {.cmp_block = block,
                      .cmp_stride = block,
                      .sel_block = block,
                      .sel_count = config.integer("block_counts", 1),
                      .init_blocks = 0,
                      .local_blocks = 1,
                      .window = config.integer("window_size", 0)};
  check_geometry(config, target.shape.nsa);
}

void read_toy_nsa(const ConfigFields& config, TargetConfig& target) {
  const std::string pooling = config.text("compress_type");
  if (pooling != "weightedpool" && pooling != "avgpool") {
    config.refuse("the compress_type '" + pooling +
                  "' is not supported; weightedpool and avgpool are");
  }
  target.semantics = "compress_before_rope";
  target.shape.compress_stage = CompressStage::kBeforeRope;
  target.shape.pooling = pooling == "avgpool" ? CompressPooling::kMean : CompressPooling::kWeighted;
  // The family gives window_size as flash attention's left reach, which leaves out the query's own
  // token; W counts it.
  target.shape.nsa = {.cmp_block = config.integer("kernel_size", 1),
                      .cmp_stride = config.integer("kernel_stride", 1),
                      .sel_block = config.integer("block_size", 1),
                      .sel_count = config.integer("topk", 1),
                      .init_blocks = config.integer("init_blocks", 0),
                      .local_blocks = config.integer("local_blocks", 0),
                      .window = config.integer("window_size", 0) + 1};
  check_geometry(config, target.shape.nsa);
}

// The flash-linear-attention project's rule when intermediate_size is absent: two thirds of
// hidden_ratio, rounded up to 256.
std::int64_t fla_intermediate(const ConfigFields& config, std::int64_t hidden) {
  if (config.has("intermediate_size")) {
    return config.integer("intermediate_size", 1);
  }
  const std::int64_t ratio = config.integer_or("hidden_ratio", 1, 4);
  const std::int64_t width = hidden * ratio * 2 / 3;
  return (width + 255) / 256 * 256;
}

// layer_types, one each; empty where there are none.
std::vector<bool> sliding_layers(const ConfigFields& config, std::int64_t layers) {
  if (!config.has("layer_types")) {
    return {};
  }
  const nlohmann::json& types = config.value("layer_types");
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != layers) {
    config.refuse("layer_types must have one entry a layer, " + std::to_string(layers));
  }
  std::vector<bool> sliding;
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.refuse("layer_types holds " + type.dump() +
                    ", which is not supported; full_attention and sliding_attention are");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// Layers whose queries and keys are not rotated: the list, else each interval's last.
void read_unturned_layers(const ConfigFields& config, std::vector<DenseLayer>& layers) {
  if (!config.has("no_rope_layers")) {
    const std::int64_t interval = config.integer_or("no_rope_layer_interval", 1, 4);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].turns = (static_cast<std::int64_t>(i) + 1) % interval != 0;
    }
    return;
  }
  const nlohmann::json& marks = config.value("no_rope_layers");
  if (!marks.is_array() || marks.size() < layers.size()) {
    config.refuse("no_rope_layers must have one entry a layer, " + std::to_string(layers.size()));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::optional<std::int64_t> mark = whole_number(marks[i]);
    if (mark != 0 && mark != 1) {
      config.refuse("no_rope_layers holds " + marks[i].dump() +
                    ", where 1 means a layer with rotary and 0 one without");
    }
    layers[i].turns = *mark == 1;
  }
}

// A Llama has no windows: a config that gives it one is of another class.
void check_windowless(const ConfigFields& config, std::int64_t max_position) {
  const std::optional<std::int64_t> window = sliding_window(config, {}, true);
  if (window && *window < max_position) {
    config.refuse("sliding_window " + std::to_string(*window) +
                  " is not supported for this model_type: it is narrower than "
                  "max_position_embeddings, " +
                  std::to_string(max_position));
  }
}

// Which layers see a window, by the rule of the family's own class.
std::vector<bool> windowed_layers(const ConfigFields& config, const TargetConfig& target,
                                  const std::vector<DenseLayer>& layers) {
  std::vector<bool> windowed = sliding_layers(config, target.shape.layers);
  if (!windowed.empty()) {
    return windowed;
  }
  const std::int64_t first =
      target.family == ModelFamily::kMistral ? 0 : config.integer_or("max_window_layers", 0, 28);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    windowed.push_back(target.family == ModelFamily::kSmolLm3
                           ? !layers[i].turns
                           : static_cast<std::int64_t>(i) >= first);
  }
  return windowed;
}

void read_windows(const ConfigFields& config, const TargetConfig& target,
                  std::vector<DenseLayer>& layers) {
  const bool mistral = target.family == ModelFamily::kMistral;
  const std::optional<std::int64_t> class_window =
      target.family == ModelFamily::kSmolLm3 ? std::nullopt : std::optional<std::int64_t>(4096);
  const std::optional<std::int64_t> window = sliding_window(config, class_window, mistral);
  const std::vector<bool> listed = sliding_layers(config, target.shape.layers);
  if (!window) {
    if (std::find(listed.begin(), listed.end(), true) != listed.end()) {
      config.refuse("layer_types holds \"sliding_attention\", but no sliding_window is in use");
    }
    return;
  }
  if (mistral && std::find(listed.begin(), listed.end(), false) != listed.end()) {
    config.refuse(
        "layer_types holds \"full_attention\", but every layer of a Mistral has the "
        "sliding_window");
  }
  const std::vector<bool> windowed = windowed_layers(config, target, layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].window = windowed[i] && *window < target.shape.max_position ? *window : 0;
  }
}

void read_dense(const ConfigFields& config, TargetConfig& target) {
  config.refuse_flags({"nsa"});
  LlmShape& shape = target.shape;
  target.semantics = "dense";
  shape.attention = AttentionKind::kDense;
  shape.qkv_bias = target.family == ModelFamily::kQwen2;
  shape.qk_norm = target.family == ModelFamily::kQwen3;
  if (target.family != ModelFamily::kSmolLm3) {
    config.refuse_flags({"no_rope_layers"});
  }
  if (target.family == ModelFamily::kLlama) {
    check_windowless(config, shape.max_position);
    const std::vector<bool> sliding = sliding_layers(config, shape.layers);
    if (std::find(sliding.begin(), sliding.end(), true) != sliding.end()) {
      config.refuse("layer_types holds \"sliding_attention\", which is not supported for a llama");
    }
    return;
  }
  std::vector<DenseLayer> layers(static_cast<std::size_t>(shape.layers));
  if (target.family == ModelFamily::kSmolLm3) {
    read_unturned_layers(config, layers);
  }
  read_windows(config, target, layers);
  if (layers != std::vector<DenseLayer>(layers.size())) {
    shape.dense_layers = std::move(layers);
  }
}

void read_family(const ConfigFields& config, std::int64_t positions, TargetConfig& target) {
  LlmShape& shape = target.shape;
  const bool fla = target.family == ModelFamily::kFlaNsa;
  const FamilyKeys keys = keys_of(target.family, positions);
  read_widths(config, keys, shape);
  shape.intermediate =
      fla ? fla_intermediate(config, shape.hidden) : config.integer("intermediate_size", 1);
  shape.norm_eps = config.positive_or(fla ? "norm_eps" : "rms_norm_eps", 1e-6);
  // ToyNSALlama never ties.
  shape.tied_embeddings = config.flag_or("tie_word_embeddings", keys.tied);
  switch (target.family) {
    case ModelFamily::kVersieveNsa:
      read_versieve_nsa(config, target);
      break;
    case ModelFamily::kLlama:
    case ModelFamily::kMistral:
    case ModelFamily::kQwen2:
    case ModelFamily::kQwen3:
    case ModelFamily::kSmolLm3:
      read_dense(config, target);
      break;
    case ModelFamily::kLlamaNsa:
    case ModelFamily::kFlaNsa:
      read_block_nsa(config, target);
      break;
    case ModelFamily::kToyNsa:
      read_toy_nsa(config, target);
      break;
  }
}

// What a family always has some configs state.
void check_family_unsupported(const ConfigFields& config, ModelFamily family) {
  if (family == ModelFamily::kQwen2) {
    check_unsupported(config, {"attention_bias", "qkv_bias"});
  } else if (family == ModelFamily::kQwen3) {
    check_unsupported(config, {"qk_norm", "use_qk_norm"});
  } else {
    check_unsupported(config);
  }
}

}  // namespace

TargetConfig read_target_config(const fs::path& folder, std::int64_t positions_if_absent) {
  const fs::path path = folder / "config.json";
  TargetConfig target =
      target_config_of(read_json_object(path), path.string(), positions_if_absent);
  target.shape.name = fs::absolute(folder).lexically_normal().filename().string();
  if (target.shape.name.empty()) {  // the folder was given with a slash at its end
    target.shape.name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  }
  return target;
}

TargetConfig target_config_of(const nlohmann::json& document, const std::string& origin,
                              std::int64_t positions_if_absent) {
  const ConfigFields config(document, origin);
  TargetConfig target;
  target.family = family_of(config);
  check_family_unsupported(config, target.family);
  check_dtype(config);
  read_family(config, positions_if_absent, target);
  check_foreign(config, target.shape.head_dim);
  target.special = special_tokens(config, target.shape.vocab);
  return target;
}

}  // namespace versieve::engine
