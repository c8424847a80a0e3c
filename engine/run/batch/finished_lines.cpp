#include "engine/run/batch/finished_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/io/atomic_file.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr off_t kLineRoom = 4096;  // bytes of the first lines

}  // namespace

FinishedLines::FinishedLines(const std::filesystem::path& path) : name_(path.string()) {
  std::error_code ignored;
  is_new_ = std::filesystem::symlink_status(path, ignored).type() ==
            std::filesystem::file_type::not_found;
  descriptor_ = open_for_writing(path, O_CREAT | O_APPEND);
  struct stat status = {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
    refuse();
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    ::close(descriptor_);
    throw Error(ExitCode::kUsage, name_ + " is there already: finished requests go to a new file");
  }
  // A full disk is said before the first request is done. The file stays empty; a pipe and some
  // file systems have nothing to reserve.
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, kLineRoom) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    const int reason = errno;
    ::close(descriptor_);
    if (is_new_) {
      ::unlink(name_.c_str());
    }
    errno = reason;
    refuse();
  }
}

FinishedLines::~FinishedLines() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (is_new_ && bytes_ == 0) {
      ::unlink(name_.c_str());
    }
  }
}

void FinishedLines::refuse() const {
  throw Error(ExitCode::kEnvironment,
              name_ + ": cannot be written: " + writing_error(name_, errno));
}

void FinishedLines::add(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(descriptor_, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      const int reason = errno;
      static_cast<void>(::ftruncate(descriptor_, bytes_));  // of a pipe: nothing to take back
      errno = reason;
      refuse();
    }
    at += static_cast<std::size_t>(written);
  }
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {  // of a pipe: EINVAL
    refuse();
  }
  bytes_ += static_cast<long long>(text.size());
}

}  // namespace versieve::engine
