// Includes go down only: reads every #include of the project and compares it with the one table of
// who may include whom, with the order within model, engine and gui, and with the rule that kernel
// families form no circle; keeps foreign headers in the folders that own them, and files short.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/paths.h"

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

// The order of rooms within a folder: each may include itself and those before it. A file that lies
// in no room of a folder that has them is an error, but for the folder's own files that are named.
struct Rooms {
  std::string folder;
  std::vector<std::string> order;
};
const std::vector<Rooms> kRooms = {
    {"model", {"words", "launches", "cost", "plan"}},
    {"engine", {"io", "run", "measure", "analyse"}},
    {"gui", {"models", "views", "pages"}},
};

// Headers that stay in one folder: pattern -> folders.
const std::vector<std::pair<std::regex, std::set<std::string>>> kOwned = {
    {std::regex("sqlite3\\.h"), {"db"}},
    {std::regex("cupti.*\\.h"), {"profiler"}},
    {std::regex("nvml\\.h"), {"profiler"}},
    {std::regex("Q[A-Z][A-Za-z]*(/.*)?"), {"gui"}},
    {std::regex("cuda.*\\.h"), {"kernels", "profiler"}},
};

// Headers that take a compiler seconds: each is read by the sources that use it, through one header
// of ours at most, which counts as heavy itself.
const std::map<std::string, std::string> kHeavy = {
    {"Eigen/Dense", "engine/analyse/fit/least_squares.h"},
    {"engine/analyse/fit/least_squares.h", ""},
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

// "engine/run/model/target.h" of folder "engine": "run"; empty for a file of the folder itself.
std::string room_of(const std::string& path, const std::string& folder) {
  const std::size_t begin = folder.size() + 1;
  const std::size_t end = path.find('/', begin);
  return end == std::string::npos ? "" : path.substr(begin, end - begin);
}

// Empty, or what is wrong with an include from one room of a folder to another.
std::string room_complaint(const Include& include) {
  for (const Rooms& rooms : kRooms) {
    if (folder_of(include.file) != rooms.folder || folder_of(include.target) != rooms.folder ||
        include.target.find('/') == std::string::npos) {
      continue;
    }
    const std::string from = room_of(include.file, rooms.folder);
    const std::string to = room_of(include.target, rooms.folder);
    const auto place = [&](const std::string& room) {
      return std::find(rooms.order.begin(), rooms.order.end(), room) - rooms.order.begin();
    };
    const bool composes = from.empty() && rooms.folder == "gui";  // main and the window
    if (!composes && place(to) > place(from)) {
      return include.file + " includes " + include.target + ": within " + rooms.folder + ", " +
             from + " may not look at " + to;
    }
  }
  return {};
}

// kernels: ptx includes no other room, common only ptx; a family does not, through others, include
// itself. The words and the tables of all families see their params alone.
const std::set<std::string> kKernelShelves = {"ptx", "common"};
const std::set<std::string> kTables = {"kernels/ops.h", "kernels/cpu.h", "kernels/launch.h"};

std::string shelf_complaint(const Include& include) {
  if (folder_of(include.file) != "kernels" || include.target.rfind("kernels/", 0) != 0) {
    return {};
  }
  const std::string from = room_of(include.file, "kernels");
  const std::string to = room_of(include.target, "kernels");
  const bool from_ptx_up = from == "ptx" && to != "ptx";
  const bool from_common_up = from == "common" && kKernelShelves.count(to) == 0;
  const bool words_look_in = kTables.count(include.file) == 1 && !to.empty() &&
                             include.target.find("/params.h") == std::string::npos &&
                             kKernelShelves.count(to) == 0;
  return from_ptx_up || from_common_up || words_look_in
             ? include.file + " includes " + include.target + ": kernels go down only"
             : "";
}

// Empty, or the families that include one another in a circle.
std::string family_circle(const std::vector<Include>& all) {
  std::map<std::string, std::set<std::string>> uses;
  for (const Include& include : all) {
    if (folder_of(include.file) != "kernels" || include.target.rfind("kernels/", 0) != 0) {
      continue;
    }
    const std::string from = room_of(include.file, "kernels");
    const std::string to = room_of(include.target, "kernels");
    if (from != to && !from.empty() && !to.empty()) {
      uses[from].insert(to);
    }
  }
  // What is left after all that uses nothing (left) is taken away, again and again.
  for (bool taken = true; taken;) {
    taken = false;
    for (auto family = uses.begin(); family != uses.end();) {
      const bool ends = std::none_of(family->second.begin(), family->second.end(),
                                     [&](const std::string& used) { return uses.count(used); });
      taken = taken || ends;
      family = ends ? uses.erase(family) : std::next(family);
    }
  }
  std::string circle;
  for (const auto& [family, used] : uses) {
    circle += (circle.empty() ? "" : ", ") + family;
  }
  return circle;
}

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
  const auto heavy = kHeavy.find(include.target);
  if (heavy != kHeavy.end() && include.file.ends_with(".h") && include.file != heavy->second) {
    return include.file + " includes " + include.target +
           ", which every file that includes it reads";
  }
  const std::string within = room_complaint(include);
  return within.empty() ? shelf_complaint(include) : within;
}

