// SHA-256 (FIPS 180-4): says which file a number is of, so that anyone can check it with sha256sum.
// Where the processor has instructions for it a gigabyte takes a second.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace versieve::engine {

// Of bytes that come piece by piece.
class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex() const;  // 64 lower-case digits, of what was added so far

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string rest_;  // less than a block
  std::uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);
// Throws Error(kBadInput) for a file that cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace versieve::engine
