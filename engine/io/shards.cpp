#include "engine/io/shards.h"

#include <algorithm>
#include <string_view>

#include "engine/io/config_fields.h"
#include "engine/io/input_file.h"
#include "engine/io/names.h"
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

// The total is a note to the reader: the shards' own headers say what each holds, byte for byte.
std::string total_size_remark(const nlohmann::json& index, const WeightFiles& weights,
                              const fs::path& path) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object() || !metadata->contains("total_size")) {
    return {};
  }
  std::int64_t bytes = 0;
  for (const auto& [name, view] : weights.tensors) {
    bytes += static_cast<std::int64_t>(view.bytes.size());
  }
  const nlohmann::json& total = (*metadata)["total_size"];
  if (whole_number(total) == bytes) {
    return {};
  }
  return path.string() + ": says total_size " + total.dump() + ", but the shards hold " +
         std::to_string(bytes) + " bytes; they were read as they are";
}

// The shards that an index names, each with one tensor that it is to hold.
std::map<std::string, std::string> shard_names(const std::map<std::string, std::string>& map) {
  std::map<std::string, std::string> names;
  for (const auto& [tensor, file] : map) {
    names.emplace(file, tensor);
  }
  return names;
}

WeightFiles read_shards(const fs::path& folder) {
  const fs::path path = folder / kIndex;
  const nlohmann::json index = read_json_object(path);
  const std::map<std::string, std::string> map = weight_map(index, path);
  const std::map<std::string, std::string> names = shard_names(map);
  for (const auto& [name, first] : names) {  // before gigabytes of the others are read
    if (!is_there(folder / name)) {
      refuse(path, "maps tensor '" + first + "' to " + name + ", which is not there");
    }
  }
  WeightFiles weights;
  for (const auto& [name, first] : names) {
    add_file(weights, SafetensorsFile::read(folder / name));
    for (const auto& [tensor, view] : weights.files.back().tensors()) {
      const auto mapped = map.find(tensor);
      if ((mapped == map.end() && !is_buffer(tensor, view)) ||
          (mapped != map.end() && mapped->second != name)) {
        refuse(path, "does not map tensor '" + tensor + "' to " + name + ", where it stands");
      }
    }
  }
  for (const auto& [tensor, file] : map) {
    if (weights.tensors.count(tensor) == 0) {
      refuse(path, "maps tensor '" + tensor + "' to " + file + ", which does not hold it");
    }
  }
  if (std::string remark = total_size_remark(index, weights, path); !remark.empty()) {
    weights.remarks.push_back(std::move(remark));
  }
  return weights;
}

// Files that a writer named by himself and no index lists: all of them make the model. Weights of
// another kind, which some folders hold beside, are passed over.
std::set<std::string> unlisted_files(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors" && !name.starts_with("adapter") &&
        !name.starts_with("consolidated")) {
      names.insert(name);
    }
  }
  return names;
}

// "model-00002-of-00003.safetensors" says how many there are: none may be missing.
void check_numbers(const fs::path& folder, const std::set<std::string>& names) {
  constexpr std::string_view kEnd = ".safetensors";
  for (const std::string& name : names) {
    const std::size_t of = name.rfind("-of-");
    const std::size_t number = of == std::string::npos ? of : name.rfind('-', of - 1);
    if (number == std::string::npos) {
      continue;
    }
    const std::string digits = name.substr(of + 4, name.size() - kEnd.size() - of - 4);
    const std::size_t width = of - number - 1;
    if (digits.empty() || digits.size() > 5 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    for (int i = 1; i <= std::stoi(digits); ++i) {
      const std::string count = std::to_string(i);
      const std::string other = name.substr(0, number + 1) +
                                std::string(width - std::min(width, count.size()), '0') + count +
                                name.substr(of);
      if (names.count(other) == 0) {
        refuse(folder, "holds " + name + ", but not " + other);
      }
    }
  }
}

WeightFiles read_unlisted(const fs::path& folder, const std::set<std::string>& names) {
  check_numbers(folder, names);
  WeightFiles weights;
  std::string listed;
  for (const std::string& name : names) {
    add_file(weights, SafetensorsFile::read(folder / name));
    listed += (listed.empty() ? "" : ", ") + name;
  }
  weights.remarks.push_back(folder.string() + ": has no " + kIndex + "; read was " + listed);
  return weights;
}

// Of another format, as a folder that was written for another program may hold.
std::string other_weights(const fs::path& folder) {
  static const std::set<std::string> endings = {".bin",  ".pth",  ".pt",  ".ckpt",       ".gguf",
                                                ".ggml", ".onnx", ".npz", ".safetensors"};
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (endings.count(entry.path().extension().string()) != 0) {
      names.insert(entry.path().filename().string());
    }
  }
  for (const std::string& name : names) {  // not an optimiser's, if a model's is there
    if (name.find("model") != std::string::npos || name.starts_with("consolidated")) {
      return name;
    }
  }
  return names.empty() ? "" : *names.begin();
}

[[noreturn]] void refuse_without_weights(const fs::path& folder) {
  const std::string other = other_weights(folder);
  refuse(folder, std::string("holds neither ") + kSingle + " nor " + kIndex +
                     (other.empty() ? "" : ", and " + other + " is not read"));
}

}  // namespace

WeightFiles read_weights(const fs::path& folder) {
  if (is_there(folder / kIndex)) {
    return read_shards(folder);
  }
  if (!is_there(folder / kSingle)) {
    const std::set<std::string> names = unlisted_files(folder);
    if (names.empty()) {
      refuse_without_weights(folder);
    }
    return read_unlisted(folder, names);
  }
  WeightFiles weights;
  add_file(weights, SafetensorsFile::read(folder / kSingle));
  return weights;
}

std::vector<std::string> weight_file_names(const fs::path& folder) {
  std::vector<std::string> files;
  if (is_there(folder / kIndex)) {
    for (const auto& [name, first] :
         shard_names(weight_map(read_json_object(folder / kIndex), folder / kIndex))) {
      files.push_back(name);
    }
  } else if (is_there(folder / kSingle)) {
    files.emplace_back(kSingle);
  } else {
    const std::set<std::string> names = unlisted_files(folder);
    files.assign(names.begin(), names.end());
  }
  if (files.empty()) {
    refuse_without_weights(folder);
  }
  return files;
}

std::set<std::string> stored_names(const fs::path& folder) {
  std::set<std::string> names;
  if (is_there(folder / kIndex)) {
    for (const auto& [tensor, file] :
         weight_map(read_json_object(folder / kIndex), folder / kIndex)) {
      names.insert(tensor);
    }
  } else {
    const bool single = is_there(folder / kSingle);
    for (const std::string& name :
         single ? std::set<std::string>{kSingle} : unlisted_files(folder)) {
      const SafetensorsFile file = SafetensorsFile::read(folder / name);
      for (const auto& [tensor, view] : file.tensors()) {
        names.insert(tensor);
      }
    }
  }
  return names;
}

}  // namespace versieve::engine
