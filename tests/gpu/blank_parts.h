// LaunchContext::parts of a test, and that launches leave it as they found it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "model/launches/fused_cut.h"
#include "tests/gpu/device.h"

namespace versieve::testing {

class BlankParts {
 public:
  void* data() const { return words_.data(); }

  void check_blank() {
    words_.read(left_);
    std::size_t written = 0;
    for (const std::uint32_t word : left_) {
      written += word != kBlank ? 1 : 0;
    }
    CHECK(written == 0);
  }

 private:
  static constexpr std::size_t kWords = kFusedPartBytes / sizeof(std::uint32_t);
  static constexpr std::uint32_t kBlank = 0xFFFFFFFFU;

  std::vector<std::uint32_t> left_ = std::vector<std::uint32_t>(kWords, kBlank);
  DeviceArray<std::uint32_t> words_{left_};
};

// For tests of many launches: one for all.
inline BlankParts& blank_parts() {
  static BlankParts parts;
  return parts;
}

}  // namespace versieve::testing
