// A planner's table, files of its forms, and what must be refused, for tests of tables as files.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/analyse/plan/table_file.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"

namespace versieve::engine::table_case {

// Without rows of one class, as a target has them that cannot run it.
inline PlanTable made_table() {
  PlanTable t =
      plan(synthetic::fitted_by_hand(), hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), {});
  t.entries.erase(std::remove_if(t.entries.begin(), t.entries.end(),
                                 [](const PlanEntry& e) {
                                   return e.precision == PrecisionClass::kApproxReuse;
                                 }),
                  t.entries.end());
  t.entries[1].baseline = "fixed";
  for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
    t.unavailable.push_back(
        {bucket, PrecisionClass::kApproxReuse, "Approx+Reuse is not yet available"});
  }
  return t;
}

// Planned once, handed out as often as a case changes it.
inline PlanTable table() {
  static const PlanTable once = made_table();
  return once;
}

inline std::filesystem::path folder() {
  const std::filesystem::path path =
      std::filesystem::path(VERSIEVE_BINARY_DIR) / "test_engine_plan";
  std::filesystem::create_directories(path);
  return path;
}

inline std::string written(const std::string& name, const std::string& text) {
  const std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      fields.back() += doubled ? "\"" : "";
      i += doubled ? 1 : 0;
      quoted = doubled ? quoted : !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

// By g++, and by clang++ where there is one: a warning is an error. `what`: options and sources.
inline bool compiled(const std::string& what, const std::string& standard) {
  static const bool has_clang = std::system("clang++ --version >/dev/null 2>&1") == 0;
  bool all = true;
  for (const std::string& compiler : {std::string(VERSIEVE_CXX), std::string("clang++")}) {
    const std::string line = "cd " + folder().string() + " && " + compiler + " -std=c++" +
                             standard + " -Wall -Wextra -Wpedantic -Wshadow -Werror " + what;
    const bool is_absent = compiler == "clang++" && !has_clang;
    all = all && (is_absent || std::system(line.c_str()) == 0);
  }
  return all;
}

inline void check_refused(const std::string& name, const std::string& text,
                          const std::string& part) {
  const std::string path = written(name, text);
  try {
    read_plan_table(path);
    FAIL("accepted " + name);
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == ExitCode::kBadInput);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace versieve::engine::table_case
