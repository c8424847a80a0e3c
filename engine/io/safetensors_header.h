// The JSON header of a safetensors file, checked against every rule of the format before one byte
// of data is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/io/tensor_view.h"

namespace versieve::engine {

struct HeaderEntry {
  StorageType type = StorageType::kF32;
  Shape shape;
  std::int64_t begin = 0, end = 0;  // bytes of the data buffer
};
struct SafetensorsHeader {
  std::map<std::string, HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

constexpr std::int64_t kLengthBytes = 8;               // the u64 before the header
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // rule 1

// The header's length from the first 8 bytes. Throws Error(kBadInput) if a file of `file_bytes`
// cannot hold it.
std::int64_t header_length(std::span<const std::byte> first8, std::int64_t file_bytes,
                           const std::string& source);
// `data_bytes`: what follows the header in the file. Throws Error(kBadInput).
SafetensorsHeader parse_header(std::string_view text, std::int64_t data_bytes,
                               const std::string& source);

}  // namespace versieve::engine
