#include "db/identity.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace versieve::db {
namespace {

// Field 22 of /proc/<pid>/stat, counted behind the name in brackets; empty if there is no such
// process.
std::string start_of_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) {
    return {};
  }
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kStartField = 20;  // of those behind the name
  std::string field;
  for (int i = 0; i < kStartField; ++i) {
    fields >> field;
  }
  return field;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string process_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string random_uuid() {
  std::random_device source;
  std::array<std::uint32_t, 4> bits{source(), source(), source(), source()};
  bits[1] = (bits[1] & 0xffff0fffU) | 0x00004000U;
  bits[2] = (bits[2] & 0x3fffffffU) | 0x80000000U;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%08x-%04x-%04x-%04x-%04x%08x", bits[0], bits[1] >> 16,
                bits[1] & 0xffffU, bits[2] >> 16, bits[2] & 0xffffU, bits[3]);
  return text.data();
}

std::string this_writer() {
  const std::string pid = std::to_string(::getpid());
  return boot_id() + " " + process_namespace() + " " + pid + " " + start_of_process(pid);
}

bool writer_is_gone(const std::string& writer) {
  std::istringstream parts(writer);
  std::string boot;
  std::string space;
  std::string pid;
  std::string start;
  parts >> boot >> space >> pid >> start;
  if (boot.empty() || start.empty()) {
    return false;  // not known
  }
  if (boot != boot_id()) {
    return true;
  }
  return space == process_namespace() && start_of_process(pid) != start;
}

}  // namespace versieve::db
