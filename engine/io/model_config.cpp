#include "engine/io/model_config.h"

#include <algorithm>

#include "engine/io/config_checks.h"
#include "engine/io/strict_json.h"

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
  if (type == "versieve-nsa") {
    return ModelFamily::kVersieveNsa;
  }
  if (type == "llama") {
    return ModelFamily::kLlama;
  }
  if (type == "llama-nsa") {
    return ModelFamily::kLlamaNsa;
  }
  if (type == "nsa") {
    return ModelFamily::kFlaNsa;
  }
  if (type == "toy-nsa-llama") {
    return ModelFamily::kToyNsa;
  }
  config.refuse("the model_type '" + type +
                "' is not supported; known are versieve-nsa, llama, llama-nsa, nsa and "
                "toy-nsa-llama");
}

// What differs between families in them.
struct WidthKeys {
  const char* heads;
  const char* kv_heads;
  std::int64_t positions_if_absent;  // 0: they must be there
};

// Heads, widths and rotary base: the keys all families share but for two names.
void read_widths(const ConfigFields& config, const WidthKeys& keys, LlmShape& shape) {
  shape.hidden = config.integer("hidden_size", 1);
  shape.layers = config.integer("num_hidden_layers", 1);
  if (shape.layers > kMaxLayers) {
    config.refuse("num_hidden_layers " + std::to_string(shape.layers) + " is beyond any model");
  }
  shape.vocab = config.integer("vocab_size", 1);
  shape.num_heads = config.integer(keys.heads, 1);
  shape.num_kv_heads = config.integer_or(keys.kv_heads, 1, shape.num_heads);
  if (shape.num_heads % shape.num_kv_heads != 0) {
    config.refuse(std::string(keys.kv_heads) + " must divide " + keys.heads);
  }
  if (!config.has("head_dim") && shape.hidden % shape.num_heads != 0) {
    config.refuse("hidden_size is no multiple of " + std::string(keys.heads) +
                  " and head_dim is missing");
  }
  shape.head_dim = config.integer_or("head_dim", 2, shape.hidden / shape.num_heads);
  if (shape.head_dim < 2 || shape.head_dim % 2 != 0) {
    config.refuse("head_dim must be even for the rotary embedding, but is " +
                  std::to_string(shape.head_dim));
  }
  shape.max_position = keys.positions_if_absent > 0 ? config.integer_or("max_position_embeddings",
                                                                        1, keys.positions_if_absent)
                                                    : config.integer("max_position_embeddings", 1);
  shape.rope_theta = rope_theta(config);
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
                      .window = nsa.integer("window", 1)};
  check_geometry(nsa, target.shape.nsa);
}

// Non-overlapping mean-pooled blocks of rotated keys, which are the selection blocks too; the
// current block is forced, no first block.
void read_block_nsa(const ConfigFields& config, TargetConfig& target) {
  if (config.has("window_size") && config.value("window_size") == 0) {
    config.refuse("window_size 0 (no window branch) is not supported");
  }
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
                      .window = config.integer("window_size", 1)};
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

void read_dense(const ConfigFields& config, TargetConfig& target) {
  config.refuse_flags({"nsa"});
  const std::optional<std::int64_t> window = sliding_window(config);
  if (window && *window < target.shape.max_position) {
    config.refuse("sliding_window " + std::to_string(*window) +
                  " is not supported: it is narrower than max_position_embeddings, " +
                  std::to_string(target.shape.max_position));
  }
  if (config.has("layer_types")) {
    for (const nlohmann::json& type : config.value("layer_types")) {
      if (type != "full_attention") {
        config.refuse("layer_types holds " + type.dump() +
                      ", which is not supported; full_attention is");
      }
    }
  }
  target.semantics = "dense";
  target.shape.attention = AttentionKind::kDense;
}

// Of the classes that are configured as Llama's, whose default stands in for an absent number.
bool states_positions(ModelFamily family) {
  return family == ModelFamily::kVersieveNsa || family == ModelFamily::kToyNsa;
}

void read_family(const ConfigFields& config, std::int64_t positions, TargetConfig& target) {
  LlmShape& shape = target.shape;
  const bool fla = target.family == ModelFamily::kFlaNsa;
  read_widths(config,
              fla ? WidthKeys{"num_heads", "num_kv_heads", positions}
                  : WidthKeys{"num_attention_heads", "num_key_value_heads",
                              states_positions(target.family) ? 0 : positions},
              shape);
  shape.intermediate =
      fla ? fla_intermediate(config, shape.hidden) : config.integer("intermediate_size", 1);
  shape.norm_eps = config.positive_or(fla ? "norm_eps" : "rms_norm_eps", 1e-6);
  // Absent means false in Llama configs; ToyNSALlama never ties.
  shape.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  switch (target.family) {
    case ModelFamily::kVersieveNsa:
      read_versieve_nsa(config, target);
      break;
    case ModelFamily::kLlama:
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

}  // namespace

TargetConfig read_target_config(const fs::path& folder, std::int64_t positions_if_absent) {
  const fs::path path = folder / "config.json";
  const nlohmann::json document = read_json_object(path);
  const ConfigFields config(document, path.string());
  TargetConfig target;
  target.family = family_of(config);
  check_unsupported(config);
  check_dtype(config);
  read_family(config, positions_if_absent, target);
  target.shape.name = fs::absolute(folder).lexically_normal().filename().string();
  if (target.shape.name.empty()) {  // the folder was given with a slash at its end
    target.shape.name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  }
  target.special = special_tokens(config, target.shape.vocab);
  return target;
}

}  // namespace versieve::engine