// Every source of the folders, from the root on.
std::vector<std::string> all_sources() {
  static const std::set<std::string> extensions = {".h", ".cuh", ".cpp", ".cu"};
  std::vector<std::string> all;
  const fs::path root = VERSIEVE_SOURCE_DIR;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (folder == "engine/cli") {
      continue;  // visited with engine
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) != 0) {
        all.push_back(fs::relative(entry.path(), root).generic_string());
      }
    }
  }
  return all;
}

std::vector<Include> all_includes() {
  std::vector<Include> all;
  for (const std::string& file : all_sources()) {
    std::ifstream text(fs::path(VERSIEVE_SOURCE_DIR) / file);
    const std::vector<Include> found = includes_in(file, text);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

// A file answers one question: beyond this it answers several.
constexpr int kMostLines = 500;
const std::set<std::string> kLonger = {
    "kernels/ops.h",       // the words of all families, of which each backend has one
    "kernels/ops_cuda.cu"  // one class: CUDA's member for each of those words
};

// Empty, or what is wrong with a source of so many lines.
std::string length_complaint(const std::string& file, int lines) {
  return lines > kMostLines && kLonger.count(file) == 0
             ? file + " has " + std::to_string(lines) + " lines: cut it by what its parts answer"
             : "";
}

int lines_of(const fs::path& file) {
  std::ifstream text(file);
  int lines = 0;
  for (std::string line; std::getline(text, line);) {
    ++lines;
  }
  return lines;
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

TEST_CASE("a source has 500 lines at most") {
  const std::vector<std::string> all = all_sources();
  REQUIRE(all.size() > 100);
  for (const std::string& file : all) {
    const std::string sentence =
        length_complaint(file, lines_of(fs::path(VERSIEVE_SOURCE_DIR) / file));
    if (!sentence.empty()) {
      FAIL_CHECK(sentence);
    }
  }
  CHECK(length_complaint("engine/cli/main.cpp", kMostLines).empty());
  CHECK(length_complaint("engine/cli/main.cpp", kMostLines + 1) ==
        "engine/cli/main.cpp has 501 lines: cut it by what its parts answer");
}

TEST_CASE("a test has 500 lines at most") {
  int seen = 0;
  const fs::path root = VERSIEVE_SOURCE_DIR;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "tests")) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".cpp" || ending == ".h" || ending == ".cu" || ending == ".cuh") {
      seen += 1;
      const std::string sentence = length_complaint(
          fs::relative(entry.path(), root).generic_string(), lines_of(entry.path()));
      if (!sentence.empty()) {
        FAIL_CHECK(sentence);
      }
    }
  }
  CHECK(seen > 200);
}

TEST_CASE("every file of a folder with rooms lies in one of them") {
  for (const Rooms& rooms : kRooms) {
    std::set<std::string> allowed(rooms.order.begin(), rooms.order.end());
    if (rooms.folder == "engine") {
      allowed.insert({"cli", "demo"});
    } else if (rooms.folder == "gui") {
      allowed.insert("package");
    }
    for (const fs::directory_entry& entry :
         fs::directory_iterator(fs::path(VERSIEVE_SOURCE_DIR) / rooms.folder)) {
      const std::string name = entry.path().filename().string();
      CAPTURE(rooms.folder, name);
      const bool own_file = entry.path().extension() != ".h" && entry.path().extension() != ".cpp";
      CHECK((entry.is_directory() ? allowed.count(name) == 1 : own_file || rooms.folder == "gui"));
    }
  }
}

