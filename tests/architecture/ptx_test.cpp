// Inline PTX stands in kernels/ptx alone, each instruction wrapped once; and no type or constant of
// the kernels' headers is defined twice under one name, which in one library would be two things
// that the linker takes for one.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace fs = std::filesystem;

namespace {

struct Source {
  std::string file;  // from the root
  std::string text;  // without comments
};

std::string without_comments(const std::string& text) {
  static const std::regex comment("//[^\n]*|/\\*[^*]*\\*+([^/*][^*]*\\*+)*/");
  return std::regex_replace(text, comment, "");
}

std::vector<Source> sources_of(const std::set<std::string>& folders) {
  static const std::set<std::string> extensions = {".h", ".cuh", ".cpp", ".cu"};
  const fs::path root = VERSIEVE_SOURCE_DIR;
  std::vector<Source> all;
  for (const std::string& folder : folders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) != 0) {
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        all.push_back(
            {fs::relative(entry.path(), root).generic_string(), without_comments(text.str())});
      }
    }
  }
  return all;
}

bool is_in(const Source& source, const std::string& folder) {
  return source.file.rfind(folder + "/", 0) == 0;
}

// Empty, or the sentence that says that this file holds inline assembly where none may stand.
std::string stray_assembly(const Source& source) {
  static const std::regex assembly(
      "\\b(asm|__asm__|__asm)\\b\\s*(volatile|__volatile__|goto)?\\s*\\(");
  return !is_in(source, "kernels/ptx") && std::regex_search(source.text, assembly)
             ? source.file + " holds inline assembly: a wrapper of kernels/ptx is the place"
             : "";
}

// The instructions of each asm statement with the kinds of their operands: of another kind of
// register is another wrapper. Statements without an instruction are left out.
std::vector<std::string> instructions_of(const Source& source) {
  static const std::regex statement(
      "\\basm\\b[^;(]*\\(((?:\"(?:[^\"\\\\]|\\\\.)*\"|[^;\"])*)\\)\\s*;");
  static const std::regex literal("\"((?:[^\"\\\\]|\\\\.)*)\"");
  std::vector<std::string> all;
  for (std::sregex_iterator at(source.text.begin(), source.text.end(), statement), end; at != end;
       ++at) {
    const std::string body = (*at)[1];
    std::string joined;
    for (std::sregex_iterator part(body.begin(), body.end(), literal); part != end; ++part) {
      joined += (*part)[1].str() + " ";
    }
    if (joined.find('.') != std::string::npos) {
      all.push_back(joined);
    }
  }
  return all;
}

// What stands twice, by file: "barrier_init's text (kernels/ptx/a.cuh, kernels/ptx/b.cuh)".
std::vector<std::string> repeats(const std::vector<std::pair<std::string, std::string>>& named) {
  std::map<std::string, std::vector<std::string>> places;
  for (const auto& [name, file] : named) {
    places[name].push_back(file);
  }
  std::vector<std::string> found;
  for (const auto& [name, files] : places) {
    if (files.size() > 1) {
      std::string sentence = name + " stands in";
      for (const std::string& file : files) {
        sentence += " " + file;
      }
      found.push_back(sentence);
    }
  }
  return found;
}

std::vector<std::string> wrapped_twice(const std::vector<Source>& sources) {
  std::vector<std::pair<std::string, std::string>> named;
  for (const Source& source : sources) {
    for (const std::string& instruction : instructions_of(source)) {
      named.emplace_back(instruction, source.file);
    }
  }
  return repeats(named);
}

// Types and constants that a header defines at the left margin, specialisations apart.
std::vector<std::string> definitions_of(const Source& source) {
  static const std::regex type(
      "^(?:struct|class|enum "
      "class)\\s+(?:alignas\\([^)]*\\)\\s+)?(\\w+)\\s*(?:final\\s*)?(?::[^:;]*)?\\{");
  static const std::regex constant(
      "^(?:inline )?constexpr\\s+[\\w:]+\\s+(k\\w+)\\s*(?:\\[[^\\]]*\\])?\\s*(?:=|\\{|$)");
  std::vector<std::string> all;
  std::istringstream lines(source.text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, type) || std::regex_search(line, match, constant)) {
      all.push_back(match[1]);
    }
  }
  return all;
}

