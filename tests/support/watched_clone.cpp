// How Qt starts programs in test programs that ThreadSanitizer watches. QProcess clones a child
// that shares the memory; GCC 12's ThreadSanitizer takes that for a fork and, where there are other
// threads, no longer watches the one that started it: in the child, which it means, and in the
// parent, whose memory that is. Races of the UI thread went unseen from then on, and what it handed
// from worker to worker seemed to race. Here a fork stands in its place.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

extern "C" int clone(int (*start)(void*), void*, int flags, void* argument, ...) {
  if ((flags & CLONE_VFORK) == 0) {
    errno = ENOSYS;
    return -1;
  }
  va_list rest;
  va_start(rest, argument);
  int* const handle = va_arg(rest, int*);  // of the child, where CLONE_PIDFD asks for it
  va_end(rest);
  const pid_t child = fork();
  if (child == 0) {
    _exit(start(argument));
  }
  if (child > 0 && (flags & CLONE_PIDFD) != 0) {
    *handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  }
  return child;
}
