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

}  // namespace

PageRuns::PageRuns(std::int64_t pages) : pages_(pages) {
  VERSIEVE_ASSERT(pages >= 1, "a pool has a page");
  free_.push_back({0, pages});
}

std::int64_t PageRuns::free_pages() const {
  std::int64_t count = 0;
  for (const PageRun& run : free_) {
    count += run.count;
  }
  return count;
}

// From an end of a free run.
void PageRuns::take(const PageRun& run) {
  const auto from = std::find_if(free_.begin(), free_.end(), [&](const PageRun& other) {
    return other.first <= run.first && run.first + run.count <= other.first + other.count;
  });
  VERSIEVE_ASSERT(from != free_.end(), "pages are free before they are taken");
  from->first += from->first == run.first ? run.count : 0;
  from->count -= run.count;
  if (from->count == 0) {
    free_.erase(from);
  }
}

std::optional<PageRun> PageRuns::try_take(std::int64_t count,
                                          const std::function<std::int64_t(const PageRun&)>& cost) {
  VERSIEVE_ASSERT(count >= 1, "a sequence has a page");
  std::optional<PageRun> best;
  std::int64_t least = 0;
  for (const PageRun& run : free_) {
    for (const std::int64_t first : {run.first, run.first + run.count - count}) {
      const PageRun place{first, count};
      const std::int64_t asked = run.count >= count && cost ? cost(place) : 0;
      if (run.count >= count && (!best || asked < least)) {
        best = place;
        least = asked;
      }
    }
  }
  if (best) {
    take(*best);
  }
  return best;
}

void PageRuns::give_back(const PageRun& run) {
  auto next = std::find_if(free_.begin(), free_.end(),
                           [&](const PageRun& other) { return other.first > run.first; });
  VERSIEVE_ASSERT(next == free_.end() || run.first + run.count <= next->first,
                  "pages are given back once");
  next = free_.insert(next, run);
  if (next + 1 != free_.end() && next->first + next->count == (next + 1)->first) {
    next->count += (next + 1)->count;
    free_.erase(next + 1);
  }
  if (next != free_.begin()) {
    const auto before = next - 1;
    VERSIEVE_ASSERT(before->first + before->count <= next->first, "pages are given back once");
    if (before->first + before->count == next->first) {
      before->count += next->count;
      free_.erase(next);
    }
  }
}

