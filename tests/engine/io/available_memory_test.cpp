// Memory that a program may still take: file caches count as free, a container's limit as the end.
#include "engine/io/available_memory.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// A root folder of /proc and /sys as a machine may show them.
class Machine {
 public:
  void write(const std::string& path, const std::string& text) {
    const auto file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write(const std::string& path, std::int64_t bytes) {
    write(path, std::to_string(bytes) + "\n");
  }
  std::filesystem::path root() const { return folder_.path(); }

 private:
  test::TempFolder folder_;
};

// 1,000 MiB, of which 10 are free and 900 a cache of files and the like.
class AfterMuchReading : public Machine {
 public:
  AfterMuchReading() {
    write("proc/meminfo",
          "MemTotal:        1024000 kB\nMemFree:           10240 kB\n"
          "MemAvailable:     931840 kB\nCached:           921600 kB\n");
  }
};

}  // namespace

TEST_CASE("what a cache of files holds is available") {
  CHECK(available_memory(AfterMuchReading().root()) == 910 * kMiB);
}

TEST_CASE("without MemAvailable what is free counts") {
  Machine machine;
  machine.write("proc/meminfo", "MemTotal:        1024000 kB\nMemFree:           10240 kB\n");
  CHECK(available_memory(machine.root()) == 10 * kMiB);
}

TEST_CASE("this machine has some memory, and no more than it was built with") {
  const std::int64_t here = available_memory();
  CHECK(here > 0);
  CHECK(here <= static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
}

TEST_CASE("a group of version 2 leaves its limit less what programs of it took") {
  AfterMuchReading machine;
  machine.write("proc/self/cgroup", "0::/slice/job\n");
  const std::string slice = "sys/fs/cgroup/slice/", job = slice + "job/";
  machine.write(job + "memory.max", "max\n");
  machine.write(job + "memory.current", 200 * kMiB);
  CHECK(available_memory(machine.root()) == 910 * kMiB);
  machine.write(job + "memory.max", 256 * kMiB);
  CHECK(available_memory(machine.root()) == 56 * kMiB);
  // Of the 200 MiB 120 are files that were read, active or not.
  machine.write(job + "memory.stat", "anon 83886080\nfile 125829120\ninactive_file " +
                                         std::to_string(100 * kMiB) + "\nactive_file " +
                                         std::to_string(20 * kMiB) + "\n");
  CHECK(available_memory(machine.root()) == 176 * kMiB);
  // The one above has less left.
  machine.write(slice + "memory.max", 300 * kMiB);
  machine.write(slice + "memory.current", 290 * kMiB);
  CHECK(available_memory(machine.root()) == 10 * kMiB);
  machine.write(slice + "memory.current", 310 * kMiB);
  CHECK(available_memory(machine.root()) == 0);
}

TEST_CASE("a group of version 1, and a container that sees its own group as the top") {
  AfterMuchReading machine;
  machine.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/0123abcd\n0::/\n");
  const std::string top = "sys/fs/cgroup/memory/";
  machine.write(top + "memory.limit_in_bytes", 512 * kMiB);
  machine.write(top + "memory.usage_in_bytes", 384 * kMiB);
  machine.write(top + "memory.stat", "inactive_file 0\ntotal_inactive_file " +
                                         std::to_string(256 * kMiB) + "\ntotal_active_file 0\n");
  CHECK(available_memory(machine.root()) == 384 * kMiB);
  machine.write(top + "memory.limit_in_bytes", "9223372036854771712\n");  // how it says "none"
  CHECK(available_memory(machine.root()) == 910 * kMiB);
}

TEST_CASE("files of groups that hold nonsense change nothing") {
  AfterMuchReading machine;
  for (const char* text : {"", "0::", "x", "4:memory", "0::/gone/job\n", "4:memory:/gone\n"}) {
    machine.write("proc/self/cgroup", text);
    CAPTURE(text);
    CHECK(available_memory(machine.root()) == 910 * kMiB);
  }
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "many\n");
  machine.write("sys/fs/cgroup/memory.current", "few\n");
  CHECK(available_memory(machine.root()) == 910 * kMiB);
  machine.write("proc/meminfo", "MemAvailable:\nMemFree:   2048 kB\n");
  CHECK(available_memory(machine.root()) == 2 * kMiB);
}
