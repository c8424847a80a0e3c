#include "engine/io/layer_map_file.h"

#include <nlohmann/json.hpp>

#include "engine/io/config_fields.h"
#include "engine/io/strict_json.h"

namespace versieve::engine {

bool has_layer_map(const std::filesystem::path& model) {
  std::error_code ignored;
  return std::filesystem::exists(model / kLayerMapFile, ignored);
}

LayerMap read_layer_map(const std::filesystem::path& model, const LlmShape& target,
                        std::int64_t draft_layers) {
  const std::filesystem::path path = model / kLayerMapFile;
  const nlohmann::json document = read_json_object(path);
  const ConfigFields file(document, path.string());
  if (file.text("format") != "versieve layer map" || file.integer("schema", 1) != kLayerMapSchema) {
    file.refuse("this is no layer map of schema " + std::to_string(kLayerMapSchema));
  }
  const nlohmann::json& entries = file.has("map") ? file.value("map") : nlohmann::json();
  if (!entries.is_array() || static_cast<std::int64_t>(entries.size()) != target.layers) {
    file.refuse("map must be one draft layer for each of the target's " +
                std::to_string(target.layers) + " layers");
  }
  LayerMap map;
  for (const nlohmann::json& entry : entries) {
    const bool number = entry.is_number_integer() && entry.get<std::int64_t>() >= 0 &&
                        entry.get<std::int64_t>() < draft_layers;
    if (!number ||
        (!map.draft_layer.empty() && entry.get<std::int32_t>() < map.draft_layer.back())) {
      file.refuse("map must not fall and stay below the draft's " + std::to_string(draft_layers) +
                  " layers");
    }
    map.draft_layer.push_back(entry.get<std::int32_t>());
  }
  return map;
}

}  // namespace versieve::engine
