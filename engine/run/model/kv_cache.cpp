#include "engine/run/model/kv_cache.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
KvCache<T>::KvCache(kernels::Ops<T>& ops, const LlmShape& shape)
    : ops_(&ops),
      nsa_(shape.nsa),
      sparse_(shape.attention == AttentionKind::kNsa),
      keeps_raw_(sparse_ && shape.compress_stage == CompressStage::kBeforeRope),
      layers_(shape.layers),
      width_(shape.kv_width()) {}

template <class T>
KvCache<T>::KvCache(kernels::Ops<T>& ops, const LlmShape& shape, const KvRows<T>& rows)
    : KvCache(ops, shape) {
  grows_ = false;
  rows_ = rows;
}

template <class T>
std::int64_t KvCache<T>::compressed_length() const {
  return sparse_ ? compressed_count(nsa_, length_) : 0;
}

template <class T>
void KvCache<T>::reserve(std::int64_t tokens) {
  if (tokens <= rows_.capacity) {
    return;
  }
  VERSIEVE_ASSERT(grows_, "a sequence's pages hold all that it was admitted with");
  const std::int64_t capacity = std::max(tokens, 2 * rows_.capacity);
  regrow(k_, length_, rows_.capacity, capacity);
  regrow(v_, length_, rows_.capacity, capacity);
  if (keeps_raw_) {
    regrow(k_raw_, length_, rows_.capacity, capacity);
  }
  if (sparse_) {
    const std::int64_t cmp_capacity = std::max<std::int64_t>(1, compressed_count(nsa_, capacity));
    regrow(k_cmp_, compressed_length(), rows_.cmp_capacity, cmp_capacity);
    regrow(v_cmp_, compressed_length(), rows_.cmp_capacity, cmp_capacity);
    rows_.cmp_capacity = cmp_capacity;
  }
  rows_.capacity = capacity;
  look_at_buffers();
}

template <class T>
void KvCache<T>::look_at_buffers() {
  rows_.layer_rows = rows_.capacity;
  rows_.cmp_layer_rows = rows_.cmp_capacity;
  rows_.k = k_.data();
  rows_.v = v_.data();
  rows_.k_raw = k_raw_.data();
  rows_.k_cmp = k_cmp_.data();
  rows_.v_cmp = v_cmp_.data();
}

template <class T>
void KvCache<T>::regrow(Buffer& buffer, std::int64_t length, std::int64_t old_capacity,
                        std::int64_t capacity) {
  Buffer larger(*ops_, layers_ * capacity * width_);
  if (length > 0) {
    ops_->copy_rows({.rows = layers_,
                     .width = length * width_,
                     .src_stride = old_capacity * width_,
                     .dst_stride = capacity * width_,
                     .src = buffer.data(),
                     .dst = larger.data(),
                     .term = TrafficTerm::kKvAppend});
    ops_->synchronize();
  }
  buffer = std::move(larger);
}

template <class T>
void KvCache<T>::truncate(std::int64_t length) {
  VERSIEVE_ASSERT(length >= 0 && length <= length_, "only newest tokens are forgotten");
  length_ = length;
}

template <class T>
void KvCache<T>::set_length(std::int64_t length) {
  VERSIEVE_ASSERT(length >= 0 && length <= rows_.capacity, "the rows exist");
  length_ = length;
}

// Source rows of all layers, then destination rows of all layers.
template <class T>
std::vector<std::int32_t> KvCache<T>::row_pairs(std::int64_t layer_rows,
                                                std::span<const std::int32_t> source,
                                                std::int64_t capacity, std::int64_t first) const {
  std::vector<std::int32_t> pairs;
  pairs.reserve(2 * static_cast<std::size_t>(layers_) * source.size());
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    for (const std::int32_t row : source) {
      pairs.push_back(static_cast<std::int32_t>(layer * layer_rows + row));
    }
  }
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      pairs.push_back(
          static_cast<std::int32_t>(layer * capacity + first + static_cast<std::int64_t>(i)));
    }
  }
  return pairs;
}

template <class T>
void KvCache<T>::copy(const T* source, T* destination, const std::int32_t* pairs,
                      std::int64_t rows) {
  ops_->copy_rows({.rows = rows,
                   .width = width_,
                   .src_row = pairs,
                   .dst_row = pairs + rows,
                   .src = source,
                   .dst = destination,
                   .term = TrafficTerm::kKvAppend});
}

template <class T>
void KvCache<T>::append(const TreeRows<T>& rows, std::span<const std::int32_t> nodes,
                        std::span<const std::int32_t> compressed) {
  const std::int64_t count = static_cast<std::int64_t>(nodes.size());
  const std::int64_t cmp_count = static_cast<std::int64_t>(compressed.size());
  reserve(length_ + count);
  VERSIEVE_ASSERT(grows_, "rows of a pool are appended together");
  VERSIEVE_ASSERT(
      !sparse_ || compressed_count(nsa_, length_ + count) == compressed_length() + cmp_count,
      "each completed block has its compressed row");
  std::vector<std::int32_t> pairs = row_pairs(rows.layer_rows, nodes, rows_.layer_rows, length_);
  const std::vector<std::int32_t> cmp_pairs =
      row_pairs(rows.layer_rows, compressed, rows_.cmp_layer_rows, compressed_length());
  pairs.insert(pairs.end(), cmp_pairs.begin(), cmp_pairs.end());
  const std::int32_t* staged = staged_.upload(*ops_, pairs);
  copy(rows.k, rows_.k, staged, layers_ * count);
  copy(rows.v, rows_.v, staged, layers_ * count);
  if (keeps_raw_) {
    copy(rows.k_raw, rows_.k_raw, staged, layers_ * count);
  }
  if (cmp_count > 0) {
    const std::int32_t* cmp_staged = staged + 2 * layers_ * count;
    copy(rows.k_cmp, rows_.k_cmp, cmp_staged, layers_ * cmp_count);
    copy(rows.v_cmp, rows_.v_cmp, cmp_staged, layers_ * cmp_count);
  }
  length_ += count;
}

template class KvCache<double>;
template class KvCache<float>;
template class KvCache<Bf16>;

}  // namespace versieve::engine
