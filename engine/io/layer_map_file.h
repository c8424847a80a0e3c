// The layer map that is kept with a model (layer_map.json beside its config.json): which draft
// layer's attention chooses the tokens of each target layer, and what it was made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/words/llm_shape.h"

namespace versieve::engine {

inline constexpr std::int64_t kLayerMapSchema = 1;
inline constexpr const char* kLayerMapFile = "layer_map.json";

struct LayerMap {
  std::vector<std::int32_t> draft_layer;  // [target layers], non-decreasing
  double score = 0.0;                     // sum of the similarities taken
  // [draft layers][target layers]: mean over positions of -KL(target || draft), nats.
  std::vector<std::vector<double>> similarity;
};

// Throws Error(kBadInput): no file, or one that is no map of a target of that shape and a draft of
// that many layers.
LayerMap read_layer_map(const std::filesystem::path& model, const LlmShape& target,
                        std::int64_t draft_layers);
bool has_layer_map(const std::filesystem::path& model);

}  // namespace versieve::engine
