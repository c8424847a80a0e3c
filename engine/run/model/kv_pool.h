// The memory of many sequences' committed tokens, counted in pages of 64 tokens and taken once:
// keys, values and raw keys of the target's layers and the entries of its draft head; and in pages
// of 64 compressed tokens. A sequence is given all pages that it may come to need, any that are
// free, or none; kernels find its rows by a table. A page that holds what two sequences begin with
// is both's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/kv_cache.h"
#include "engine/run/model/page_allocator.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

inline constexpr std::int64_t kPageTokens = kernels::kPageRows;  // NSA's selection block

inline std::int64_t pages_of(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// Pages of tokens and of compressed tokens.
struct PageLists {
  std::vector<std::int32_t> tokens, compressed;
};
// Those of a sequence, in its order. The first `shared` and `shared_compressed` are others' too:
// complete, so that it only reads them.
struct SequencePages : PageLists {
  std::int64_t shared = 0, shared_compressed = 0;
  std::int64_t place = -1;  // of its table in the pool
};

template <class T>
class KvPool {
 public:
  // `draft`: or null. `sequences`: that have pages at once, at most. `shuffled`: PageAllocator's.
  // `has_idle`: idle_cache() may be asked for. Throws Error(kEnvironment) when the device has no
  // such memory left.
  KvPool(kernels::Ops<T>& ops, const LlmShape& shape, const DraftShape* draft, std::int64_t pages,
         std::int64_t sequences, std::uint64_t shuffled = 0, bool has_idle = false);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  // Device memory of a page with the compressed tokens that it completes, and what a sequence takes
  // beside its pages: compressed tokens of pages that it shares or does not fill, its table.
  static std::int64_t page_bytes(const LlmShape& shape, const DraftShape* draft);
  static std::int64_t sequence_bytes(const LlmShape& shape, std::int64_t pages);
  // What idle_cache() takes of a pool of so many pages.
  static std::int64_t idle_bytes(const LlmShape& shape, const DraftShape* draft,
                                 std::int64_t pages);

  std::int64_t page_count() const { return tokens_.pages(); }
  const PageAllocator& pages() const { return tokens_; }
  // Of the compressed tokens that so many tokens complete.
  std::int64_t compressed_pages(std::int64_t tokens) const;
  // Of `pages` pages in all as many first ones as `prefix` has, whole, are those; the others are
  // free ones. REQUIRES of take: has_room.
  bool has_room(std::int64_t pages, const PageLists& prefix = {}) const;
  SequencePages take(std::int64_t pages, const PageLists& prefix = {});
  // Those of the first `remembered` tokens may be asked for again (PageAllocator::release).
  void give_back(const SequencePages& pages, std::int64_t remembered = 0);
  // The pages of the first `count` pages of tokens that a sequence which goes on differently may
  // share: of compressed tokens those that are complete.
  PageLists prefix_of(const PageLists& pages, std::int64_t count) const;

  // An empty sequence in those pages, until they are given back.
  KvCache<T> cache_in(const SequencePages& pages);
  // A sequence whose tokens are nobody's (IdleSequences): each page of it is the one behind the
  // pool's, which no sequence is given and which holds zeros, as long as nobody appends to it.
  // REQUIRES: has_idle.
  KvCache<T> idle_cache();
  // Where its draft's entries lie, whatever its cache knows. REQUIRES: cache_in was called.
  kernels::PageTable table_of(const SequencePages& pages) const {
    return {.page = tables_.data() + pages.place * table_stride_,
            .count = page_rows() / kPageTokens};
  }
  // What the first `tokens` tokens complete beside whole shared pages of compressed tokens also
  // goes to the sequence that shares their pages.
  void copy_compressed(const PageLists& from, const SequencePages& to, std::int64_t tokens);
  // The draft's entries, [pages * 64, G, d]; a sequence's lie in its pages of tokens.
  T* draft_k() const { return draft_k_.data(); }
  T* draft_v() const { return draft_v_.data(); }

 private:
  using Buffer = kernels::OpsBuffer<T>;

  // Rows of a layer's keys, and of its compressed tokens, the idle page's among them.
  std::int64_t page_rows() const { return (tokens_.pages() + idle_pages_) * kPageTokens; }
  std::int64_t compressed_rows() const;
  const std::int32_t* upload_table(const SequencePages& pages);
  void clear_idle_page();

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  PageAllocator tokens_, compressed_;
  std::int64_t idle_pages_ = 0;   // 1: behind those of either kind lies one of no sequence
  std::int64_t idle_place_ = -1;  // of its table
  Buffer k_, v_, k_raw_, k_cmp_, v_cmp_;
  Buffer draft_k_, draft_v_;
  // [sequences, table_stride_]: pages of tokens, from the next cache line on of compressed tokens.
  kernels::OpsBuffer<T, std::int32_t> tables_;
  std::int64_t table_stride_ = 0;
  std::vector<std::int64_t> free_places_;
  kernels::StagedUpload<T> staged_;
};

// Tree rows that a sequence appends.
template <class T>
struct CommittedRows {
  KvCache<T>* cache = nullptr;
  std::vector<std::int32_t> nodes, compressed;
};

// KvCache::append of several caches of one pool, one row copy a kind. Rows in shared pages are
// there.
template <class T>
void append_rows(kernels::Ops<T>& ops, const LlmShape& shape, const TreeRows<T>& rows,
                 const std::vector<CommittedRows<T>>& commits, DeviceInts<T>& staged);

}  // namespace versieve::engine
