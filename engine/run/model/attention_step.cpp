#include "engine/run/model/attention_step.h"

namespace versieve::engine {

template <class T>
TreeKv<T>::TreeKv(kernels::Ops<T>& ops, const LlmShape& shape, bool keeps_raw_keys)
    : ops_(&ops),
      layers_(shape.layers),
      width_(shape.kv_width()),
      compresses_(shape.attention == AttentionKind::kNsa),
      keeps_raw_(keeps_raw_keys) {}

template <class T>
void TreeKv<T>::ensure_rows(std::int64_t rows) {
  rows_ = rows;
  const std::int64_t count = layers_ * rows * width_;
  ensure_count(*ops_, k_, count);
  ensure_count(*ops_, v_, count);
  if (compresses_) {
    ensure_count(*ops_, k_cmp_, count);
    ensure_count(*ops_, v_cmp_, count);
  }
  if (keeps_raw_) {
    ensure_count(*ops_, k_raw_, count);
  }
}

template <class T>
TreeRows<T> TreeKv<T>::view() const {
  return {.layer_rows = rows_,
          .k = k_.data(),
          .v = v_.data(),
          .k_raw = k_raw_.data(),
          .k_cmp = k_cmp_.data(),
          .v_cmp = v_cmp_.data()};
}

template class TreeKv<double>;
template class TreeKv<float>;
template class TreeKv<Bf16>;

}  // namespace versieve::engine
