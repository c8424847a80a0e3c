// Where a trace's buffers lie: one after the other, aligned as a device allocation is.
#pragma once

#include <cstdint>

namespace versieve::engine {

inline constexpr std::uint64_t kFirstAddress = 1ULL << 30;  // line 0 stays free

class AddressSpace {
 public:
  explicit AddressSpace(std::uint64_t first = kFirstAddress) : next_(first) {}
  std::uint64_t place(std::int64_t bytes) {
    constexpr std::uint64_t kAlignment = 512;
    const std::uint64_t at = next_;
    next_ += (static_cast<std::uint64_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

 private:
  std::uint64_t next_;
};

}  // namespace versieve::engine
