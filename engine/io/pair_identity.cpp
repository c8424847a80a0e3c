#include "engine/io/pair_identity.h"

#include <algorithm>
#include <vector>

#include "engine/io/input_file.h"
#include "engine/io/model_folder.h"
#include "engine/io/sha256.h"
#include "engine/io/shards.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

// Relative to the pair's folder, in the order of the hash.
std::vector<std::string> files_of_model(const fs::path& folder, const std::string& within) {
  std::vector<std::string> names = {within + "config.json"};
  for (const std::string& weights : weight_file_names(folder / within)) {
    names.push_back(within + weights);
  }
  return names;
}

std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> names = files_of_model(folder, "");
  for (const char* tokenizer : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(folder / tokenizer)) {
      names.emplace_back(tokenizer);
      break;
    }
  }
  if (is_there(folder / "draft")) {
    const std::vector<std::string> draft = files_of_model(folder, "draft/");
    names.insert(names.end(), draft.begin(), draft.end());
  }
  return names;
}

// A name is shown on one line and stands in JSON, CSV and comments of C++.
std::string printable(std::string text) {
  for (char& c : text) {
    c = c > ' ' && c <= '~' && c != '\\' && c != '"' ? c : '-';
  }
  return text;
}

bool has_weights(const fs::path& folder) {
  try {
    weight_file_names(folder);
    return !is_there(folder / "draft") || !weight_file_names(folder / "draft").empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

PairId known_identity(const fs::path& folder) {
  return has_weights(folder) ? pair_identity(folder) : PairId{pair_name(folder), ""};
}

std::string pair_name(const fs::path& folder) {
  const nlohmann::json config = read_json_object(folder / "config.json");
  const auto stated = config.find("_name_or_path");
  if (stated != config.end() && stated->is_string()) {
    const fs::path path(stated->get<std::string>());
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    if (!last.empty() && last != "." && last != "..") {
      return printable(last.string());
    }
  }
  std::error_code ignored;
  fs::path whole = fs::weakly_canonical(folder, ignored);
  whole = whole.has_filename() ? whole : whole.parent_path();
  const std::string name = whole.filename().string();
  const std::string parent = whole.parent_path().filename().string();
  const bool says_little = name == "nsa" || name == "dense" || name == "target" || name == "model";
  return printable(says_little && !parent.empty() ? parent + "-" + name : name);
}

PairId pair_identity(const fs::path& folder) {
  require_model_folder(folder);
  const std::string name = pair_name(folder);
  Sha256 all;
  for (const std::string& file : files_of(folder)) {
    all.add(sha256_of_file(folder / file) + "  " + file + "\n");
  }
  return {name, all.hex()};
}

}  // namespace versieve::engine
