#include "tests/support/mock_cuda/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace versieve::mock_cuda {

void* AddressSpace::allocate(std::size_t bytes) {
  if (base_ == nullptr) {
    void* const all = mmap(reinterpret_cast<void*>(first_), kSpan, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
      return nullptr;
    }
    base_ = static_cast<char*>(all);
  }
  // At odd multiples of 128 (may_be_integers), close to the page behind it, which is nobody's.
  constexpr std::size_t kAlignment = 256, kPast = 128;
  const std::size_t pages = (std::max<std::size_t>(bytes, 1) + kPast + kPage - 1) / kPage * kPage;
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(base_ + next_);
  const std::uint32_t lower = static_cast<std::uint32_t>(at);
  if (lower < kLowest) {
    next_ += kLowest - lower;
  } else if (pages < kLowest && lower + pages > 0xFFFFFFFF) {  // it would go on in integers
    next_ += (std::size_t{1} << 32) + kLowest - lower;
  }
  if (next_ + pages + kPage > kSpan ||
      mprotect(base_ + next_, pages, PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  char* const begin = base_ + next_ + (pages - bytes - kPast) / kAlignment * kAlignment + kPast;
  next_ += pages + kPage;
  blocks_.emplace(begin, Block{.begin = begin, .bytes = bytes});
  live_bytes_ += bytes;
  return begin;
}

bool AddressSpace::release(void* memory) {
  const auto at = blocks_.find(static_cast<const char*>(memory));
  if (at == blocks_.end() || !at->second.live) {
    return false;
  }
  Block& block = at->second;
  block.live = false;
  block.pointers.clear();
  block.copied.clear();
  live_bytes_ -= block.bytes;
  char* const first = base_ + static_cast<std::size_t>(block.begin - base_) / kPage * kPage;
  const std::size_t bytes = static_cast<std::size_t>(block.end() - first);
  const std::size_t pages = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  madvise(first, pages, MADV_DONTNEED);
  mprotect(first, pages, PROT_NONE);
  return true;
}

AddressSpace::Block* AddressSpace::block_of(const void* p) {
  auto at = blocks_.upper_bound(static_cast<const char*>(p));
  if (at == blocks_.begin()) {
    return nullptr;
  }
  return &std::prev(at)->second;
}

std::string AddressSpace::complaint(const void* p, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(p);
  const Block* const block = covers(p) ? block_of(p) : nullptr;
  if (block == nullptr) {
    return "is not in " + name_;
  }
  const std::string of = "a block of " + std::to_string(block->bytes) + " bytes of " + name_;
  if (!block->live) {
    return "is in " + of + " that was freed";
  }
  if (begin + bytes > block->end()) {
    return "ends " + std::to_string(begin + bytes - block->end()) + " bytes beyond " + of;
  }
  return {};
}

void AddressSpace::clear(void* p, std::size_t bytes) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (begin + bytes) / kPage * kPage;
  if (last <= first) {
    std::memset(p, 0, bytes);
    return;
  }
  std::memset(p, 0, first - begin);
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(last), 0, begin + bytes - last);
}

}  // namespace versieve::mock_cuda
