#include "engine/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kReadBytes = 64 << 20;  // one read call

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ExitCode::kBadInput, name + ": " + what);
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

void refuse_pointer(std::string_view text, const std::filesystem::path& path) {
  if (text.starts_with("version https://git-lfs.")) {
    refuse(path.string(),
           "is what Git LFS leaves in a file's place until `git lfs pull` fetches it");
  }
}

InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: a named pipe is refused below instead of waited for.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    refuse(name_, std::string("cannot be read: ") + std::strerror(errno));
  }
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse(name_, "is not a regular file");
  }
  size_ = status.st_size;
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(void* destination, std::int64_t bytes) {
  char* next = static_cast<char*>(destination);
  while (bytes > 0) {
    const ssize_t got =
        ::read(descriptor_, next, static_cast<std::size_t>(std::min(bytes, kReadBytes)));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      refuse(name_, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (got == 0) {
      refuse(name_, "ended while it was being read");
    }
    next += got;
    bytes -= got;
  }
}

}  // namespace versieve::engine
