// An output file that appears whole or not at all: written under a temporary name beside it,
// synced, then renamed. A destination that is no regular file (a pipe, a device) or open already
// (/dev/stdout, /dev/fd/3) is written directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace versieve::engine {

inline constexpr std::int64_t kLeastRoom = 64 << 10;  // bytes that a long run's answer may take

enum class InPlaceOf { kNoDatabase, kAnything };

class AtomicFile {
 public:
  // Every function throws Error(kEnvironment), one sentence that names the file; this one
  // Error(kUsage) where it is a database, or the log of one, in whose place no output is written.
  explicit AtomicFile(const std::filesystem::path& path, InPlaceOf other = InPlaceOf::kNoDatabase);
  // Removes the temporary file if commit() was not reached.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();
  // Refuses a disk that has no room for so many bytes. Not of a pipe or device.
  void reserve(std::int64_t bytes);

 private:
  void open_beside();
  [[noreturn]] void refuse() const;

  std::string name_;                 // as the user gave it, for sentences
  std::filesystem::path target_;     // links resolved
  std::filesystem::path temporary_;  // empty: the target itself is open
  int descriptor_ = -1;
};

// Whether what is written to `path` goes to this process's standard output: by a name such as
// /dev/stdout, or that of the file or pipe that it was redirected to.
bool is_standard_output(const std::filesystem::path& path);
// Tells of a path that cannot be written, or of a disk that is full (kLeastRoom), before long work
// is done for it; leaves nothing behind. An empty path, a pipe, a device and what is open already
// are let through.
void require_writable(const std::filesystem::path& path);
// The same for a database that points are added to, there or not.
void require_room(const std::filesystem::path& database);
// Throws Error(kUsage) where both name one file: an output would take its input's place.
void require_other_file(const std::filesystem::path& in, const std::filesystem::path& out);
void require_other_files(std::span<const std::filesystem::path> in,
                         const std::filesystem::path& out);
// Throws Error(kUsage) where two outputs, there or not yet, would be one file.
void require_two_files(const std::filesystem::path& one, const std::filesystem::path& other);
// Writes the whole text to `path`, all or nothing.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// open(2) for writing with `flags` beside. A pipe that nobody reads is no wait for a reader but an
// error: -1, and errno says why in the words of writing_error().
int open_for_writing(const std::filesystem::path& path, int flags);
std::string writing_error(const std::filesystem::path& path, int error);

}  // namespace versieve::engine
