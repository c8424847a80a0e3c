// A page names only files that exist: every path in code marks or a link of a README or another
// page, and every path in a comment of the sources, is a file or folder of the project, seen from
// the page's own folder or from one above it. A bare name is that of a file somewhere.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace fs = std::filesystem;

namespace {

const std::array<const char*, 7> kFolders = {"engine", "kernels", "model", "profiler",
                                             "gui",    "db",      "tests"};
const std::array<const char*, 9> kSources = {".md", ".h",  ".cuh", ".cpp", ".cu",
                                             ".py", ".sh", ".sql", ".in"};
// Of others: SQLite's header, SGLang's benchmark; and forms of names.
const std::set<std::string> kForeign = {"sqlite3.h", "bench_speculative.py", "schema/000N_what.sql",
                                        "tests/data/schema_vN.db"};

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// Every file and folder of the project, from the root.
struct Tree {
  std::set<std::string> paths;
  std::set<std::string> names;

  void add(const std::string& path) {
    paths.insert(path);
    names.insert(path.substr(path.rfind('/') + 1));
  }
};

Tree project() {
  Tree tree;
  const fs::path root = VERSIEVE_SOURCE_DIR;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    tree.add(entry.path().filename().string());
  }
  for (const char* folder : kFolders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      tree.add(fs::relative(entry.path(), root).generic_string());
    }
  }
  return tree;
}

bool ends_as_a_source(const std::string& name) {
  return std::any_of(kSources.begin(), kSources.end(), [&](const std::string& end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  });
}

// The beginning of a strategy's text, such as nsa/d6k8n64/bfs/, or of a fraction.
bool is_no_folder(const std::string& name) {
  return name.rfind("nsa/", 0) == 0 || name.rfind("dense/", 0) == 0 ||
         name.find_first_not_of("0123456789/") == std::string::npos;
}

bool is_under_a_folder(const std::string& name) {
  const std::string first = name.substr(0, name.find('/'));
  return first == ".." || std::find(kFolders.begin(), kFolders.end(), first) != kFolders.end();
}

// Does it claim to be a file or folder of the project? Names of outputs (table.json), strategies
// (nsa/ar), patterns and absolute paths claim nothing.
bool claims(const std::string& name) {
  const bool plain = !name.empty() && name[0] != '/' && name[0] != '.' &&
                     name.find_first_of("*{}<>$") == std::string::npos;
  const bool up = name.rfind("../", 0) == 0;
  const bool path = name.find('/') != std::string::npos;
  return (plain || up) && kForeign.count(name) == 0 &&
         (ends_as_a_source(name) ||
          (path && (is_under_a_folder(name) || (name.back() == '/' && !is_no_folder(name)))));
}

// Is it there, seen from the file's folder or one above it? `engine/io/names` stands for its files.
bool exists(const Tree& tree, const std::string& file, std::string name) {
  while (!name.empty() && name.back() == '/') {
    name.pop_back();
  }
  if (name.find('/') == std::string::npos && tree.names.count(name) == 1) {
    return true;
  }
  fs::path folder = fs::path(file).parent_path();
  for (;; folder = folder.parent_path()) {
    const std::string path = (folder / name).lexically_normal().generic_string();
    const auto stem = tree.paths.lower_bound(path + ".");
    if (tree.paths.count(path) == 1 ||
        (stem != tree.paths.end() && stem->rfind(path + ".", 0) == 0)) {
      return true;
    }
    if (folder.empty() || name.rfind("../", 0) == 0) {
      return false;
    }
  }
}

bool is_of_a_path(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string("_./-*{}<>$").find(c) != std::string::npos;
}

// The words of a text that could be paths, without the full stop or the place behind them.
void add_words(const std::string& text, std::vector<std::string>& words) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_of_a_path(text[end])) {
      ++end;
    }
    std::string word = text.substr(at, end - at);
    while (!word.empty() && word.back() == '.') {
      word.pop_back();
    }
    // "https://…" and "nsa/d6k8n64/bfs/c4e/F*" are none, nor is what an option is set to.
    const bool of_address = text.compare(end, 3, "://") == 0;
    at = end == at ? at + 1 : end;
    if (of_address) {
      at = std::min(text.find_first_of(" )`\n", at), text.size());
    } else if (claims(word)) {
      words.push_back(word);
    }
  }
}

// Of a page: what stands in code marks, and where links lead.
std::vector<std::string> named_by_page(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t open = text.find('`'); open != std::string::npos;) {
    const std::size_t close = text.find('`', open + 1);
    if (close == std::string::npos) {
      break;
    }
    add_words(text.substr(open + 1, close - open - 1), words);
    open = text.find('`', close + 1);
  }
  for (std::size_t link = text.find("]("); link != std::string::npos;
       link = text.find("](", link + 2)) {
    const std::string target = text.substr(link + 2, text.find_first_of(")#", link) - link - 2);
    if (!target.empty()) {
      add_words(target, words);
    }
  }
  return words;
}

// Of a source: what its line comments name.
std::vector<std::string> named_by_comments(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comment = line.find("// ");
    if (comment != std::string::npos) {
      add_words(line.substr(comment + 3), words);
    }
  }
  return words;
}

std::vector<std::string> named_by(const std::string& file, const std::string& text) {
  return fs::path(file).extension() == ".md" ? named_by_page(text) : named_by_comments(text);
}

// A heading's anchor as GitHub makes it, its ASCII alone: lower case, marks left out, spaces as
// hyphens.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == ' ') {
      anchor += '-';
    } else if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t heading = line.find_first_not_of('#');
    if (heading > 0 && heading != std::string::npos && line[heading] == ' ') {
      anchors.insert(anchor_of(line.substr(heading + 1)));
    }
  }
  return anchors;
}

