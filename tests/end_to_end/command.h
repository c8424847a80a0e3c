// Runs the built `versieve` as a user does and keeps what came back.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace versieve::test {

struct CommandResult {
  int code = -1;  // the exit status; 128 and more: killed by a signal
  std::string out, err;
};

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Shell text, its output kept.
inline CommandResult run_line(const std::string& command) {
  const TempFolder folder;
  const std::string line =
      "{ " + command + "\n} >" + (folder / "out").string() + " 2>" + (folder / "err").string();
  const int status = std::system(line.c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = text_of_file(folder / "out"),
          .err = text_of_file(folder / "err")};
}

// `before`: shell text in front of the command, such as "ulimit -f 1; ".
inline CommandResult run_versieve(const std::string& arguments, const std::string& before = "") {
  return run_line(before + VERSIEVE_BINARY_DIR "/bin/versieve " + arguments);
}

// Standard error holds one line.
inline bool is_one_sentence(const std::string& text) {
  return text.size() > 10 && text.find('\n') == text.size() - 1;
}

}  // namespace versieve::test
