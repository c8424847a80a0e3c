// Safetensors files written byte by byte, right or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace versieve::test {

using FileBytes = std::vector<std::byte>;

// 8 bytes of `length`, the header as it stands, then `data_bytes` bytes 0, 1, 2...
inline FileBytes file_bytes(std::uint64_t length, const std::string& header,
                            std::size_t data_bytes) {
  FileBytes bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) {
    bytes[8 + header.size() + i] = static_cast<std::byte>(i & 0xff);
  }
  return bytes;
}
inline FileBytes file_bytes(const std::string& header, std::size_t data_bytes) {
  return file_bytes(header.size(), header, data_bytes);
}

inline engine::SafetensorsFile parse(const FileBytes& bytes) {
  return engine::SafetensorsFile::parse(bytes, "case");
}

}  // namespace versieve::test