TEST_CASE("kernel families include one another in no circle") {
  CHECK(family_circle(all_includes()) == "");
  CHECK(family_circle({{"kernels/linear/cpu.h", "kernels/rope/cpu.h"},
                       {"kernels/rope/cpu.h", "kernels/topk/cpu.h"},
                       {"kernels/topk/cpu.h", "kernels/linear/cpu.h"},
                       {"kernels/embed/cpu.h", "kernels/rope/cpu.h"}}) ==
        "embed, linear, rope, topk");
  CHECK(family_circle({{"kernels/linear/cpu.h", "kernels/rope/cpu.h"},
                       {"kernels/embed/cpu.h", "kernels/rope/cpu.h"}}) == "");
}

TEST_CASE("planted violations of the order within a folder are noticed") {
  CHECK(!complaint({"model/words/strategy.cpp", "model/launches/launch_work.h"}).empty());
  CHECK(!complaint({"model/launches/fused_cut.cpp", "model/cost/cost_model.h"}).empty());
  CHECK(!complaint({"model/cost/cost_model.cpp", "model/plan/planner.h"}).empty());
  CHECK(complaint({"model/plan/planner.cpp", "model/words/error.h"}).empty());
  CHECK(!complaint({"engine/io/shards.cpp", "engine/run/model/target.h"}).empty());
  CHECK(!complaint({"engine/run/speculate/step.cpp", "engine/measure/sweep/sweep.h"}).empty());
  CHECK(!complaint({"engine/measure/bench/step_bench.cpp", "engine/analyse/fit/validation.h"})
             .empty());
  CHECK(complaint({"engine/analyse/sim/validation.cpp", "engine/measure/sweep/sweep.h"}).empty());
  CHECK(!complaint({"gui/models/point_table.cpp", "gui/pages/points_page.h"}).empty());
  CHECK(!complaint({"kernels/ptx/mma.cuh", "kernels/common/element.h"}).empty());
  CHECK(!complaint({"kernels/common/element.h", "kernels/linear/cpu.h"}).empty());
  CHECK(!complaint({"kernels/ops.h", "kernels/linear/launch.h"}).empty());
  CHECK(!complaint({"kernels/launch.h", "kernels/linear/stream.h"}).empty());
  CHECK(complaint({"kernels/ops.h", "kernels/topk/params.h"}).empty());
}

TEST_CASE("planted upward and foreign includes are noticed") {
  CHECK(!complaint({"engine/run/speculate/generate.cpp", "db/store.h"}).empty());
  CHECK(!complaint({"kernels/linear/cpu.cpp", "engine/io/safetensors.h"}).empty());
  CHECK(!complaint({"profiler/self_check.cpp", "kernels/ops.h"}).empty());
  CHECK(!complaint({"model/words/strategy.cpp", "cuda_runtime.h"}).empty());
  CHECK(!complaint({"engine/cli/main.cpp", "sqlite3.h"}).empty());
  CHECK(!complaint({"gui/main.cpp", "kernels/ops.h"}).empty());
  CHECK(complaint({"engine/cli/command_fit.cpp", "db/store.h"}).empty());
  CHECK(complaint({"gui/main.cpp", "QApplication"}).empty());
}

TEST_CASE("a planted header that hands on what takes seconds to read is noticed") {
  CHECK(!complaint({"engine/analyse/fit/cost_search.h", "engine/analyse/fit/least_squares.h"})
             .empty());
  CHECK(!complaint({"engine/analyse/fit/predictor.h", "Eigen/Dense"}).empty());
  CHECK(complaint({"engine/analyse/fit/least_squares.h", "Eigen/Dense"}).empty());
  CHECK(complaint({"engine/analyse/fit/cost_search.cpp", "engine/analyse/fit/least_squares.h"})
            .empty());
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
