// The memory of many sequences' committed tokens, counted in pages of 64 tokens and taken once:
// keys, values, raw keys and compressed tokens of the target's layers, and the entries of its draft
// head. A sequence is given all pages that it may come to need, or none, and gives them back at its
// end. Its pages lie side by side: kernels read keys by base and row, not yet through a table of
// pages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/kv_cache.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

inline constexpr std::int64_t kPageTokens = 64;  // NSA's selection block

inline std::int64_t pages_of(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// Pages side by side.
struct PageRun {
  std::int64_t first = 0, count = 0;
};

// Which pages are free; the lowest that fit are given where nothing else is said. What is given
// back joins its neighbours.
class PageRuns {
 public:
  explicit PageRuns(std::int64_t pages);

  std::int64_t pages() const { return pages_; }
  std::int64_t free_pages() const;
  // REQUIRES: count >= 1. `cost`: of the places at either end of what is free, which leave it
  // whole, the cheapest is given, the lowest of those; empty: all cost the same.
  std::optional<PageRun> try_take(std::int64_t count,
                                  const std::function<std::int64_t(const PageRun&)>& cost = {});
  void give_back(const PageRun& run);  // REQUIRES: it was taken

 private:
  void take(const PageRun& run);

  std::int64_t pages_;
  std::vector<PageRun> free_;  // ascending, none touches the next
};

template <class T>
class KvPool {
 public:
  // `draft`: or null. Throws Error(kEnvironment) when the device has no such memory left.
  KvPool(kernels::Ops<T>& ops, const LlmShape& shape, const DraftShape* draft, std::int64_t pages);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  // Device memory of a page.
  static std::int64_t page_bytes(const LlmShape& shape, const DraftShape* draft);

  PageRuns& pages() { return pages_; }
  std::int64_t page_count() const { return pages_.pages(); }
  // An empty sequence in those pages.
  KvCache<T> cache_in(const PageRun& run);
  // The rows of the first `tokens` tokens of the sequence whose pages begin at `from`, and of the
  // compressed tokens and draft entries that they complete, also go to the pages that begin at
  // `to`. REQUIRES: both hold so many; no page is among both, or from == to, which copies nothing.
  void copy_prefix(std::int64_t from, std::int64_t to, std::int64_t tokens);
  // The draft's entries, [pages * 64, G, d]; a sequence's begin at its run's first page.
  T* draft_k() const { return draft_k_.data(); }
  T* draft_v() const { return draft_v_.data(); }

 private:
  using Buffer = kernels::OpsBuffer<T>;

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  PageRuns pages_;
  std::int64_t page_compressed_ = 0;  // rows
  std::int64_t draft_width_ = 0;      // G d of the draft
  Buffer k_, v_, k_raw_, k_cmp_, v_cmp_;
  Buffer draft_k_, draft_v_;
};

// Tree rows that a sequence appends.
template <class T>
struct CommittedRows {
  KvCache<T>* cache = nullptr;
  std::vector<std::int32_t> nodes, compressed;
};

// KvCache::append of several caches of one pool, one row copy a kind.
template <class T>
void append_rows(kernels::Ops<T>& ops, const LlmShape& shape, const TreeRows<T>& rows,
                 const std::vector<CommittedRows<T>>& commits, DeviceInts<T>& staged);

}  // namespace versieve::engine
