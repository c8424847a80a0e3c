// The schedule file that `versieve calibrate` writes: which layers may reuse blocks, found within a
// loss budget. Planning reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace versieve::engine {

inline constexpr const char* kScheduleFormat = "versieve schedule";
inline constexpr std::int64_t kScheduleSchema = 1;

// Its schedule, a letter a layer ("FRRRRRRF"). Throws Error(kBadInput) where the file is none.
std::string read_schedule(const std::filesystem::path& path);

}  // namespace versieve::engine
