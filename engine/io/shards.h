// The weights of a model directory: one model.safetensors, or shards named by
// model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace versieve::engine {

struct WeightFiles {
  std::vector<SafetensorsFile> files;         // keep the views alive
  std::map<std::string, TensorView> tensors;  // names as in the files
};
// Throws Error(kBadInput): no weights, a name that is mapped but not in its shard, in a shard but
// not mapped, or in two shards, or a file name that leaves the directory.
WeightFiles read_weights(const std::filesystem::path& folder);

}  // namespace versieve::engine
