// How much memory may a program still take here?
#pragma once

#include <cstdint>
#include <filesystem>

namespace versieve::engine {

// Bytes: what the kernel says is available (MemAvailable of /proc/meminfo: pages that are free and
// those that it would give back, such as a file cache), and no more than the memory cgroups that
// this process is in leave (v2's memory.max or v1's memory.limit_in_bytes less what is used there,
// file caches not counted; of the group and of all above it). A kernel without MemAvailable: what
// is free. `root` is where /proc and /sys are found.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace versieve::engine