template <class T>
KvPool<T>::KvPool(kernels::Ops<T>& ops, const LlmShape& shape, const DraftShape* draft,
                  std::int64_t pages)
    : ops_(&ops), shape_(shape), pages_(pages), page_compressed_(compressed_a_page(shape)) {
  const std::int64_t tokens = pages * kPageTokens;
  const std::int64_t rows = shape.layers * tokens * shape.kv_width();
  k_ = Buffer(ops, rows);
  v_ = Buffer(ops, rows);
  if (keeps_raw(shape)) {
    k_raw_ = Buffer(ops, rows);
  }
  if (is_nsa(shape)) {
    const std::int64_t compressed = shape.layers * pages * page_compressed_ * shape.kv_width();
    k_cmp_ = Buffer(ops, compressed);
    v_cmp_ = Buffer(ops, compressed);
  }
  if (draft != nullptr) {
    draft_width_ = draft->num_kv_heads * draft->head_dim;
    draft_k_ = Buffer(ops, tokens * draft_width_);
    draft_v_ = Buffer(ops, tokens * draft_width_);
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
KvCache<T> KvPool<T>::cache_in(const PageRun& run) {
  const std::int64_t width = shape_.kv_width();
  const std::int64_t token = run.first * kPageTokens * width;
  const std::int64_t compressed = run.first * page_compressed_ * width;
  const auto from = [](const Buffer& buffer, std::int64_t at) {
    return buffer.data() == nullptr ? nullptr : buffer.data() + at;
  };
  return KvCache<T>(*ops_, shape_,
                    {.capacity = run.count * kPageTokens,
                     .layer_rows = pages_.pages() * kPageTokens,
                     .cmp_capacity = run.count * page_compressed_,
                     .cmp_layer_rows = pages_.pages() * page_compressed_,
                     .first_row = run.first * kPageTokens,
                     .cmp_first_row = run.first * page_compressed_,
                     .k = from(k_, token),
                     .v = from(v_, token),
                     .k_raw = from(k_raw_, token),
                     .k_cmp = from(k_cmp_, compressed),
                     .v_cmp = from(v_cmp_, compressed)});
}

template <class T>
void KvPool<T>::copy_prefix(std::int64_t from, std::int64_t to, std::int64_t tokens) {
  if (from == to) {
    return;
  }
  const auto copy = [&](const Buffer& buffer, std::int64_t layers, std::int64_t page_rows,
                        std::int64_t rows, std::int64_t width) {
    if (buffer.data() != nullptr && rows > 0) {
      const std::int64_t stride = pages_.pages() * page_rows * width;
      ops_->copy_rows({.rows = layers,
                       .width = rows * width,
                       .src_stride = stride,
                       .dst_stride = stride,
                       .src = buffer.data() + from * page_rows * width,
                       .dst = buffer.data() + to * page_rows * width,
                       .term = TrafficTerm::kKvAppend});
    }
  };
  for (const Buffer* buffer : {&k_, &v_, &k_raw_}) {
    copy(*buffer, shape_.layers, kPageTokens, tokens, shape_.kv_width());
  }
  if (is_nsa(shape_)) {
    const std::int64_t rows = compressed_count(shape_.nsa, tokens);
    for (const Buffer* buffer : {&k_cmp_, &v_cmp_}) {
      copy(*buffer, shape_.layers, page_compressed_, rows, shape_.kv_width());
    }
  }
  // A token completes the entry that follows it, of which the page after these is not asked.
  const std::int64_t entries = std::min(tokens + 1, pages_of(tokens) * kPageTokens);
  for (const Buffer* buffer : {&draft_k_, &draft_v_}) {
    copy(*buffer, 1, kPageTokens, entries, draft_width_);
  }
}

namespace {

// Rows of all layers, of source and of destination; a destination is counted from the
// first row of the sequence that lies first.
struct RowPairs {
  std::vector<std::int32_t> source, destination;

  void add(std::int64_t layers, const std::vector<std::int32_t>& rows, std::int64_t source_stride,
           std::int64_t stride, std::int64_t first) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        source.push_back(static_cast<std::int32_t>(layer * source_stride + rows[i]));
        destination.push_back(
            static_cast<std::int32_t>(layer * stride + first + static_cast<std::int64_t>(i)));
      }
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(source.size()); }
};

}  // namespace

template <class T>
void append_rows(kernels::Ops<T>& ops, const LlmShape& shape, const TreeRows<T>& rows,
                 const std::vector<CommittedRows<T>>& commits, DeviceInts<T>& staged) {
  const KvCache<T>& origin =
      *std::min_element(commits.begin(), commits.end(),
                        [](const CommittedRows<T>& a, const CommittedRows<T>& b) {
                          return a.cache->k(0) < b.cache->k(0);
                        })
           ->cache;
  const std::int64_t width = shape.kv_width();
  RowPairs tokens, compressed;
  for (const CommittedRows<T>& commit : commits) {
    KvCache<T>& cache = *commit.cache;
    VERSIEVE_ASSERT(cache.rows().layer_rows == origin.rows().layer_rows, "caches of one pool");
    const std::int64_t count = static_cast<std::int64_t>(commit.nodes.size());
    VERSIEVE_ASSERT(cache.length() + count <= cache.capacity(), "a sequence's pages hold its rows");
    tokens.add(shape.layers, commit.nodes, rows.layer_rows, cache.rows().layer_rows,
               (cache.k(0) - origin.k(0)) / width + cache.length());
    if (is_nsa(shape)) {
      compressed.add(shape.layers, commit.compressed, rows.layer_rows, cache.rows().cmp_layer_rows,
                     (cache.k_cmp(0) - origin.k_cmp(0)) / width + cache.compressed_length());
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
  const KvRows<T>& to = origin.rows();
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
