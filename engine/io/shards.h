// The weights of a model directory: shards named by model.safetensors.index.json, one
// model.safetensors, or without either all files of the format that there are.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace versieve::engine {

struct WeightFiles {
  std::vector<SafetensorsFile> files;         // keep the views alive
  std::map<std::string, TensorView> tensors;  // names as in the files
  std::vector<std::string> remarks;           // what was odd and did no harm, a sentence each
};
// Throws Error(kBadInput): no weights, a shard that is not there, a name that is mapped but not in
// its shard, in a shard but not mapped (buffers may be), or in two shards, or a file name that
// leaves the directory. An index's total_size decides nothing.
WeightFiles read_weights(const std::filesystem::path& folder);
// The files that it reads, by name. Throws Error(kBadInput): no weights, or an index that names
// none.
std::vector<std::string> weight_file_names(const std::filesystem::path& folder);
// Of tensors; none where there are no weights.
std::set<std::string> stored_names(const std::filesystem::path& folder);

}  // namespace versieve::engine