std::vector<std::string> defined_twice(const std::vector<Source>& sources) {
  std::vector<std::pair<std::string, std::string>> named;
  for (const Source& source : sources) {
    const std::string extension = fs::path(source.file).extension().string();
    if (extension != ".h" && extension != ".cuh") {
      continue;  // what a .cu or .cpp names lies in its unnamed namespace
    }
    for (const std::string& name : definitions_of(source)) {
      named.emplace_back(name, source.file);
    }
  }
  return repeats(named);
}

}  // namespace

TEST_CASE("inline assembly stands in kernels/ptx alone") {
  const std::vector<Source> all =
      sources_of({"model", "kernels", "profiler", "db", "engine", "gui", "tests"});
  REQUIRE(all.size() > 300);  // the walk really saw the project
  for (const Source& source : all) {
    if (source.file == "tests/architecture/ptx_test.cpp") {
      continue;  // its planted violations
    }
    const std::string sentence = stray_assembly(source);
    if (!sentence.empty()) {
      FAIL_CHECK(sentence);
    }
  }
}

TEST_CASE("every PTX instruction is wrapped once") {
  const std::vector<Source> all = sources_of({"kernels/ptx"});
  std::size_t count = 0;
  for (const Source& source : all) {
    count += instructions_of(source).size();
  }
  REQUIRE(count > 40);
  CHECK(wrapped_twice(all) == std::vector<std::string>{});
}

TEST_CASE("no type or constant of the kernels' headers is defined twice") {
  const std::vector<Source> all = sources_of({"kernels"});
  CHECK(defined_twice(all) == std::vector<std::string>{});
}

TEST_CASE("planted assembly, repeated wrappers and repeated names are noticed") {
  const std::string fence =
      "  asm volatile(\"fence.proxy.async.shared::cta;\\n\" ::: \"memory\");\n";
  CHECK(!stray_assembly({"kernels/linear/stream.cu", fence}).empty());
  CHECK(!stray_assembly({"kernels/common/warp.cuh", "asm(\"mov.u32 %0, %1;\" : \"=r\"(x));"})
             .empty());
  CHECK(!stray_assembly({"profiler/clock.cu", "__asm__ __volatile__(\"\");"}).empty());
  CHECK(stray_assembly({"kernels/ptx/fence.cuh", fence}).empty());
  CHECK(stray_assembly({"kernels/linear/stream.cu", without_comments("// no asm(\"\") here\n")})
            .empty());

  CHECK(wrapped_twice({{"kernels/ptx/a.cuh", fence}, {"kernels/ptx/b.cuh", fence}}).size() == 1);
  CHECK(wrapped_twice({{"kernels/ptx/a.cuh", fence + fence}}).size() == 1);
  CHECK(wrapped_twice({{"kernels/ptx/a.cuh",
                        "asm(\"ld.b64 {%0, %1}, x;\" : \"=f\"(a), \"=f\"(b));\n"
                        "asm(\"ld.b64 {%0, %1}, x;\" : \"=r\"(a), \"=r\"(b));\n"}})
            .empty());

  const std::string range = "struct KeyRange {\n  int least;\n};\n";
  CHECK(defined_twice({{"kernels/topk/bins.h", range}, {"kernels/resa_decode/fused.cuh", range}})
            .size() == 1);
  CHECK(defined_twice({{"kernels/a/x.cuh", "inline constexpr int kTileKeys = 64;\n"},
                       {"kernels/b/y.cuh", "inline constexpr int kTileKeys = 32;\n"}})
            .size() == 1);
  CHECK(defined_twice({{"kernels/topk/bins.h", range}, {"kernels/b/launch.cu", range}}).empty());
  CHECK(defined_twice({{"kernels/topk/bins.h", range}, {"kernels/b/y.h", "struct KeyRange;\n"}})
            .empty());
}
