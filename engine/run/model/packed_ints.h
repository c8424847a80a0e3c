// Lists of unlike elements that go to the device in one upload of ints (DeviceInts).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace versieve::engine {

class PackedInts {
 public:
  // Where the list begins, in ints: a multiple of its elements' alignment.
  template <class E>
  std::int64_t add(const std::vector<E>& values) {
    static_assert(std::is_trivially_copyable_v<E> && sizeof(E) % sizeof(std::int32_t) == 0);
    constexpr std::size_t kAlign = alignof(E) / sizeof(std::int32_t);
    const std::size_t place = (ints_.size() + kAlign - 1) / kAlign * kAlign;
    const std::size_t more = values.size() * (sizeof(E) / sizeof(std::int32_t));
    ints_.insert(ints_.end(), place - ints_.size() + more, 0);
    if (!values.empty()) {
      std::memcpy(ints_.data() + place, values.data(), values.size() * sizeof(E));
    }
    return static_cast<std::int64_t>(place);
  }
  const std::vector<std::int32_t>& ints() const { return ints_; }
  // That list of what was uploaded, whose memory is aligned for all of them.
  template <class E>
  static const E* at(const std::int32_t* uploaded, std::int64_t place) {
    return reinterpret_cast<const E*>(uploaded + place);
  }

 private:
  std::vector<std::int32_t> ints_;
};

}  // namespace versieve::engine
