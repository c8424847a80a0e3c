// Which pages of a pool are free, and by how many sequences each of the others is held. Any free
// pages serve.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace versieve::engine {

class PageAllocator {
 public:
  // `shuffled`: not 0: pages are given in an order drawn from it, so that a sequence's lie
  // scattered.
  explicit PageAllocator(std::int64_t pages, std::uint64_t shuffled = 0);

  std::int64_t pages() const { return static_cast<std::int64_t>(holders_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t used_pages() const { return pages() - free_pages(); }
  // Pages that there would be more of, if no two sequences held one.
  std::int64_t saved_pages() const { return held_ - used_pages(); }
  std::int64_t holders(std::int32_t page) const { return holders_[static_cast<std::size_t>(page)]; }
  // Of those, how many nobody holds.
  std::int64_t free_among(std::span<const std::int32_t> some) const;

  // Held once each: the lowest that nobody remembers, then those that are remembered longest.
  // REQUIRES: count <= free_pages().
  std::vector<std::int32_t> take(std::int64_t count);
  // Once more each; also what is free.
  void hold(std::span<const std::int32_t> some);
  // Once less each. What nobody holds is free; the first `remembered` of them are taken after all
  // others, the earlier ones last, since what they hold may be asked for again.
  void release(std::span<const std::int32_t> some, std::int64_t remembered = 0);

 private:
  std::vector<std::int32_t> holders_;
  std::vector<std::int64_t> order_;  // in which pages are given that nobody remembers
  std::vector<std::int64_t> rank_;   // of a page that is free
  std::set<std::pair<std::int64_t, std::int32_t>> free_;  // by rank
  std::int64_t held_ = 0;                                 // by all together
  std::int64_t remembered_ = 0;                           // the next rank of such a page
};

}  // namespace versieve::engine
