#include "engine/io/config_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace versieve::engine {
namespace {

RopeKind kind_of(const ConfigFields& rope) {
  const std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (rope.text_or("type", type) != type) {
    rope.refuse("rope_type '" + type + "' and type '" + rope.text("type") + "' disagree");
  }
  for (const RopeKind kind :
       {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kLlama3, RopeKind::kYarn}) {
    if (type == name_of(kind)) {
      return kind;
    }
  }
  rope.refuse("the rope_type '" + type +
              "' is not supported; default, linear, llama3 and yarn are");
}

void check_rotary_factor(const ConfigFields& fields) {
  if (fields.has("partial_rotary_factor") && fields.positive("partial_rotary_factor") != 1.0) {
    fields.refuse("partial_rotary_factor is not supported unless it is 1");
  }
}

// Parameters by the kind of layer would be passed over as unknown keys.
void check_one_form(const ConfigFields& rope) {
  for (const auto& [key, value] : rope.items()) {
    if (value.is_object()) {
      rope.refuse("'" + key +
                  "' has parameters of its own, which is not supported: all layers share"
                  " one rotary embedding");
    }
  }
}

// The positions that a scaling starts from: beside the scaling they count before those in it.
double original_positions(const ConfigFields& config, const ConfigFields& rope,
                          std::int64_t max_position) {
  constexpr const char* kKey = "original_max_position_embeddings";
  return static_cast<double>(config.has(kKey) ? config.integer(kKey, 1)
                                              : rope.integer_or(kKey, 1, max_position));
}

void read_llama3(const ConfigFields& rope, RopeScaling& s) {
  s.low_freq_factor = rope.positive("low_freq_factor");
  s.high_freq_factor = rope.positive("high_freq_factor");
  if (s.high_freq_factor <= s.low_freq_factor) {
    rope.refuse("high_freq_factor must be above low_freq_factor");
  }
}

// A 0 counts as absent, as in the libraries that read it.
bool is_stated(const ConfigFields& rope, const char* key) {
  return rope.has(key) && rope.value(key) != 0;
}

// Without a factor of its own the cosines' follows from that of the positions.
void read_yarn(const ConfigFields& rope, std::int64_t max_position, RopeScaling& s) {
  for (const char* key : {"attn_factor", "extrapolation_factor"}) {
    if (rope.has(key) && rope.positive(key) != 1.0) {
      rope.refuse(std::string(key) + " is not supported unless it is 1");
    }
  }
  s.factor = rope.positive_or("factor", static_cast<double>(max_position) / s.original_positions);
  s.beta_fast = rope.positive_or("beta_fast", 32.0);
  s.beta_slow = rope.positive_or("beta_slow", 1.0);
  if (s.beta_fast <= s.beta_slow) {
    rope.refuse("beta_fast must be above beta_slow");
  }
  s.truncates = rope.flag_or("truncate", true);
  s.attention_factor = yarn_attention_factor(s.factor);
  if (rope.has("attention_factor")) {
    s.attention_factor = rope.positive("attention_factor");
  } else if (is_stated(rope, "mscale") && is_stated(rope, "mscale_all_dim")) {
    s.attention_factor = yarn_attention_factor(s.factor, rope.positive("mscale")) /
                         yarn_attention_factor(s.factor, rope.positive("mscale_all_dim"));
  }
}

RopeScaling read_scaling(const ConfigFields& config, const ConfigFields& rope,
                         std::int64_t max_position) {
  RopeScaling s{.kind = kind_of(rope)};
  if (s.kind == RopeKind::kDefault) {
    return s;
  }
  if (s.kind != RopeKind::kLinear) {
    s.original_positions = original_positions(config, rope, max_position);
  }
  if (s.kind == RopeKind::kYarn) {
    read_yarn(rope, max_position, s);
    return s;
  }
  s.factor = rope.positive("factor");
  if (s.kind == RopeKind::kLlama3) {
    read_llama3(rope, s);
  }
  return s;
}

// By which models of other code cap, scale or route what these families compute, and stored weights
// are packed. `off`: the value that asks for nothing, as null and false do of any.
struct ForeignKey {
  const char* key;
  double off;
};
constexpr ForeignKey kForeignKeys[] = {{"attn_logit_softcapping", 0.0},
                                       {"final_logit_softcapping", 0.0},
                                       {"logit_softcap", 0.0},
                                       {"clip_qkv", 0.0},
                                       {"attention_chunk_size", 0.0},
                                       {"embedding_multiplier", 1.0},
                                       {"residual_multiplier", 1.0},
                                       {"logits_scaling", 1.0},
                                       {"logit_scale", 1.0},
                                       {"scale_emb", 1.0},
                                       {"num_experts", 0.0},
                                       {"num_local_experts", 0.0},
                                       {"n_routed_experts", 0.0},
                                       {"kv_lora_rank", 0.0},
                                       {"q_lora_rank", 0.0},
                                       {"quantization", 0.0},
                                       {"compression_config", 0.0},
                                       {"use_bidirectional_attention", 0.0}};

// How much scores are scaled, where that is not by the width of a head.
void check_score_scale(const ConfigFields& config, std::int64_t head_dim) {
  const double width = static_cast<double>(head_dim);
  constexpr double kNear = 1e-6;  // what a decimal text of it leaves
  const auto check = [&](const char* key, double wanted) {
    if (config.has(key) && std::abs(config.positive(key) / wanted - 1.0) > kNear) {
      config.refuse(std::string(key) + " is " + config.value(key).dump() +
                    ", which is not supported: scores are divided by the root of head_dim, " +
                    std::to_string(head_dim));
    }
  };
  check("query_pre_attn_scalar", width);
  check("attention_multiplier", 1.0 / std::sqrt(width));
}

void check_activation(const ConfigFields& config, const char* key) {
  const std::string activation = config.text_or(key, "silu");
  if (activation != "silu" && activation != "swish") {
    config.refuse(std::string(key) + " '" + activation + "' is not supported, only silu is");
  }
}

}  // namespace

