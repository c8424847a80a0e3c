#include "engine/run/model/kv_pool.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

bool is_nsa(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa;
}

bool keeps_raw(const LlmShape& shape) {
  return is_nsa(shape) && shape.compress_stage == CompressStage::kBeforeRope;
}

// As many as 64 tokens complete at most.
std::int64_t compressed_a_page(const LlmShape& shape) {
  const std::int64_t stride = shape.nsa.cmp_stride;
  return is_nsa(shape) ? (kPageTokens + stride - 1) / stride : 0;
}

// Of each sequence beside what its pages complete: one that it does not fill, one whose other part
// is a sequence's that it shares pages with.
constexpr std::int64_t kOwnCompressed = 2;

std::int64_t compressed_page_count(const LlmShape& shape, std::int64_t pages,
                                   std::int64_t sequences) {
  return is_nsa(shape) ? pages_of(pages * compressed_a_page(shape)) + kOwnCompressed * sequences
                       : 0;
}

// Whole cache lines of a table.
std::int64_t table_lines(std::int64_t pages) {
  return (pages + 31) / 32 * 32;
}
// Of a sequence that takes all it may of a pool of so many pages.
std::int64_t table_ints(const LlmShape& shape, std::int64_t pages) {
  const std::int64_t most = std::min(pages, pages_of(shape.max_position + kPageTokens) + 1);
  return table_lines(most) + table_lines(compressed_page_count(shape, most, 0));
}

}  // namespace

template <class T>
KvPool<T>::KvPool(kernels::Ops<T>& ops, const LlmShape& shape, const DraftShape* draft,
                  std::int64_t pages, std::int64_t sequences, std::uint64_t shuffled,
                  bool has_idle)
    : ops_(&ops),
      shape_(shape),
      tokens_(pages, shuffled),
      compressed_(std::max<std::int64_t>(1, compressed_page_count(shape, pages, sequences)),
                  shuffled),
      idle_pages_(has_idle ? 1 : 0) {
  const std::int64_t rows = shape.layers * page_rows() * shape.kv_width();
  k_ = Buffer(ops, rows);
  v_ = Buffer(ops, rows);
  if (keeps_raw(shape)) {
    k_raw_ = Buffer(ops, rows);
  }
  if (is_nsa(shape)) {
    const std::int64_t compressed = shape.layers * compressed_rows() * shape.kv_width();
    k_cmp_ = Buffer(ops, compressed);
    v_cmp_ = Buffer(ops, compressed);
  }
  if (draft != nullptr) {
    const std::int64_t entries = page_rows() * draft->num_kv_heads * draft->head_dim;
    draft_k_ = Buffer(ops, entries);
    draft_v_ = Buffer(ops, entries);
  }
  table_stride_ = table_ints(shape, pages);
  tables_ = kernels::OpsBuffer<T, std::int32_t>(ops, (sequences + idle_pages_) * table_stride_);
  for (std::int64_t place = sequences; place-- > 0;) {
    free_places_.push_back(place);
  }
  if (has_idle) {
    idle_place_ = sequences;
    clear_idle_page();
  }
}

template <class T>
std::int64_t KvPool<T>::compressed_rows() const {
  return is_nsa(shape_) ? (compressed_.pages() + idle_pages_) * kernels::kPageRows : 0;
}

// Of all layers: what lies there is read, and must be finite.
template <class T>
void KvPool<T>::clear_idle_page() {
  const std::vector<T> zeros(static_cast<std::size_t>(kernels::kPageRows * shape_.kv_width()));
  const auto clear = [&](const Buffer& buffer, std::int64_t rows) {
    for (std::int64_t layer = 0; buffer.count() > 0 && layer < shape_.layers; ++layer) {
      T* const page = buffer.data() + ((layer + 1) * rows - kernels::kPageRows) * shape_.kv_width();
      ops_->upload(page, zeros.data(), zeros.size() * sizeof(T));
    }
  };
  for (const Buffer* const buffer : {&k_, &v_, &k_raw_}) {
    clear(*buffer, page_rows());
  }
  for (const Buffer* const buffer : {&k_cmp_, &v_cmp_}) {
    clear(*buffer, compressed_rows());
  }
}

