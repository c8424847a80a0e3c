// Includes go down only: reads every #include of the project and compares it with the one table of
// who may include whom; and keeps foreign headers in the folders that own them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

// engine/cli is a folder of its own: there, and in the app, engine and db meet.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"model", {"model"}},
    {"kernels", {"kernels", "model"}},
    {"profiler", {"profiler", "model"}},
    {"db", {"db", "model"}},
    {"engine", {"engine", "model", "kernels", "profiler"}},
    {"engine/cli", {"engine/cli", "engine", "db", "model", "kernels", "profiler"}},
    {"gui", {"gui", "engine", "db", "model"}},
};

// Headers that stay in one folder: pattern -> folders.
const std::vector<std::pair<std::regex, std::set<std::string>>> kOwned = {
    {std::regex("sqlite3\\.h"), {"db"}},
    {std::regex("cupti.*\\.h"), {"profiler"}},
    {std::regex("nvml\\.h"), {"profiler"}},
    {std::regex("Q[A-Z][A-Za-z]*(/.*)?"), {"gui"}},
    {std::regex("cuda.*\\.h"), {"kernels", "profiler"}},
};

std::string folder_of(const std::string& path) {
  if (path.rfind("engine/cli/", 0) == 0) {
    return "engine/cli";
  }
  return path.substr(0, path.find('/'));
}

struct Include {
  std::string file;
  std::string target;
};

std::vector<Include> includes_in(const std::string& file, std::istream& text) {
  static const std::regex line_form("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  std::vector<Include> found;
  std::string line;
  std::smatch match;
  while (std::getline(text, line)) {
    if (std::regex_search(line, match, line_form)) {
      found.push_back({file, match[1]});
    }
  }
  return found;
}

// Empty, or the sentence that says what is wrong with this include.
std::string complaint(const Include& include) {
  const std::string from = folder_of(include.file);
  const std::string to = folder_of(include.target);
  if (kMayInclude.count(to) != 0 && include.target.find('/') != std::string::npos &&
      kMayInclude.at(from).count(to) == 0) {
    return include.file + " includes " + include.target + ": " + from + " may not look at " + to;
  }
  for (const auto& [pattern, folders] : kOwned) {
    if (std::regex_match(include.target, pattern) && folders.count(from) == 0) {
      return include.file + " includes " + include.target + ", which belongs to another folder";
    }
  }
  return {};
}

std::vector<Include> all_includes() {
  static const std::set<std::string> extensions = {".h", ".cuh", ".cpp", ".cu"};
  std::vector<Include> all;
  const fs::path root = VERSIEVE_SOURCE_DIR;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (folder == "engine/cli") {
      continue;  // visited with engine
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) != 0) {
        std::ifstream text(entry.path());
        const std::vector<Include> found =
            includes_in(fs::relative(entry.path(), root).generic_string(), text);
        all.insert(all.end(), found.begin(), found.end());
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("every include goes down the one table of folders") {
  const std::vector<Include> all = all_includes();
  REQUIRE(all.size() > 100);  // the walk really saw the project
  for (const Include& include : all) {
    const std::string sentence = complaint(include);
    if (!sentence.empty()) {
      FAIL_CHECK(sentence);
    }
  }
}

TEST_CASE("planted upward and foreign includes are noticed") {
  CHECK(!complaint({"engine/speculate/generate.cpp", "db/store.h"}).empty());
  CHECK(!complaint({"kernels/linear/cpu.cpp", "engine/io/safetensors.h"}).empty());
  CHECK(!complaint({"profiler/self_check.cpp", "kernels/ops.h"}).empty());
  CHECK(!complaint({"model/strategy.cpp", "cuda_runtime.h"}).empty());
  CHECK(!complaint({"engine/cli/main.cpp", "sqlite3.h"}).empty());
  CHECK(!complaint({"gui/main.cpp", "kernels/ops.h"}).empty());
  CHECK(complaint({"engine/cli/command_fit.cpp", "db/store.h"}).empty());
  CHECK(complaint({"gui/main.cpp", "QApplication"}).empty());
}

TEST_CASE("the top level holds what the design fixes and nothing else") {
  const std::set<std::string> fixed = {
      "CMakeLists.txt", "engine",    "kernels",           "model", "profiler", "gui",  "db",
      "tests",          "README.md", "CMakePresets.json", "run",   "LICENSE",  "build"};
  for (const fs::directory_entry& entry : fs::directory_iterator(VERSIEVE_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.') {
      CAPTURE(name);
      CHECK(fixed.count(name) == 1);
    }
  }
}
