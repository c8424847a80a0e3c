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
std::int64_t KvCache<T>::compressed_length() const {
  return sparse_ ? compressed_count(nsa_, length_) : 0;
}

template <class T>
void KvCache<T>::reserve(std::int64_t tokens) {
  if (tokens <= capacity_) {
    return;
  }
  const std::int64_t capacity = std::max(tokens, 2 * capacity_);
  regrow(k_, length_, capacity_, capacity);
  regrow(v_, length_, capacity_, capacity);
  if (keeps_raw_) {
    regrow(k_raw_, length_, capacity_, capacity);
  }
  if (sparse_) {
    const std::int64_t cmp_capacity = std::max<std::int64_t>(1, compressed_count(nsa_, capacity));
    regrow(k_cmp_, compressed_length(), cmp_capacity_, cmp_capacity);
    regrow(v_cmp_, compressed_length(), cmp_capacity_, cmp_capacity);
    cmp_capacity_ = cmp_capacity;
  }
  capacity_ = capacity;
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
  VERSIEVE_ASSERT(length >= 0 && length <= capacity_, "the rows exist");
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
  VERSIEVE_ASSERT(
      !sparse_ || compressed_count(nsa_, length_ + count) == compressed_length() + cmp_count,
      "each completed block has its compressed row");
  std::vector<std::int32_t> pairs = row_pairs(rows.layer_rows, nodes, capacity_, length_);
  const std::vector<std::int32_t> cmp_pairs =
      row_pairs(rows.layer_rows, compressed, cmp_capacity_, compressed_length());
  pairs.insert(pairs.end(), cmp_pairs.begin(), cmp_pairs.end());
  const std::int32_t* staged = staged_.upload(*ops_, pairs);
  copy(rows.k, k_.data(), staged, layers_ * count);
  copy(rows.v, v_.data(), staged, layers_ * count);
  if (keeps_raw_) {
    copy(rows.k_raw, k_raw_.data(), staged, layers_ * count);
  }
  if (cmp_count > 0) {
    const std::int32_t* cmp_staged = staged + 2 * layers_ * count;
    copy(rows.k_cmp, k_cmp_.data(), cmp_staged, layers_ * cmp_count);
    copy(rows.v_cmp, v_cmp_.data(), cmp_staged, layers_ * cmp_count);
  }
  length_ += count;
}

template class KvCache<double>;
template class KvCache<float>;
template class KvCache<Bf16>;

}  // namespace versieve::engine
