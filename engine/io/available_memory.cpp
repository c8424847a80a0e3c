#include "engine/io/available_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

// The number beside a name in lines such as "MemAvailable:  123 kB" and "inactive_file 123".
std::optional<std::int64_t> field(const fs::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) == 0 && line.size() > name.size() &&
        (line[name.size()] == ' ' || line[name.size()] == ':')) {
      try {
        return std::stoll(line.substr(name.size() + 1));
      } catch (const std::exception&) {
        return {};
      }
    }
  }
  return {};
}

// A file of one number; none where it says "max", or is not there.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// How the two versions name a group's limit, what it has taken, and which of that are file caches.
struct GroupFiles {
  std::string limit, used, active, inactive;
};
const GroupFiles kV2{"memory.max", "memory.current", "active_file", "inactive_file"};
const GroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file",
                     "total_inactive_file"};

// What a group, and all above it, leave; `all` where none has a limit below it. In a container the
// group's path may be one of outside, whose files are then those of the hierarchy's top.
std::int64_t left_by_groups(const fs::path& top, fs::path group, const GroupFiles& files,
                            std::int64_t all) {
  for (std::int64_t left = all;; group = group.parent_path()) {
    const fs::path folder = top / group.relative_path();
    const auto limit = number_in(folder / files.limit);
    const auto used = number_in(folder / files.used);
    if (limit && used) {
      const std::int64_t cached = field(folder / "memory.stat", files.active).value_or(0) +
                                  field(folder / "memory.stat", files.inactive).value_or(0);
      left = std::min(left, std::max<std::int64_t>(*limit - *used + std::min(cached, *used), 0));
    }
    if (group.relative_path().empty()) {
      return left;
    }
  }
}

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  constexpr std::int64_t kKilobyte = 1024;  // meminfo's "kB"
  std::int64_t available =
      static_cast<std::int64_t>(::sysconf(_SC_AVPHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  for (const char* name : {"MemAvailable", "MemFree"}) {
    if (const auto kilobytes = field(root / "proc/meminfo", name)) {
      available = *kilobytes * kKilobyte;
      break;
    }
  }
  // Lines "0::/path" of version 2 and "4:memory:/path" of version 1.
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      available = left_by_groups(root / "sys/fs/cgroup", group, kV2, available);
    } else if (controllers.find(",memory,") != controllers.npos) {
      available = left_by_groups(root / "sys/fs/cgroup/memory", group, kV1, available);
    }
  }
  return available;
}

}  // namespace versieve::engine
