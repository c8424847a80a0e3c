// A regular file opened for reading; every failure is one sentence that names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace versieve::engine {

// What cannot be looked at (a link to itself, a name too long, a closed folder) is not there.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// Throws Error(kBadInput) if a file's text is what a clone without Git LFS has in the file's place.
void refuse_pointer(std::string_view text, const std::filesystem::path& path);

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
