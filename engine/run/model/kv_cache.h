// The committed tokens of one sequence on the device: keys and values by position, compressed keys
// and values by block index, and for families that compress before rotary the raw keys, from which
// compressed tokens that reach into a draft tree are built. All layers lie in one buffer a kind, so
// that a commit is one row copy a kind. Rows are only appended: dropping the newest ones is setting
// the length. The rows are its own, which grow, or lie in pages of a pool that many sequences share
// (kv_pool.h), which do not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// What a verification step leaves for the commit, one row a tree node (compressed rows: one an
// owning node), layer after layer.
template <class T>
struct TreeRows {
  std::int64_t layer_rows = 0;  // rows between two layers
  const T* k = nullptr;         // [layers, rows, G, d]
  const T* v = nullptr;
  const T* k_raw = nullptr;  // or null
  const T* k_cmp = nullptr;
  const T* v_cmp = nullptr;
};

// Pages of 64 rows among which those of a sequence lie, in its order (kernels/common/page_table.h).
struct PagedRows {
  std::vector<std::int32_t> page;  // empty: rows lie side by side
  kernels::PageTable table;        // the same in memory of the Ops
  // So many first rows are other sequences' too. They are complete, and are not written again.
  std::int64_t shared_rows = 0;

  std::int64_t row(std::int64_t i) const {
    return kernels::row_in_page(page.empty() ? nullptr : page.data(), i);
  }
  // How many of the rows from `first` on, before `end`, lie side by side.
  std::int64_t run(std::int64_t first, std::int64_t end) const {
    std::int64_t last = first;
    while (last + 1 < end && row(last + 1) == row(last) + 1) {
      ++last;
    }
    return last + 1 - first;
  }
};

// Where a sequence's rows lie: of each layer there is room for `capacity` tokens, `layer_rows` rows
// lie from one layer to the next; compressed rows likewise.
template <class T>
struct KvRows {
  std::int64_t capacity = 0, layer_rows = 0;
  std::int64_t cmp_capacity = 0, cmp_layer_rows = 0;
  PagedRows paged = {}, cmp_paged = {};
  T* k = nullptr;  // [layers, layer_rows, G, d]
  T* v = nullptr;
  T* k_raw = nullptr;  // or null
  T* k_cmp = nullptr;  // [layers, cmp_layer_rows, G, d], of NSA, or null
  T* v_cmp = nullptr;
};

template <class T>
class KvCache {
 public:
  KvCache(kernels::Ops<T>& ops, const LlmShape& shape);
  // In rows that somebody else owns.
  KvCache(kernels::Ops<T>& ops, const LlmShape& shape, const KvRows<T>& rows);

  std::int64_t length() const { return length_; }
  std::int64_t compressed_length() const;
  std::int64_t capacity() const { return rows_.capacity; }
  std::int64_t compressed_capacity() const { return rows_.cmp_capacity; }
  // Makes room for that many tokens, at least doubling; the committed rows stay. REQUIRES: in a
  // pool's pages there is room.
  void reserve(std::int64_t tokens);
  // Forgets all but the oldest `length` tokens. REQUIRES: length <= length().
  void truncate(std::int64_t length);
  // Declares rows filled by other means (synthetic contexts). REQUIRES: reserved.
  void set_length(std::int64_t length);
  // Appends the tree rows `nodes` and the compressed rows `compressed`, both in order of position.
  // REQUIRES: the rows are its own (append_rows, kv_pool.h).
  void append(const TreeRows<T>& rows, std::span<const std::int32_t> nodes,
              std::span<const std::int32_t> compressed);

  T* k(std::int64_t layer) const { return rows_.k + layer * rows_.layer_rows * width_; }
  T* v(std::int64_t layer) const { return rows_.v + layer * rows_.layer_rows * width_; }
  T* k_raw(std::int64_t layer) const { return rows_.k_raw + layer * rows_.layer_rows * width_; }
  T* k_cmp(std::int64_t layer) const { return rows_.k_cmp + layer * rows_.cmp_layer_rows * width_; }
  T* v_cmp(std::int64_t layer) const { return rows_.v_cmp + layer * rows_.cmp_layer_rows * width_; }
  const KvRows<T>& rows() const { return rows_; }
  // Of k, v and raw keys, of k_cmp and v_cmp.
  const kernels::PageTable& pages() const { return rows_.paged.table; }
  const kernels::PageTable& compressed_pages() const { return rows_.cmp_paged.table; }
  // Of a layer: where a token's row lies.
  std::int64_t row_of(std::int64_t token) const { return rows_.paged.row(token); }
  bool keeps_raw_keys() const { return keeps_raw_; }

 private:
  using Buffer = kernels::OpsBuffer<T>;
  void regrow(Buffer& buffer, std::int64_t length, std::int64_t old_capacity,
              std::int64_t capacity);
  void look_at_buffers();
  std::vector<std::int32_t> row_pairs(std::int64_t layer_rows, std::span<const std::int32_t> source,
                                      std::int64_t capacity, std::int64_t first) const;
  void copy(const T* source, T* destination, const std::int32_t* pairs, std::int64_t rows);

  kernels::Ops<T>* ops_;
  NsaGeometry nsa_;
  bool sparse_;
  bool keeps_raw_;
  std::int64_t layers_;
  std::int64_t width_;  // G*d
  bool grows_ = true;
  std::int64_t length_ = 0;
  KvRows<T> rows_;
  Buffer k_, v_, k_raw_, k_cmp_, v_cmp_;  // of a cache that grows
  DeviceInts<T> staged_;
};

}  // namespace versieve::engine
