#include "engine/io/folder_files.h"

#include <algorithm>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

// "2 folders (a, b)"; empty of none.
std::string counted(std::vector<std::string> names, const std::string& kind) {
  constexpr std::size_t kNamed = 3;
  if (names.empty()) {
    return {};
  }
  std::sort(names.begin(), names.end());
  std::string text = std::to_string(names.size()) + " " + kind + (names.size() > 1 ? "s (" : " (");
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  return text + (names.size() > kNamed ? ", ...)" : ")");
}

}  // namespace

FolderFiles folder_files(const fs::path& folder, const std::function<bool(const fs::path&)>& takes,
                         const std::vector<std::string>& known) {
  FolderFiles out;
  std::vector<std::string> folders, files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".")) {
      continue;
    }
    if (entry->is_directory(ignored)) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        folders.push_back(name);
      }
    } else if (entry->is_regular_file(ignored) && (!takes || takes(entry->path()))) {
      out.taken.push_back(entry->path());
    } else {
      files.push_back(name);
    }
  }
  if (error) {
    throw Error(ExitCode::kBadInput,
                folder.string() + ": the folder cannot be read: " + error.message());
  }
  std::sort(out.taken.begin(), out.taken.end());
  const std::string other = counted(files, "file");
  out.passed_over = counted(folders, "folder");
  out.passed_over += (out.passed_over.empty() || other.empty() ? "" : " and ") + other;
  return out;
}

}  // namespace versieve::engine