template <class T>
std::int64_t KvPool<T>::page_bytes(const LlmShape& shape, const DraftShape* draft) {
  const std::int64_t kinds = keeps_raw(shape) ? 3 : 2;
  std::int64_t elements =
      shape.layers * shape.kv_width() * (kinds * kPageTokens + 2 * compressed_a_page(shape));
  if (draft != nullptr) {
    elements += 2 * kPageTokens * draft->num_kv_heads * draft->head_dim;
  }
  return elements * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
std::int64_t KvPool<T>::sequence_bytes(const LlmShape& shape, std::int64_t pages) {
  const std::int64_t rows = is_nsa(shape) ? (kOwnCompressed + 1) * kernels::kPageRows : 0;
  return shape.layers * shape.kv_width() * 2 * rows * static_cast<std::int64_t>(sizeof(T)) +
         table_ints(shape, pages) * static_cast<std::int64_t>(sizeof(std::int32_t));
}

template <class T>
std::int64_t KvPool<T>::idle_bytes(const LlmShape& shape, const DraftShape* draft,
                                   std::int64_t pages) {
  const std::int64_t rows = is_nsa(shape) ? kernels::kPageRows : 0;  // a whole page of compressed
  return page_bytes(shape, draft) +
         shape.layers * shape.kv_width() * 2 * rows * static_cast<std::int64_t>(sizeof(T)) +
         table_ints(shape, pages) * static_cast<std::int64_t>(sizeof(std::int32_t));
}

template <class T>
std::int64_t KvPool<T>::compressed_pages(std::int64_t tokens) const {
  return is_nsa(shape_) ? pages_of(compressed_count(shape_.nsa, tokens)) : 0;
}

template <class T>
PageLists KvPool<T>::prefix_of(const PageLists& pages, std::int64_t count) const {
  const std::int64_t compressed =
      is_nsa(shape_) ? compressed_count(shape_.nsa, count * kPageTokens) / kernels::kPageRows : 0;
  return {{pages.tokens.begin(), pages.tokens.begin() + count},
          {pages.compressed.begin(), pages.compressed.begin() + compressed}};
}

template <class T>
bool KvPool<T>::has_room(std::int64_t pages, const PageLists& prefix) const {
  const auto room = [](const PageAllocator& of, std::int64_t count,
                       const std::vector<std::int32_t>& there) {
    return count - std::ssize(there) <= of.free_pages() - of.free_among(there);
  };
  return !free_places_.empty() && room(tokens_, pages, prefix.tokens) &&
         room(compressed_, compressed_pages(pages * kPageTokens), prefix.compressed);
}

template <class T>
SequencePages KvPool<T>::take(std::int64_t pages, const PageLists& prefix) {
  VERSIEVE_ASSERT(has_room(pages, prefix), "there is room for the sequence");
  SequencePages out;
  const auto take = [](PageAllocator& from, std::int64_t count,
                       const std::vector<std::int32_t>& there) {
    from.hold(there);
    std::vector<std::int32_t> all = there;
    const std::vector<std::int32_t> own = from.take(count - std::ssize(there));
    all.insert(all.end(), own.begin(), own.end());
    return all;
  };
  out.tokens = take(tokens_, pages, prefix.tokens);
  out.compressed = take(compressed_, compressed_pages(pages * kPageTokens), prefix.compressed);
  out.shared = std::ssize(prefix.tokens);
  out.shared_compressed = std::ssize(prefix.compressed);
  out.place = free_places_.back();
  free_places_.pop_back();
  return out;
}

template <class T>
void KvPool<T>::give_back(const SequencePages& pages, std::int64_t remembered) {
  tokens_.release(pages.tokens, remembered / kPageTokens);
  compressed_.release(pages.compressed, compressed_pages(remembered / kPageTokens * kPageTokens));
  free_places_.push_back(pages.place);
}

template <class T>
const std::int32_t* KvPool<T>::upload_table(const SequencePages& pages) {
  const std::int64_t compressed_at = table_lines(std::ssize(pages.tokens));
  const std::size_t count = static_cast<std::size_t>(compressed_at) + pages.compressed.size();
  VERSIEVE_ASSERT(static_cast<std::int64_t>(count) <= table_stride_,
                  "a sequence is no longer than the model's positions");
  const std::size_t bytes = count * sizeof(std::int32_t);
  std::int32_t* const block = static_cast<std::int32_t*>(staged_.block(*ops_, bytes));
  std::fill_n(block, count, 0);
  std::copy(pages.tokens.begin(), pages.tokens.end(), block);
  std::copy(pages.compressed.begin(), pages.compressed.end(), block + compressed_at);
  std::int32_t* const table = tables_.data() + pages.place * table_stride_;
  staged_.send(table, bytes);
  return table;
}

template <class T>
KvCache<T> KvPool<T>::cache_in(const SequencePages& pages) {
  const std::int32_t* const table = upload_table(pages);
  const auto paged = [](const std::vector<std::int32_t>& page, std::int64_t shared,
                        const std::int32_t* device, std::int64_t rows) {
    return PagedRows{.page = page,
                     .table = {.page = device, .count = rows / kernels::kPageRows},
                     .shared_rows = shared * kernels::kPageRows};
  };
  return KvCache<T>(
      *ops_, shape_,
      {.capacity = std::ssize(pages.tokens) * kPageTokens,
       .layer_rows = page_rows(),
       .cmp_capacity = std::ssize(pages.compressed) * kernels::kPageRows,
       .cmp_layer_rows = compressed_rows(),
       .paged = paged(pages.tokens, pages.shared, table, page_rows()),
       .cmp_paged = paged(pages.compressed, pages.shared_compressed,
                          table + table_lines(std::ssize(pages.tokens)), compressed_rows()),
       .k = k_.data(),
       .v = v_.data(),
       .k_raw = k_raw_.data(),
       .k_cmp = k_cmp_.data(),
       .v_cmp = v_cmp_.data()});
}

// As many tokens as any sequence may have.
template <class T>
KvCache<T> KvPool<T>::idle_cache() {
  VERSIEVE_ASSERT(idle_pages_ == 1, "the pool was made with an idle page");
  const std::int64_t most =
      std::min(tokens_.pages(), pages_of(shape_.max_position + kPageTokens) + 1);
  SequencePages pages;
  pages.tokens.assign(static_cast<std::size_t>(most), static_cast<std::int32_t>(tokens_.pages()));
  pages.compressed.assign(static_cast<std::size_t>(compressed_pages(most * kPageTokens)),
                          static_cast<std::int32_t>(compressed_.pages()));
  pages.place = idle_place_;
  return cache_in(pages);
}

template <class T>
void KvPool<T>::copy_compressed(const PageLists& from, const SequencePages& to,
                                std::int64_t tokens) {
  if (!is_nsa(shape_)) {
    return;
  }
  constexpr std::int64_t kRows = kernels::kPageRows;
  const std::int64_t width = shape_.kv_width();
  const std::int64_t end = compressed_count(shape_.nsa, tokens);
  for (std::int64_t page = to.shared_compressed; page * kRows < end; ++page) {
    const std::size_t at = static_cast<std::size_t>(page);
    for (const Buffer* const buffer : {&k_cmp_, &v_cmp_}) {
      ops_->copy_rows({.rows = shape_.layers,
                       .width = std::min(kRows, end - page * kRows) * width,
                       .src_stride = compressed_rows() * width,
                       .dst_stride = compressed_rows() * width,
                       .src = buffer->data() + from.compressed[at] * kRows * width,
                       .dst = buffer->data() + to.compressed[at] * kRows * width,
                       .term = TrafficTerm::kKvAppend});
    }
  }
}

namespace {

// Rows of all layers, of source and of destination.
struct RowPairs {
  std::vector<std::int32_t> source, destination;

  // `rows` follow the sequence's first `length`.
  void add(std::int64_t layers, const std::vector<std::int32_t>& rows, std::int64_t source_stride,
           std::int64_t stride, const PagedRows& paged, std::int64_t length) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t i = std::max<std::int64_t>(0, paged.shared_rows - length);
           i < std::ssize(rows); ++i) {
        source.push_back(
            static_cast<std::int32_t>(layer * source_stride + rows[static_cast<std::size_t>(i)]));
        destination.push_back(static_cast<std::int32_t>(layer * stride + paged.row(length + i)));
      }
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(source.size()); }
};

}  // namespace

