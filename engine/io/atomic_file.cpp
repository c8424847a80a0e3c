#include "engine/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 100;    // temporary names tried before giving up
constexpr int kMaxLinks = 40;  // followed, as many as Linux does

// The file that `path` names in the end: a symbolic link is followed, so that it survives, also
// one to a file that is not there yet.
fs::path resolved(fs::path path) {
  std::error_code error;
  int links = 0;
  for (fs::path link = fs::read_symlink(path, error); !error;
       link = fs::read_symlink(path, error)) {
    if (++links > kMaxLinks) {
      throw Error(ExitCode::kEnvironment,
                  path.string() + ": cannot be written: " + std::strerror(ELOOP));
    }
    path = path.parent_path() / link;  // an absolute link replaces the folder
  }
  const fs::path canonical = fs::weakly_canonical(path, error);
  return canonical.empty() ? path : canonical;
}

bool is_special(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

bool is_one_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The descriptor of this process that a path such as /dev/stdout or /dev/fd/63 names; -1: none.
int named_descriptor(fs::path path) {
  const fs::path own = "/proc/" + std::to_string(::getpid()) + "/fd";
  std::error_code error;
  for (int links = 0; links <= kMaxLinks && !error; ++links) {
    const std::string number = path.filename().string();
    int descriptor = -1;
    const auto [end, wrong] =
        std::from_chars(number.data(), number.data() + number.size(), descriptor);
    if (wrong == std::errc() && end == number.data() + number.size() &&
        fs::canonical(path.parent_path(), error) == own) {
      return ::fcntl(descriptor, F_GETFD) == -1 ? -1 : descriptor;
    }
    error.clear();
    const fs::path link = fs::read_symlink(path, error);
    path = path.parent_path() / link;  // an absolute link replaces the folder
  }
  return -1;
}

// The open descriptor that writing to `path` means; -1: none.
int open_already(const fs::path& path) {
  struct stat one = {}, other = {};
  if (const int descriptor = named_descriptor(path); descriptor >= 0) {
    return descriptor;
  }
  const bool is_redirected = ::stat(path.c_str(), &one) == 0 &&
                             ::fstat(STDOUT_FILENO, &other) == 0 && is_one_file(one, other) &&
                             (S_ISREG(one.st_mode) || S_ISFIFO(one.st_mode));
  return is_redirected ? STDOUT_FILENO : -1;
}

bool is_written_directly(const fs::path& path) {
  return is_special(path) || open_already(path) >= 0;
}

// The first bytes of a file. One that this process has open is read where it is open: closing
// another descriptor of it would drop all locks of the process on it, a database's too
// (sqlite.org/howtocorrupt.html, part 2.2).
std::string begin_of(const fs::path& path, std::size_t bytes) {
  struct stat wanted = {}, held = {};
  if (::stat(path.c_str(), &wanted) != 0 || !S_ISREG(wanted.st_mode)) {
    return {};
  }
  std::string begin(bytes, '\0');
  ssize_t count = -1;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd", ignored)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (count < 0 && ::fstat(descriptor, &held) == 0 && is_one_file(wanted, held)) {
      count = ::pread(descriptor, begin.data(), bytes, 0);  // fails where it is only written
    }
  }
  if (count < 0) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    count = descriptor < 0 ? -1 : ::read(descriptor, begin.data(), bytes);
    ::close(descriptor);
  }
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return begin;
}

// Measurements are not made again by what is written here.
bool holds_database(const fs::path& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  return begin_of(path, kMagic.size()) == kMagic;
}

// The database that a file of this name would be a part of ("m.db-wal" of "m.db"); empty: none.
fs::path database_of(const fs::path& path) {
  for (const std::string_view part : {"-wal", "-shm", "-journal"}) {
    const std::string& name = path.native();
    if (name.size() > part.size() &&
        std::string_view(name).substr(name.size() - part.size()) == part) {
      const fs::path database = name.substr(0, name.size() - part.size());
      return holds_database(database) ? database : fs::path();
    }
  }
  return {};
}