// Links of a page to sections that are not there. `text_at`: a page by its path from the root.
template <class TextAt>
std::vector<std::string> lost_anchors(const std::string& file, const std::string& text,
                                      const TextAt& text_at) {
  std::vector<std::string> lost;
  for (std::size_t link = text.find("]("); link != std::string::npos;
       link = text.find("](", link + 2)) {
    const std::string target = text.substr(link + 2, text.find(')', link) - link - 2);
    const std::size_t hash = target.find('#');
    if (hash == std::string::npos || target.find("://") != std::string::npos) {
      continue;
    }
    const fs::path beside = fs::path(file).parent_path() / target.substr(0, hash);
    const std::string page = hash == 0 ? file : beside.lexically_normal().generic_string();
    if (anchors_of(text_at(page)).count(anchor_of(target.substr(hash + 1))) == 0) {
      lost.push_back(target);
    }
  }
  return lost;
}

// The nearest folder above that has a page; the root where none has.
fs::path page_above(const Tree& tree, fs::path folder) {
  do {
    folder = folder.parent_path();
  } while (!folder.empty() && tree.paths.count((folder / "README.md").generic_string()) == 0);
  return folder;
}

}  // namespace

TEST_CASE("a folder with a page is named by the page above it") {
  const Tree tree = project();
  std::size_t seen = 0;
  for (const std::string& file : tree.paths) {
    const fs::path folder = fs::path(file).parent_path();
    if (fs::path(file).filename() != "README.md" || folder.empty()) {
      continue;
    }
    const fs::path above = page_above(tree, folder);
    const std::string page = text_of(fs::path(VERSIEVE_SOURCE_DIR) / above / "README.md");
    const std::string name = folder.lexically_relative(above).generic_string();
    CAPTURE(above.generic_string(), name);
    CHECK(page.find(name) != std::string::npos);
    ++seen;
  }
  CHECK(seen > 40);
}

TEST_CASE("a link to a section leads to a heading of that page") {
  const auto text_at = [](const std::string& page) {
    return text_of(fs::path(VERSIEVE_SOURCE_DIR) / page);
  };
  for (const std::string& file : project().paths) {
    if (fs::path(file).extension() == ".md") {
      for (const std::string& target : lost_anchors(file, text_at(file), text_at)) {
        FAIL_CHECK(file << " links to " << target << ", where no such heading is");
      }
    }
  }
  const auto planted = [](const std::string& page) {
    return std::string(page == "a/b.md" ? "# One `two`, three\n## 4–5 µs\n#none\n" : "");
  };
  const auto lost = [&](const std::string& link) {
    return lost_anchors("a/c.md", "see [it](" + link + ")", planted).size();
  };
  CHECK(lost("b.md#one-two-three") == 0);
  CHECK(lost("../a/b.md#45-µs") == 0);
  CHECK(lost("b.md#none") == 1);
  CHECK(lost("b.md#two") == 1);
  CHECK(lost("d.md#one-two-three") == 1);
  CHECK(lost("#here") == 1);
  CHECK(lost("https://example.org/x#y") == 0);
}

TEST_CASE("a page and a comment name only files that exist") {
  const Tree tree = project();
  std::size_t seen = 0;
  for (const std::string& file : tree.paths) {
    const std::string kind = fs::path(file).extension().string();
    if (file == "tests/architecture/pages_test.cpp" || file == "tests/architecture/ptx_test.cpp" ||
        (kind != ".md" && kind != ".h" && kind != ".cuh" && kind != ".cpp" && kind != ".cu")) {
      continue;  // these two plant names
    }
    for (const std::string& name : named_by(file, text_of(fs::path(VERSIEVE_SOURCE_DIR) / file))) {
      ++seen;
      if (!exists(tree, file, name)) {
        FAIL_CHECK(file << " names " << name << ", which does not exist");
      }
    }
  }
  CHECK(seen > 500);  // the pages were really read
}

TEST_CASE("planted names of files that do not exist are noticed") {
  Tree tree;
  for (const char* path : {"engine", "engine/README.md", "engine/run", "engine/run/model",
                           "engine/run/model/target.h", "engine/run/model/target.cpp", "run"}) {
    tree.add(path);
  }
  const auto stale = [&](const std::string& file, const std::string& text) {
    std::string all;
    for (const std::string& name : named_by(file, text)) {
      all += exists(tree, file, name) ? "" : name + " ";
    }
    return all;
  };
  const std::string page = "engine/README.md";
  CHECK(stale(page, "`run/model/target.h`, `engine/run/model/target`, `target.cpp`, `run/`") == "");
  CHECK(stale(page, "read `model/target.h` in `sim/`") == "model/target.h sim/ ");
  CHECK(stale(page, "[why](run/TRIED.md#place) and [there](run/model/)") == "run/TRIED.md ");
  CHECK(stale(page, "`../run` is, `../sim/README.md` is not") == "../sim/README.md ");
  CHECK(stale(page, "`gone.cpp`, `engine/run/gone`") == "gone.cpp engine/run/gone ");
  CHECK(stale(page,
              "`nsa/d6k8n64/bfs/`, `table.json`, `build/x.txt`, [w](https://a.org/gone.md)") == "");
  CHECK(stale("engine/run/model/target.h", "int a;  // as in model/gone.h.\nint gone.h") ==
        "model/gone.h ");
  CHECK(stale("engine/run/model/target.h", "// model/target.cpp, see target.h") == "");
}
