#include "engine/io/config_checks.h"

#include <set>
#include <string_view>

namespace versieve::engine {
namespace {

// A rope object may say only "default"; scaling changes every angle and is refused.
void check_rope_type(const ConfigFields& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (rope.has(key) && rope.text(key) != "default") {
      rope.refuse("the " + std::string(key) + " '" + rope.text(key) +
                  "' is not supported, only default is");
    }
  }
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

void check_unsupported(const ConfigFields& config) {
  config.refuse_flags({"attention_bias", "mlp_bias", "qkv_bias", "qk_norm", "use_qk_norm",
                       "use_output_gate", "quantization_config"});
  const std::string activation = config.text_or("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    config.refuse("hidden_act '" + activation + "' is not supported, only silu is");
  }
}

double rope_theta(const ConfigFields& config) {
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
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (config.has(key)) {
      const ConfigFields rope = config.object(key);
      check_one_form(rope);
      check_rope_type(rope);
      check_rotary_factor(rope);
      take(rope, std::string(key) + "." + kTheta);
    }
  }
  return theta.value_or(10000.0);
}

std::optional<std::int64_t> sliding_window(const ConfigFields& config) {
  constexpr const char* kWindow = "sliding_window";
  const bool off = !config.flag_or("use_sliding_window", true) || !config.has(kWindow) ||
                   config.value(kWindow) == false;
  return off ? std::nullopt : std::optional(config.integer(kWindow, 1));
}

}  // namespace versieve::engine
