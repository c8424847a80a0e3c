#include "engine/io/shipped_data.h"

#include <cstdlib>

#include "model/words/error.h"

namespace fs = std::filesystem;

namespace versieve::engine {
namespace {

constexpr const char* kVariable = "VERSIEVE_DATA";
constexpr const char* kCheckoutHas = "CMakePresets.json";  // and hardly any other folder
constexpr int kLevels = 6;  // above the executable: build/PRESET/bin and a folder or two more

std::optional<fs::path> inside(const fs::path& root, const std::string& name) {
  std::error_code ignored;
  const fs::path path = root / name;
  return fs::exists(path, ignored) ? std::optional(path) : std::nullopt;
}

fs::path executable_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::optional<fs::path> data_beside(const fs::path& executable_folder, const char* chosen,
                                    const fs::path& source, const std::string& name) {
  if (chosen != nullptr && *chosen != '\0') {
    return inside(chosen, name);
  }
  fs::path folder = executable_folder;
  for (int level = 0; level < kLevels; ++level, folder = folder.parent_path()) {
    if (inside(folder, kCheckoutHas)) {
      if (const std::optional<fs::path> found = inside(folder, name)) {
        return found;
      }
    }
  }
  const fs::path installed = executable_folder.parent_path() / "share" / "versieve";
  const std::optional<fs::path> found = inside(installed, name);
  return found ? found : inside(source, name);
}

std::optional<fs::path> try_shipped_data(const std::string& name) {
  return data_beside(executable_folder(), std::getenv(kVariable), VERSIEVE_SOURCE_DIR, name);
}

fs::path shipped_data(const std::string& name) {
  if (const std::optional<fs::path> found = try_shipped_data(name)) {
    return *found;
  }
  const char* const chosen = std::getenv(kVariable);
  const std::string reason =
      chosen != nullptr && *chosen != '\0'
          ? "is not in " + std::string(chosen) + ", the folder that VERSIEVE_DATA names"
          : "is neither in a checkout above " + executable_folder().string() +
                " nor in share/versieve beside it (VERSIEVE_DATA can name another folder)";
  throw Error(ExitCode::kEnvironment, name + ", which ships with versieve, " + reason);
}

}  // namespace versieve::engine
