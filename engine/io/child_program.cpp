#include "engine/io/child_program.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "model/words/assert.h"
#include "model/words/error.h"

extern char** environ;

namespace versieve::engine {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;

  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) {
      throw Error(ExitCode::kEnvironment, "no pipe could be made for another program");
    }
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    ::close(read);
    close_write();
  }
  void close_write() {
    if (write >= 0) {
      ::close(write);
      write = -1;
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return text;
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A text as a file of no name, to be read from its beginning: a child that reads none of it, or
// writes before it has read all, blocks nobody. -1: the standard input of this process is kept.
class InputText {
 public:
  explicit InputText(const std::string* text) {
    if (text == nullptr) {
      return;
    }
    descriptor_ = ::memfd_create("input", MFD_CLOEXEC);
    std::size_t done = 0;
    while (descriptor_ >= 0 && done < text->size()) {
      const ssize_t count = ::write(descriptor_, text->data() + done, text->size() - done);
      if (count < 0 && errno != EINTR) {
        break;
      }
      done += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    if (descriptor_ < 0 || done < text->size() || ::lseek(descriptor_, 0, SEEK_SET) != 0) {
      throw Error(ExitCode::kEnvironment, "no input could be made for another program");
    }
  }
  ~InputText() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  InputText(const InputText&) = delete;
  InputText& operator=(const InputText&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

ChildResult run(const std::vector<std::string>& arguments, const std::string* input) {
  VERSIEVE_ASSERT(!arguments.empty(), "a program has a name");
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  const InputText text(input);
  Pipe pipe;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.write, STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe.read);
  if (text.descriptor() >= 0) {
    posix_spawn_file_actions_adddup2(&actions, text.descriptor(), STDIN_FILENO);
  }
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) {
    return {.exit_code = 127, .output = {}};
  }
  if (failure != 0) {
    throw Error(ExitCode::kEnvironment, "'" + arguments[0] + "' could not be started");
  }
  pipe.close_write();
  ChildResult result;
  result.output = read_all(pipe.read);
  result.exit_code = wait_for(child);
  return result;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments) {
  return run(arguments, nullptr);
}

ChildResult run_child(const std::vector<std::string>& arguments, const std::string& input) {
  return run(arguments, &input);
}

}  // namespace versieve::engine
