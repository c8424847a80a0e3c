// Runs another program and keeps what it printed.
#pragma once

#include <string>
#include <vector>

namespace versieve::engine {

struct ChildResult {
  int exit_code = 0;   // 127: the program was not found; 128 + n: killed by signal n
  std::string output;  // its standard output; standard error stays this process's
};

// `arguments[0]` is looked up in PATH; no shell is between. Waits. Throws Error(kEnvironment) when
// no process can be made.
ChildResult run_child(const std::vector<std::string>& arguments);
// The same with a text on its standard input.
ChildResult run_child(const std::vector<std::string>& arguments, const std::string& input);

}  // namespace versieve::engine
