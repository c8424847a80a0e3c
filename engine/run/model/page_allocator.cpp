#include "engine/run/model/page_allocator.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

std::size_t at(std::int32_t page) {
  return static_cast<std::size_t>(page);
}

}  // namespace

PageAllocator::PageAllocator(std::int64_t pages, std::uint64_t shuffled)
    : holders_(static_cast<std::size_t>(pages), 0),
      order_(static_cast<std::size_t>(pages)),
      rank_(static_cast<std::size_t>(pages)),
      remembered_(pages) {
  VERSIEVE_ASSERT(pages >= 1 && pages <= INT32_MAX, "a pool has pages, counted in 32 bits");
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (shuffled != 0) {
    std::mt19937_64 random(shuffled);
    std::shuffle(order_.begin(), order_.end(), random);
  }
  rank_ = order_;
  for (std::int32_t page = 0; page < static_cast<std::int32_t>(pages); ++page) {
    free_.emplace(rank_[at(page)], page);
  }
}

std::int64_t PageAllocator::free_among(std::span<const std::int32_t> some) const {
  return std::count_if(some.begin(), some.end(),
                       [&](std::int32_t page) { return holders(page) == 0; });
}

std::vector<std::int32_t> PageAllocator::take(std::int64_t count) {
  VERSIEVE_ASSERT(count >= 0 && count <= free_pages(), "pages are free before they are taken");
  std::vector<std::int32_t> taken;
  for (auto next = free_.begin(); static_cast<std::int64_t>(taken.size()) < count; ++next) {
    taken.push_back(next->second);
  }
  hold(taken);
  return taken;
}

void PageAllocator::hold(std::span<const std::int32_t> some) {
  for (const std::int32_t page : some) {
    if (holders_[at(page)]++ == 0) {
      free_.erase({rank_[at(page)], page});
    }
    ++held_;
  }
}

void PageAllocator::release(std::span<const std::int32_t> some, std::int64_t remembered) {
  remembered_ += remembered;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::int32_t page = some[i];
    const std::int64_t place = static_cast<std::int64_t>(i);
    VERSIEVE_ASSERT(holders(page) > 0, "pages are given back once");
    --held_;
    if (--holders_[at(page)] == 0) {
      rank_[at(page)] = place < remembered ? remembered_ - place : order_[at(page)];
      free_.emplace(rank_[at(page)], page);
    }
  }
}

}  // namespace versieve::engine
