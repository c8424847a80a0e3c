// Whether another process would find a file locked by this one. The locks that SQLite takes are
// the process's, and every close of the file drops all of them.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace versieve::test {

// By any lock on any byte, as a child sees it, which inherits none.
inline bool is_locked_by_this_process(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::_exit(descriptor >= 0 && ::fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK
                ? 1
                : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

}  // namespace versieve::test