// Nothing is left of it: of a path that is to be written, or of an empty one.
void require_place(const fs::path& path, InPlaceOf other) {
  std::error_code ignored;
  if (!path.empty() && (!is_written_directly(path) || fs::is_directory(path, ignored))) {
    AtomicFile(path, other).reserve(kLeastRoom);
  }
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);  // best effort: the rename is already complete
    ::close(descriptor);
  }
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, InPlaceOf other)
    : name_(path.string()), target_(resolved(path)) {
  if (const fs::path database = database_of(target_); !database.empty()) {
    throw Error(ExitCode::kUsage, "'" + name_ + "' is a part of the database '" +
                                      database.filename().string() +
                                      "': name another file for the output");
  }
  if (other == InPlaceOf::kNoDatabase && !is_special(path) && holds_database(target_)) {
    throw Error(ExitCode::kUsage,
                "'" + name_ + "' is a database: name another file for the output");
  }
  if (const int open = open_already(path); open >= 0) {
    target_ = path;
    descriptor_ = ::fcntl(open, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  } else if (is_special(path)) {
    target_ = path;
    descriptor_ = open_for_writing(path, O_NOCTTY);
  } else {
    open_beside();
  }
  if (descriptor_ < 0) {
    refuse();
  }
}

void AtomicFile::open_beside() {
  const std::string stem = target_.string() + ".partial-" + std::to_string(::getpid()) + "-";
  for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
    temporary_ = stem + std::to_string(i);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      break;
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }
}

void AtomicFile::refuse() const {
  throw Error(ExitCode::kEnvironment,
              name_ + ": cannot be written: " + writing_error(target_, errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  VERSIEVE_ASSERT(descriptor_ >= 0, "nothing is written after commit");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      refuse();
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written < 0 ? 0 : written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void AtomicFile::commit() {
  VERSIEVE_ASSERT(descriptor_ >= 0, "a file is committed once");
  if (!temporary_.empty()) {
    if (::fsync(descriptor_) != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
      refuse();
    }
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 && temporary_.empty()) {
    refuse();
  }
  if (!temporary_.empty()) {
    sync_folder(target_.parent_path());
  }
}

void AtomicFile::reserve(std::int64_t bytes) {
  VERSIEVE_ASSERT(!temporary_.empty(), "a pipe has no room to reserve");
  if (const int error = ::posix_fallocate(descriptor_, 0, bytes); error != 0) {
    errno = error;
    refuse();
  }
}

bool is_standard_output(const fs::path& path) {
  return open_already(path) == STDOUT_FILENO;
}

void require_writable(const fs::path& path) {
  require_place(path, InPlaceOf::kNoDatabase);
}

void require_room(const fs::path& database) {
  require_place(database, InPlaceOf::kAnything);
}

void require_other_file(const fs::path& in, const fs::path& out) {
  std::error_code ignored;
  if (fs::equivalent(in, out, ignored) && fs::is_regular_file(in, ignored)) {
    throw Error(ExitCode::kUsage,
                "'" + out.string() + "' is the input: name another file for the output");
  }
}

void require_other_files(std::span<const fs::path> in, const fs::path& out) {
  for (const fs::path& path : in) {
    require_other_file(path, out);
  }
}

void require_two_files(const fs::path& one, const fs::path& other) {
  if (!one.empty() && !other.empty() && !is_written_directly(one) &&
      resolved(one) == resolved(other)) {
    throw Error(ExitCode::kUsage,
                "'" + one.string() + "' is named for two outputs: name another file for one");
  }
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

int open_for_writing(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666);
  if (descriptor >= 0) {
    // From here on a reader that is slow is waited for.
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  }
  return descriptor;
}

std::string writing_error(const fs::path& path, int error) {
  struct stat status = {};
  if (error == ENXIO && ::stat(path.c_str(), &status) == 0) {
    if (S_ISFIFO(status.st_mode)) {
      return "it is a pipe, and nobody reads it";
    }
    return S_ISSOCK(status.st_mode) ? "it is a socket" : "it is a device, and none is behind it";
  }
  return std::strerror(error);
}

}  // namespace versieve::engine
