// What goes wrong in the world outside the program, as one sentence and the exit code it deserves.
// Thrown where it is found; caught only in main, in the app's job runner and in tests.
#pragma once

#include <stdexcept>
#include <string>

namespace versieve {

// The command line's contract: 0 done, 1 the answer is "no", 2 usage, 3 bad input file,
// 4 environment (no GPU, no permission, no space).
enum class ExitCode : int {
  kDone = 0,
  kAnswerNo = 1,
  kUsage = 2,
  kBadInput = 3,
  kEnvironment = 4,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace versieve
