// A file of finished requests, a JSON line each, which is on the disk before the next step begins:
// whatever ends the program then, what was written stays whole.
#pragma once

#include <filesystem>
#include <string>

namespace versieve::engine {

class FinishedLines {
 public:
  // Creates the file. Throws Error(kUsage) for one that is there and holds something, and
  // Error(kEnvironment) where it cannot be written, as every function does.
  explicit FinishedLines(const std::filesystem::path& path);
  // Removes the file if it made it and no request was finished.
  ~FinishedLines();
  FinishedLines(const FinishedLines&) = delete;
  FinishedLines& operator=(const FinishedLines&) = delete;

  // `line` has no line break. One that cannot be written leaves nothing of itself behind.
  void add(const std::string& line);

 private:
  [[noreturn]] void refuse() const;

  std::string name_;
  bool is_new_ = false;
  int descriptor_ = -1;
  long long bytes_ = 0;  // of whole lines
};

}  // namespace versieve::engine
