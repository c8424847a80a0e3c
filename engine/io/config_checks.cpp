#include "engine/io/config_checks.h"

#include <set>

namespace versieve::engine {
namespace {

// A rope object may say only "default"; scaling changes every angle and is refused.
void check_rope_type(const ConfigFields& rope) {
  const std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (type != "default") {
    rope.refuse("the rope_type '" + type + "' is not supported, only default is");
  }
}

}  // namespace

void check_dtype(const ConfigFields& config) {
  const char* key = config.has("dtype") ? "dtype" : "torch_dtype";
  static const std::set<std::string> known = {"bfloat16", "float16", "float32", "float64"};
  if (config.has(key) && known.count(config.text(key)) == 0) {
    config.refuse(std::string(key) + " '" + config.text(key) +
                  "' is not supported; known are bfloat16, float16, float32 and float64");
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
  if (config.has("rope_scaling")) {
    check_rope_type(config.object("rope_scaling"));
  }
  config.refuse_flags({"rope_interleaved"});
  if (config.has("partial_rotary_factor") && config.positive("partial_rotary_factor") != 1.0) {
    config.refuse("partial_rotary_factor is not supported unless it is 1");
  }
  if (!config.has("rope_parameters")) {
    return config.positive_or("rope_theta", 10000.0);
  }
  const ConfigFields rope = config.object("rope_parameters");
  check_rope_type(rope);
  if (rope.has("partial_rotary_factor") && rope.positive("partial_rotary_factor") != 1.0) {
    rope.refuse("partial_rotary_factor is not supported unless it is 1");
  }
  const double theta = rope.positive("rope_theta");
  if (config.has("rope_theta") && config.positive("rope_theta") != theta) {
    config.refuse("rope_theta and rope_parameters disagree");
  }
  return theta;
}

}  // namespace versieve::engine
