#include "engine/io/shards.h"

#include <set>

#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::kBadInput, file.string() + ": " + what);
}

void add_file(WeightFiles& weights, SafetensorsFile file) {
  for (const auto& [name, view] : file.tensors()) {
    if (!weights.tensors.emplace(name, view).second) {
      throw Error(ExitCode::kBadInput,
                  file.source() + ": tensor '" + name + "' stands in an earlier shard too");
    }
  }
  weights.files.push_back(std::move(file));
}

// The file names of the index; each stays in the directory.
std::map<std::string, std::string> weight_map(const nlohmann::json& index, const fs::path& path) {
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    refuse(path, "has no weight_map");
  }
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : index["weight_map"].items()) {
    if (!value.is_string()) {
      refuse(path, "maps '" + name + "' to something that is no file name");
    }
    const std::string file = value.get<std::string>();
    if (file.empty() || file == "." || file.find_first_of("/\\") != std::string::npos ||
        file.find("..") != std::string::npos || file.find('\0') != std::string::npos) {
      refuse(path, "maps '" + name + "' to '" + file + "', which is no plain file name");
    }
    map[name] = file;
  }
  return map;
}

void check_total_size(const nlohmann::json& index, const WeightFiles& weights,
                      const fs::path& path) {
  if (!index.contains("metadata")) {
    return;
  }
  const nlohmann::json& metadata = index["metadata"];
  if (!metadata.is_object()) {
    refuse(path, "has a metadata entry that is no object");
  }
  if (!metadata.contains("total_size")) {
    return;
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : weights.tensors) {
    bytes += view.bytes.size();
  }
  if (!metadata["total_size"].is_number_integer() ||
      metadata["total_size"].get<std::int64_t>() != static_cast<std::int64_t>(bytes)) {
    refuse(path, "says total_size " + metadata["total_size"].dump() + ", but the shards hold " +
                     std::to_string(bytes) + " bytes");
  }
}

WeightFiles read_shards(const fs::path& folder) {
  const fs::path path = folder / kIndex;
  const nlohmann::json index = read_json_object(path);
  const std::map<std::string, std::string> map = weight_map(index, path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) {
    names.insert(file);
  }
  WeightFiles weights;
  for (const std::string& name : names) {
    add_file(weights, SafetensorsFile::read(folder / name));
    for (const auto& [tensor, view] : weights.files.back().tensors()) {
      const auto mapped = map.find(tensor);
      if (mapped == map.end() || mapped->second != name) {
        refuse(path, "does not map tensor '" + tensor + "' to " + name + ", where it stands");
      }
    }
  }
  for (const auto& [tensor, file] : map) {
    if (weights.tensors.count(tensor) == 0) {
      refuse(path, "maps tensor '" + tensor + "' to " + file + ", which does not hold it");
    }
  }
  check_total_size(index, weights, path);
  return weights;
}

}  // namespace

WeightFiles read_weights(const fs::path& folder) {
  if (fs::exists(folder / kIndex)) {
    return read_shards(folder);
  }
  if (!fs::exists(folder / kSingle)) {
    refuse(folder, std::string("holds neither ") + kSingle + " nor " + kIndex);
  }
  WeightFiles weights;
  add_file(weights, SafetensorsFile::read(folder / kSingle));
  return weights;
}

}  // namespace versieve::engine
