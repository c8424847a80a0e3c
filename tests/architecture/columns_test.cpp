// A page's lines have 100 columns at most. Tables, fenced text (commands and what programs printed)
// and where links lead do not count.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostColumns = 100;

// Characters of UTF-8, without the targets of links.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line.compare(at, 2, "](") == 0) {
      at = std::min(line.find(')', at), line.size() - 1);
      columns += 3;
    } else if ((static_cast<unsigned char>(line[at]) & 0xC0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

// Numbers of the lines that are too long.
std::vector<int> long_lines(const std::string& page) {
  std::vector<int> found;
  std::istringstream lines(page);
  bool fenced = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    fenced = fenced != (line.compare(first, 3, "```") == 0);
    if (!fenced && line.compare(first, 1, "|") != 0 && columns_of(line) > kMostColumns) {
      found.push_back(number);
    }
  }
  return found;
}

std::vector<std::string> pages() {
  const fs::path root = VERSIEVE_SOURCE_DIR;
  std::vector<std::string> all = {"README.md"};
  for (const char* folder : {"engine", "kernels", "model", "profiler", "gui", "db", "tests"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") {
        all.push_back(fs::relative(entry.path(), root).generic_string());
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a page's lines have 100 columns at most") {
  const std::vector<std::string> all = pages();
  REQUIRE(all.size() > 50);  // the walk really saw the project
  for (const std::string& page : all) {
    std::ostringstream text;
    text << std::ifstream(fs::path(VERSIEVE_SOURCE_DIR) / page, std::ios::binary).rdbuf();
    for (const int line : long_lines(text.str())) {
      FAIL_CHECK(page << ":" << line << " has more than 100 columns");
    }
  }
}

TEST_CASE("columns are characters, of what a reader sees of a page") {
  const std::string most(100, 'x');
  CHECK(long_lines(most).empty());
  CHECK(long_lines("a\n" + most + "x\nb") == std::vector<int>{2});
  CHECK(long_lines(std::string(99, 'x') + "µ").empty());
  CHECK(long_lines("| " + most).empty());
  CHECK(long_lines("```\n" + most + "x\n```\n" + most + "x") == std::vector<int>{4});
  CHECK(long_lines("[" + std::string(90, 'x') + "](" + most + ") and").empty());
  CHECK(long_lines("[" + std::string(90, 'x') + "](" + most + ") and more") == std::vector<int>{1});
}
