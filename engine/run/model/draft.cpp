#include "engine/run/model/draft.h"

#include <algorithm>
#include <bit>

#include "engine/run/model/append.h"
#include "model/words/assert.h"

namespace versieve::engine {
template <class T>
Draft<T>::Draft(kernels::Ops<T>& ops, const DraftShape& shape, DraftWeights<T> weights,
                const T* embedding)
    : ops_(&ops),
      shape_(shape),
      weights_(std::move(weights)),
      embedding_(weights_.embedding.data() != nullptr ? weights_.embedding.data() : embedding) {
  if (shape_.rope.kind != RopeKind::kDefault) {
    frequency_ = {ops, rotary_frequencies(shape_.rope_theta, shape_.head_dim, shape_.rope)};
  }
}

template <class T>
std::int32_t Draft<T>::target_token(std::int32_t draft_token) const {
  return has_own_vocabulary() ? weights_.target_token[static_cast<std::size_t>(draft_token)]
                              : draft_token;
}

template <class T>
void Draft<T>::reserve(std::int64_t positions) {
  if (positions <= capacity_) {
    return;
  }
  constexpr std::int64_t kFewest = 512;  // short prompts of any length leave recordings as they are
  const std::int64_t capacity = std::max({positions, 2 * capacity_, kFewest});
  for (Buffer* buffer : {&k_, &v_}) {
    Buffer larger(*ops_, capacity * kv_width());
    if (capacity_ > 0) {
      ops_->copy_rows({.rows = std::min(length_, capacity_),
                       .width = kv_width(),
                       .src = buffer->data(),
                       .dst = larger.data(),
                       .term = TrafficTerm::kDraft});
      ops_->synchronize();
    }
    *buffer = std::move(larger);
  }
  capacity_ = capacity;
}

template <class T>
void Draft<T>::truncate(std::int64_t length) {
  VERSIEVE_ASSERT(length >= 1 && length <= length_, "only newest entries are forgotten");
  length_ = length;
}

template <class T>
void Draft<T>::ensure_rows(std::int64_t rows) {
  if (rows <= rows_) {
    return;
  }
  // In powers of two, as the target's: recordings name the rows.
  rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  rows_ = rows;
  ensure_count(*ops_, captured_, rows * 3 * shape_.hidden);
  ensure_count(*ops_, feature_, rows * shape_.hidden);
  ensure_count(*ops_, input_, rows * 2 * shape_.hidden);
  ensure_count(*ops_, query_, rows * q_width());
  ensure_count(*ops_, attention_, rows * q_width());
  ensure_count(*ops_, weighted_, rows * shape_.hidden);
  for (kernels::OpsBuffer<T, kernels::SquareSum>& squares : squares_) {
    squares = {*ops_, std::vector<kernels::SquareSum>(static_cast<std::size_t>(rows))};
  }
  ensure_count(*ops_, joint_, rows * (q_width() + 2 * kv_width()));
  ensure_count(*ops_, cosine_, rows * shape_.head_dim / 2);
  ensure_count(*ops_, sine_, rows * shape_.head_dim / 2);
  ensure_count(*ops_, mlp_, rows * shape_.intermediate);
}

// The slots' rows are kept when the buffers grow.
template <class T>
void Draft<T>::ensure_slots(std::int64_t slots) {
  if (slots <= slot_capacity_) {
    return;
  }
  const std::int64_t capacity = std::max<std::int64_t>({slots, 2 * slot_capacity_, 64});
  const auto regrow = [&](Buffer& buffer, std::int64_t rows, std::int64_t old_rows,
                          std::int64_t width) {
    Buffer larger(*ops_, rows * width);
    if (old_rows > 0) {
      ops_->copy_rows(
          {.rows = old_rows, .width = width, .src = buffer.data(), .dst = larger.data()});
      ops_->synchronize();
    }
    buffer = std::move(larger);
  };
  regrow(k_tree_, capacity, slot_capacity_, kv_width());
  regrow(v_tree_, capacity, slot_capacity_, kv_width());
  regrow(output_, capacity + 1, slot_capacity_ == 0 ? 0 : slot_capacity_ + 1, shape_.hidden);
  slot_capacity_ = capacity;
}

template <class T>
void Draft<T>::linear(std::int64_t rows, const T* x, const T* w, std::int64_t k, std::int64_t m,
                      T* y, const T* residual) {
  ops_->linear({.n = rows,
                .k = k,
                .m = m,
                .x = x,
                .w = w,
                .residual = residual,
                .y = y,
                .weight_term = TrafficTerm::kDraft});
}

template <class T>
void Draft<T>::embed(std::int64_t rows, const std::int32_t* tokens, const std::int32_t* positions,
                     const std::int32_t* feature_row) {
  ops_->embed({.token = {.n = rows,
                         .k = shape_.hidden,
                         .y_stride = 2 * shape_.hidden,
                         .eps = shape_.norm_eps,
                         .x_row = tokens,
                         .x = embedding_,
                         .weight = weights_.layer.input_norm.data(),
                         .y = input_.data()},
               .feature = {.n = rows,
                           .k = shape_.hidden,
                           .y_stride = 2 * shape_.hidden,
                           .eps = shape_.norm_eps,
                           .x_row = feature_row,
                           .x = feature_row == nullptr ? feature_.data() : output_.data(),
                           .weight = weights_.hidden_norm.data(),
                           .y = input_.data() + shape_.hidden,
                           .copy = feature_row == nullptr ? nullptr : feature_.data()},
               .angles = {.n = rows,
                          .head_dim = shape_.head_dim,
                          .theta = shape_.rope_theta,
                          .frequency = frequency_.data(),
                          .scale = shape_.rope.attention_factor,
                          .position = positions,
                          .cosine = cosine_.data(),
                          .sine = sine_.data()}});
  if (shape_.norm_before_residual) {  // the residual is the normed feature
    ops_->copy_rows({.rows = rows,
                     .width = shape_.hidden,
                     .src_stride = 2 * shape_.hidden,
                     .src = input_.data() + shape_.hidden,
                     .dst = feature_.data(),
                     .term = TrafficTerm::kDraft});
  }
}

template <class T>
void Draft<T>::project(std::int64_t rows) {
  linear(rows, input_.data(), weights_.layer.joint.data(), 2 * shape_.hidden,
         q_width() + 2 * kv_width(), joint_.data());
}

template <class T>
kernels::JointQueries<T> Draft<T>::joint_queries() const {
  return {.x = joint_.data(),
          .cosine = cosine_.data(),
          .sine = sine_.data(),
          .k = k_tree_.data(),
          .v = v_tree_.data()};
}

template <class T>
void Draft<T>::take_apart(std::int64_t rows, T* k, T* v, const std::int32_t* cache_row, T* k_cache,
                          T* v_cache) {
  ops_->rope_append({.n = rows,
                     .num_heads = shape_.num_heads,
                     .num_kv_heads = shape_.num_kv_heads,
                     .head_dim = shape_.head_dim,
                     .x = joint_.data(),
                     .cosine = cosine_.data(),
                     .sine = sine_.data(),
                     .q = query_.data(),
                     .k = k,
                     .v = v,
                     .cache_row = cache_row,
                     .k_cache = k_cache,
                     .v_cache = v_cache});
}

// Each layer that reads normed rows clears the sums that the next one adds to.
template <class T>
void Draft<T>::finish(std::int64_t rows, const T* feature, T* output) {
  const LayerWeights<T>& w = weights_.layer;
  kernels::SquareSum* const inner = squares_[0].data();
  kernels::SquareSum* const last = squares_[1].data();
  const auto to_norm = [&](const T* x, const Buffer& weights, std::int64_t k, const T* residual,
                           const Buffer& norm, kernels::SquareSum* squares) {
    ops_->linear(
        {.n = rows,
         .k = k,
         .m = shape_.hidden,
         .x = x,
         .w = weights.data(),
         .residual = residual,
         .y = output,
         .norm = {.y_weight = norm.data(), .y_weighted = weighted_.data(), .y_squares = squares},
         .weight_term = TrafficTerm::kDraft});
  };
  to_norm(attention_.data(), w.output, q_width(), feature, w.post_norm, inner);
  ops_->linear({.n = rows,
                .k = shape_.hidden,
                .m = shape_.intermediate,
                .swiglu = true,
                .x = weighted_.data(),
                .w = w.mlp_gate_up.data(),
                .y = mlp_.data(),
                .norm = {.x_squares = inner, .eps = shape_.norm_eps, .cleared = last},
                .weight_term = TrafficTerm::kDraft});
  to_norm(mlp_.data(), w.mlp_down, shape_.intermediate, output, weights_.norm, last);
  ensure_count(*ops_, logits_, rows * shape_.vocab);
  ops_->linear({.n = rows,
                .k = shape_.hidden,
                .m = shape_.vocab,
                .x = weighted_.data(),
                .w = weights_.head.data(),
                .y = logits_.data(),
                .norm = {.x_squares = last, .eps = shape_.norm_eps, .cleared = inner},
                .weight_term = TrafficTerm::kDraft});
}

template <class T>
void Draft<T>::extend(std::int64_t first, std::span<const std::int32_t> tokens, const T* captured,
                      std::span<const std::int32_t> rows, bool reads_out) {
  const std::int64_t count = static_cast<std::int64_t>(tokens.size());
  VERSIEVE_ASSERT(count >= 1 && rows.size() == tokens.size(), "one captured row an entry");
  VERSIEVE_ASSERT(first >= 1, "position 0 has no entry");
  reserve(first + count);
  ensure_rows(count);
  ensure_slots(1);
  std::vector<std::int32_t> ints(tokens.begin(), tokens.end());
  for (std::int64_t i = 0; i < count; ++i) {
    ints.push_back(static_cast<std::int32_t>(first + i));
  }
  append(ints, rows);
  ints.push_back(-1);  // parent of the newest entry, read as a tree of one node
  const std::int32_t* staged = staged_.upload(*ops_, ints);
  ops_->copy_rows({.rows = count,
                   .width = 3 * shape_.hidden,
                   .src_row = staged + 2 * count,
                   .src = captured,
                   .dst = captured_.data(),
                   .term = TrafficTerm::kDraft});
  linear(count, captured_.data(), weights_.fuse.data(), 3 * shape_.hidden, shape_.hidden,
         feature_.data());
  embed(count, staged, staged + count);
  project(count);
  take_apart(count, k_.data() + first * kv_width(), v_.data() + first * kv_width());
  length_ = first + count;
  slot_parent_.clear();
  slot_position_.clear();
  if (reads_out) {
    read_out(first + count - 1, staged, count);
  }
}

// The newest entry's output: its query and keys are there, so it is a tree of one node over the
// positions before it.
template <class T>
void Draft<T>::read_out(std::int64_t row, const std::int32_t* ints, std::int64_t rows) {
  const std::int32_t* position = ints + 2 * rows - 1;
  ops_->tree_attention({.num_heads = shape_.num_heads,
                        .num_kv_heads = shape_.num_kv_heads,
                        .head_dim = shape_.head_dim,
                        .context_len = row,
                        .first_position = 1,
                        .window = shape_.window,
                        .num_queries = 1,
                        .num_nodes = 1,
                        .parent = ints + 3 * rows,
                        .position = position,
                        .q = query_.data() + (rows - 1) * q_width(),
                        .k = k_.data(),
                        .v = v_.data(),
                        .k_tree = k_.data() + row * kv_width(),
                        .v_tree = v_.data() + row * kv_width(),
                        .out = attention_.data(),
                        .cache_term = TrafficTerm::kDraft});
  finish(1, feature_.data() + (rows - 1) * shape_.hidden, output_.data());
}

template <class T>
void Draft<T>::step(const Nodes& nodes) {
  const std::int64_t count = static_cast<std::int64_t>(nodes.token.size());
  const std::int64_t before = static_cast<std::int64_t>(slot_parent_.size());
  ensure_rows(count);
  ensure_slots(before + count);
  append(slot_parent_, nodes.parent);
  append(slot_position_, nodes.position);
  std::vector<std::int32_t> ints = nodes.token;
  append(ints, nodes.position);
  for (std::int64_t i = 0; i < count; ++i) {
    ints.push_back(static_cast<std::int32_t>(before + i));  // query_node
  }
  for (const std::int32_t parent : nodes.parent) {
    ints.push_back(parent + 1);  // row of output_
  }
  append(ints, slot_parent_);
  append(ints, slot_position_);
  const std::int32_t* staged = staged_.upload(*ops_, ints);
  embed(count, staged, staged + count, staged + 3 * count);
  project(count);
  ops_->tree_attention({.joint = joint_queries(),
                        .num_heads = shape_.num_heads,
                        .num_kv_heads = shape_.num_kv_heads,
                        .head_dim = shape_.head_dim,
                        .context_len = length_,
                        .first_position = 1,
                        .window = shape_.window,
                        .num_queries = count,
                        .num_nodes = before + count,
                        .query_node = staged + 2 * count,
                        .parent = staged + 4 * count,
                        .position = staged + 4 * count + before + count,
                        .k = k_.data(),
                        .v = v_.data(),
                        .k_tree = k_tree_.data(),
                        .v_tree = v_tree_.data(),
                        .out = attention_.data(),
                        .cache_term = TrafficTerm::kDraft});
  finish(count, feature_.data(), output_.data() + (1 + before) * shape_.hidden);
}

template <class T>
std::vector<T> Draft<T>::newest_feature() const {
  std::vector<T> values(static_cast<std::size_t>(shape_.hidden));
  ops_->download(values.data(), output_.data(), values.size() * sizeof(T));
  return values;
}

template class Draft<double>;
template class Draft<float>;
template class Draft<Bf16>;

}  // namespace versieve::engine
