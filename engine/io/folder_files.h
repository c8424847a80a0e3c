// The files that a reader of a folder takes, and what it passes over, so that nobody believes the
// rest to have been read.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace versieve::engine {

struct FolderFiles {
  std::vector<std::filesystem::path> taken;  // regular files in the order of their names
  // "2 folders (a, b) and 1 file (c)"; empty: nothing. Hidden entries are not told.
  std::string passed_over;
};

// Of the regular files that are not hidden those that `takes` (all, if it is none); `known`: names
// of folders that are read otherwise. Throws Error(kBadInput) where the folder cannot be read.
FolderFiles folder_files(const std::filesystem::path& folder,
                         const std::function<bool(const std::filesystem::path&)>& takes = {},
                         const std::vector<std::string>& known = {});

}  // namespace versieve::engine
