// A regular file opened for reading; every failure is one sentence that names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace versieve::engine {

class InputFile {
 public:
  // Throws Error(kBadInput) when there is no such regular file or it cannot be opened.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::int64_t size() const { return size_; }
  // The next `bytes` bytes. Throws Error(kBadInput) when the file ends before.
  void read(void* destination, std::int64_t bytes);

 private:
  std::string name_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace versieve::engine
