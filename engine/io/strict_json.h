// JSON from an unknown hand: duplicate keys, deep nesting, trailing bytes and invalid UTF-8 are
// refused with one sentence that names line, column and the nearest key; no parser exception leaves
// this file. A byte order mark in front is passed over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace versieve::engine {

// Throws Error(kBadInput, "<source>: <what is wrong>").
nlohmann::json parse_strict_json(std::string_view text, int max_depth, const std::string& source);

// The whole file, refused above `max_bytes`. Throws Error(kBadInput).
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);
// A file whose whole is one JSON object.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace versieve::engine
