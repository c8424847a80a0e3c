// Memory at addresses that never come twice, so that a pointer tells for ever which block it was
// of: of the device, and of the host as the device sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace versieve::mock_cuda {

class AddressSpace {
 public:
  // `name`: in sentences. Addresses are reserved; memory is taken by the blocks alone.
  // `first`: where they are wanted, so that no other pointer's half looks like one of theirs.
  AddressSpace(std::string name, std::uintptr_t first) : name_(std::move(name)), first_(first) {}

  struct Block {
    const char* begin = nullptr;
    std::size_t bytes = 0;
    bool live = true;
    // Where the newest copies from the host left words that point to this space's memory.
    std::map<std::size_t, const char*> pointers = {};
    // Their extents: a copy that meets an older one replaces what that one left.
    std::map<std::size_t, std::size_t> copied = {};

    const char* end() const { return begin + bytes; }
    bool holds(const void* p) const {
      return static_cast<const char*>(p) >= begin && static_cast<const char*>(p) <= end();
    }
  };

  // Zeros, or null where addresses are used up.
  void* allocate(std::size_t bytes);
  // False: no block begins there that is live.
  bool release(void* memory);
  bool covers(const void* p) const {
    return base_ != nullptr && p >= base_ && static_cast<const char*>(p) < base_ + kSpan;
  }
  // Whether a word that looks like an address may be two integers instead, a flag or an enumerator
  // in front of bytes that nobody wrote. Blocks begin where the lower half is no number from 0 up.
  static bool may_be_integers(const void* p) {
    const std::uint32_t lower = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p));
    return lower < kLowest || lower == 0xFFFFFFFF || (lower & 0xFF) <= 1;
  }
  // The block that p was or is of, also just behind its end; null: none.
  Block* block_of(const void* p);
  // Empty, or what is wrong with a pointer to so many bytes, e.g. "3 bytes beyond a block of 8".
  std::string complaint(const void* p, std::size_t bytes);
  // Zeros again, without taking memory where whole pages are set.
  static void clear(void* p, std::size_t bytes);
  std::size_t live_bytes() const { return live_bytes_; }

 private:
  static constexpr std::size_t kSpan = std::size_t{1} << 42;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::uint32_t kLowest = 0x80000000;

  std::string name_;
  std::uintptr_t first_;
  char* base_ = nullptr;
  std::size_t next_ = 0;
  std::size_t live_bytes_ = 0;
  std::map<const char*, Block> blocks_;  // by where they begin
};

}  // namespace versieve::mock_cuda