void check_dtype(const ConfigFields& config) {
  static const std::set<std::string> known = {"bfloat16", "float16", "float32", "float64",
                                              "half",     "float",   "double",  "auto"};
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string type = config.text_or(key, "auto");
    constexpr std::string_view kModule = "torch.";
    if (known.count(type.starts_with(kModule) ? type.substr(kModule.size()) : type) == 0) {
      config.refuse(std::string(key) + " '" + type +
                    "' is not supported; known are bfloat16, float16, float32 and float64");
    }
  }
}

void check_unsupported(const ConfigFields& config, std::initializer_list<const char*> own) {
  for (const char* flag : {"attention_bias", "mlp_bias", "qkv_bias", "qk_norm", "use_qk_norm",
                           "use_output_gate", "use_mrope", "quantization_config"}) {
    if (std::find_if(own.begin(), own.end(), [flag](const char* each) {
          return std::string_view(each) == flag;
        }) == own.end()) {
      config.refuse_flags({flag});
    }
  }
  check_activation(config, "hidden_act");
}

void check_foreign(const ConfigFields& config, std::int64_t head_dim) {
  for (const ForeignKey& foreign : kForeignKeys) {
    if (config.has(foreign.key) && config.value(foreign.key) != foreign.off) {
      config.refuse_flags({foreign.key});
    }
  }
  if (!config.flag_or("is_causal", true)) {
    config.refuse("is_causal is false, which is not supported: tokens see those before them alone");
  }
  check_activation(config, "hidden_activation");
  check_score_scale(config, head_dim);
}

Rotary read_rotary(const ConfigFields& config, std::int64_t max_position, double theta_if_absent) {
  config.refuse_flags({"rope_interleaved"});
  check_rotary_factor(config);
  constexpr const char* kTheta = "rope_theta";
  std::optional<double> theta;
  std::string stated_by;  // the key that gave it
  const auto take = [&](const ConfigFields& fields, const std::string& by) {
    if (!fields.has(kTheta)) {
      return;
    }
    const double value = fields.positive(kTheta);
    if (theta && *theta != value) {
      config.refuse(by + " " + fields.value(kTheta).dump() + " and " + stated_by + " " +
                    nlohmann::json(*theta).dump() + " disagree");
    }
    theta = value;
    stated_by = by;
  };
  take(config, kTheta);
  Rotary rotary;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (config.has(key)) {
      const ConfigFields rope = config.object(key);
      check_one_form(rope);
      check_rotary_factor(rope);
      take(rope, std::string(key) + "." + kTheta);
      const RopeScaling scaling = read_scaling(config, rope, max_position);
      if (rotary.scaling != RopeScaling{} && scaling != RopeScaling{} &&
          scaling != rotary.scaling) {
        config.refuse("rope_parameters and rope_scaling disagree");
      }
      rotary.scaling = scaling != RopeScaling{} ? scaling : rotary.scaling;
    }
  }
  rotary.theta = theta.value_or(theta_if_absent);
  if (rotary.scaling.kind == RopeKind::kYarn && rotary.theta <= 1.0) {
    config.refuse("rope_theta must be above 1 for yarn");
  }
  return rotary;
}

std::optional<std::int64_t> sliding_window(const ConfigFields& config,
                                           std::optional<std::int64_t> if_absent, bool used) {
  constexpr const char* kWindow = "sliding_window";
  if (!config.flag_or("use_sliding_window", used)) {
    return {};
  }
  if (!config.mentions(kWindow)) {
    return if_absent;
  }
  const bool off = !config.has(kWindow) || config.value(kWindow) == false;
  return off ? std::nullopt : std::optional(config.integer(kWindow, 1));
}

}  // namespace versieve::engine
