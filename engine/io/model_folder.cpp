#include "engine/io/model_folder.h"

#include <fstream>
#include <set>
#include <string>

#include "engine/io/input_file.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json";
constexpr char kWanted[] = "a folder with config.json and safetensors is read";

bool is_gguf(const fs::path& path) {
  constexpr std::string_view kMagic = "GGUF";
  std::string begin(kMagic.size(), '\0');
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) &&
         std::ifstream(path, std::ios::binary)
             .read(begin.data(), static_cast<std::streamsize>(begin.size())) &&
         begin == kMagic;
}

// What a file is that was given in its folder's place.
std::string form_of_file(const fs::path& path) {
  if (is_gguf(path)) {
    return std::string("it is a GGUF file, and ") + kWanted;
  }
  const std::string name = path.filename().string();
  if (name == kConfig || path.extension() == ".safetensors") {
    return "give the folder that holds it";
  }
  return "";
}

// What a folder without a config.json holds.
std::string form_of_folder(const fs::path& folder) {
  if (is_there(folder / "adapter_config.json")) {
    return "it holds an adapter, which has to be merged into its model first";
  }
  if (is_there(folder / "params.json")) {
    return "it holds params.json, as weights of the original form do, and " + std::string(kWanted);
  }
  std::set<std::string> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (is_gguf(entry.path())) {
      files.insert(entry.path().filename().string());
    }
  }
  return files.empty() ? std::string("it holds no config.json")
                       : "it holds the GGUF file " + *files.begin() + ", and " + kWanted;
}

}  // namespace

void require_model_folder(const fs::path& folder, const char* whose) {
  std::error_code unreadable;
  const bool is_read = is_folder(folder);
  if (is_read && (is_there(folder / kConfig) ||
                  fs::directory_iterator(folder, unreadable) == fs::directory_iterator())) {
    return;  // a config.json that cannot be read, or a closed folder, is said by whoever reads it
  }
  const std::string form = is_read ? form_of_folder(folder) : form_of_file(folder);
  throw Error(ExitCode::kBadInput, folder.string() + " is not " + whose + " model directory" +
                                       (form.empty() ? "" : ": " + form));
}

}  // namespace versieve::engine
