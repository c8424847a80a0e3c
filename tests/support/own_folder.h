// A folder for all that a test program and the programs it runs write beside what they are told to:
// TMPDIR, and the user's settings, caches and sockets (XDG's folders). Gone at its end; what a
// killed program left goes when the next one begins.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace versieve::test {

class OwnFolder {
 public:
  // Throws std::runtime_error where none can be made, as on a full disk.
  OwnFolder() {
    const std::filesystem::path parent = std::filesystem::temp_directory_path();
    remove_left(parent);
    // Named as others look for it once it is locked.
    std::string fresh = (parent / "versieve-fresh-XXXXXX").string();
    if (::mkdtemp(fresh.data()) == nullptr) {
      throw std::runtime_error(fresh + " cannot be made: " + std::strerror(errno));
    }
    ::chmod(fresh.c_str(), 01777);  // as /tmp itself is: tests go on as another user
    descriptor_ = locked(fresh);
    path_ = parent / (kPrefix + fresh.substr(fresh.size() - 6));
    std::filesystem::rename(fresh, path_);
    ::setenv("TMPDIR", path_.c_str(), 1);
    take_users_folders();
  }
  ~OwnFolder() {
    if (::getpid() != owner_) {
      return;  // a fork of the program
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    ::close(descriptor_);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  static constexpr char kPrefix[] = "versieve-test-";

  // Of the folder, or -1: another program holds it, or it is not ours. Freed by the program's end.
  static int locked(const std::string& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor);
      return -1;
    }
    return descriptor;
  }

  // The cache of fonts stays the user's: where there are many, making one takes seconds.
  void take_users_folders() {
    namespace fs = std::filesystem;
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    const fs::path fonts =
        (cache != nullptr ? fs::path(cache) : fs::path(home != nullptr ? home : "/") / ".cache") /
        "fontconfig";
    for (const char* name : {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"}) {
      const fs::path folder = path_ / name;
      fs::create_directory(folder);
      fs::permissions(folder, fs::perms::owner_all);  // as a folder of sockets has to be
      ::setenv(name, folder.c_str(), 1);
    }
    std::error_code ignored;
    if (fs::is_directory(fonts, ignored)) {
      fs::create_directory_symlink(fonts, path_ / "XDG_CACHE_HOME" / "fontconfig", ignored);
    }
  }

  static void remove_left(const std::filesystem::path& parent) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      if (entry.path().filename().string().rfind(kPrefix, 0) != 0) {
        continue;
      }
      if (const int descriptor = locked(entry.path().string()); descriptor >= 0) {
        std::filesystem::remove_all(entry.path(), ignored);
        ::close(descriptor);
      }
    }
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  pid_t owner_ = ::getpid();
};

}  // namespace versieve::test