template <class T>
void append_rows(kernels::Ops<T>& ops, const LlmShape& shape, const TreeRows<T>& rows,
                 const std::vector<CommittedRows<T>>& commits, DeviceInts<T>& staged) {
  const std::int64_t width = shape.kv_width();
  const KvRows<T>& to = commits.front().cache->rows();
  RowPairs tokens, compressed;
  for (const CommittedRows<T>& commit : commits) {
    KvCache<T>& cache = *commit.cache;
    VERSIEVE_ASSERT(cache.rows().k == to.k, "caches of one pool");
    const std::int64_t count = std::ssize(commit.nodes);
    VERSIEVE_ASSERT(cache.length() + count <= cache.capacity(), "a sequence's pages hold its rows");
    tokens.add(shape.layers, commit.nodes, rows.layer_rows, to.layer_rows, cache.rows().paged,
               cache.length());
    if (is_nsa(shape)) {
      compressed.add(shape.layers, commit.compressed, rows.layer_rows, to.cmp_layer_rows,
                     cache.rows().cmp_paged, cache.compressed_length());
      VERSIEVE_ASSERT(
          compressed_count(shape.nsa, cache.length() + count) ==
              cache.compressed_length() + static_cast<std::int64_t>(commit.compressed.size()),
          "each completed block has its compressed row");
    }
    cache.set_length(cache.length() + count);
  }
  std::vector<std::int32_t> all;
  for (const RowPairs* pairs : {&tokens, &compressed}) {
    all.insert(all.end(), pairs->source.begin(), pairs->source.end());
    all.insert(all.end(), pairs->destination.begin(), pairs->destination.end());
  }
  const std::int32_t* const at = staged.upload(ops, all);
  const auto copy = [&](const T* source, T* destination, const std::int32_t* pairs,
                        std::int64_t count) {
    if (count > 0 && source != nullptr) {
      ops.copy_rows({.rows = count,
                     .width = width,
                     .src_row = pairs,
                     .dst_row = pairs + count,
                     .src = source,
                     .dst = destination,
                     .term = TrafficTerm::kKvAppend});
    }
  };
  copy(rows.k, to.k, at, tokens.count());
  copy(rows.v, to.v, at, tokens.count());
  copy(rows.k_raw, to.k_raw, at, tokens.count());
  copy(rows.k_cmp, to.k_cmp, at + 2 * tokens.count(), compressed.count());
  copy(rows.v_cmp, to.v_cmp, at + 2 * tokens.count(), compressed.count());
}

template class KvPool<double>;
template class KvPool<float>;
template class KvPool<Bf16>;
template void append_rows(kernels::Ops<double>&, const LlmShape&, const TreeRows<double>&,
                          const std::vector<CommittedRows<double>>&, DeviceInts<double>&);
template void append_rows(kernels::Ops<float>&, const LlmShape&, const TreeRows<float>&,
                          const std::vector<CommittedRows<float>>&, DeviceInts<float>&);
template void append_rows(kernels::Ops<Bf16>&, const LlmShape&, const TreeRows<Bf16>&,
                          const std::vector<CommittedRows<Bf16>>&, DeviceInts<Bf16>&);

}  // namespace versieve::engine
