// The draft head's entries and nodes of several sequences at once: rows of one call, each
// sequence's attention over its own entries and slots. The sums are those of draft.cpp, row by row.
#include <algorithm>

#include "engine/run/model/append.h"
#include "engine/run/model/draft.h"
#include "kernels/ops_together.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Of the nodes that a call runs: tokens, positions, rows of output_ that their features are, and
// sequence after sequence what its attention reads.
struct NodeLists {
  std::vector<std::int32_t> token, position, feature_row, attention;

  // `sequence`: a BatchSequence, which the nodes join.
  template <class Sequence, class Nodes>
  void add(Sequence& sequence, const Nodes& nodes) {
    const std::size_t before = sequence.parent.size();
    append(token, nodes.token);
    append(position, nodes.position);
    append(sequence.parent, nodes.parent);
    append(sequence.position, nodes.position);
    VERSIEVE_ASSERT(static_cast<std::int64_t>(sequence.parent.size()) <= sequence.slots,
                    "slots were asked for");
    for (std::size_t i = 0; i < nodes.token.size(); ++i) {
      feature_row.push_back(sequence.output[static_cast<std::size_t>(nodes.parent[i] + 1)]);
      attention.push_back(static_cast<std::int32_t>(before + i));  // query_node
    }
    append(attention, sequence.parent);
    append(attention, sequence.position);
  }
};

}  // namespace

template <class T>
void Draft<T>::extend_batch(const SharedEntries& shared, std::span<const BatchEntries> sequences,
                            const T* captured) {
  batch_.clear();
  std::vector<std::int32_t> token, position, row, cache_row;
  std::int64_t slots = 0;
  for (const BatchEntries& s : sequences) {
    const std::int64_t count = static_cast<std::int64_t>(s.token.size());
    VERSIEVE_ASSERT(count >= 1 && s.rows.size() == s.token.size(), "one captured row an entry");
    VERSIEVE_ASSERT(s.first >= 1, "position 0 has no entry");
    append(token, s.token);
    append(row, s.rows);
    for (std::int64_t i = 0; i < count; ++i) {
      position.push_back(static_cast<std::int32_t>(s.first + i));
      cache_row.push_back(
          static_cast<std::int32_t>(kernels::row_in_page(s.page.data(), s.first + i)));
    }
    if (s.slots > 0) {
      batch_.push_back({.table = s.table,
                        .newest_row = cache_row.back(),
                        .length = s.first + count,
                        .entry = static_cast<std::int64_t>(token.size()) - 1,
                        .first_slot = slots,
                        .slots = s.slots,
                        .parent = {},
                        .position = {},
                        .output = {static_cast<std::int32_t>(batch_.size())}});
      slots += s.slots;
    }
  }
  const std::int64_t rows = static_cast<std::int64_t>(token.size());
  ensure_rows(rows);
  // Keys and values of entries go to the first slots too, whose own rows follow later.
  ensure_slots(std::max(rows, slots + static_cast<std::int64_t>(batch_.size())));
  std::vector<std::int32_t> ints = token;
  for (const std::vector<std::int32_t>* list : {&position, &row, &cache_row}) {
    append(ints, *list);
  }
  for (const BatchSequence& s : batch_) {
    ints.push_back(static_cast<std::int32_t>(s.entry));
  }
  ints.push_back(-1);  // parent of a newest entry, read as a tree of one node
  const std::int32_t* const staged = staged_.upload(*ops_, ints);
  ops_->copy_rows({.rows = rows,
                   .width = 3 * shape_.hidden,
                   .src_row = staged + 2 * rows,
                   .src = captured,
                   .dst = captured_.data(),
                   .term = TrafficTerm::kDraft});
  linear(rows, captured_.data(), weights_.fuse.data(), 3 * shape_.hidden, shape_.hidden,
         feature_.data());
  embed(rows, staged, staged + rows);
  project(rows);
  take_apart(rows, k_tree_.data(), v_tree_.data(), staged + 3 * rows, shared.k, shared.v);
  if (!batch_.empty()) {
    read_out_batch(shared, staged, rows);
  }
}

// As read_out, of each sequence's newest entry; `ints` are those of extend_batch.
template <class T>
void Draft<T>::read_out_batch(const SharedEntries& shared, const std::int32_t* ints,
                              std::int64_t rows) {
  const std::int64_t count = static_cast<std::int64_t>(batch_.size());
  std::vector<kernels::TreeAttentionParams<T>> calls;
  for (std::int64_t i = 0; i < count; ++i) {
    const BatchSequence& s = batch_[static_cast<std::size_t>(i)];
    const std::int64_t newest = s.length - 1;
    calls.push_back({.num_heads = shape_.num_heads,
                     .num_kv_heads = shape_.num_kv_heads,
                     .head_dim = shape_.head_dim,
                     .context_len = newest,
                     .first_position = 1,
                     .window = shape_.window,
                     .num_queries = 1,
                     .num_nodes = 1,
                     .parent = ints + 4 * rows + count,
                     .position = ints + rows + s.entry,
                     .q = query_.data() + s.entry * q_width(),
                     .pages = s.table,
                     .k = shared.k,
                     .v = shared.v,
                     .k_tree = shared.k + s.newest_row * kv_width(),
                     .v_tree = shared.v + s.newest_row * kv_width(),
                     .out = attention_.data() + i * q_width(),
                     .cache_term = TrafficTerm::kDraft});
  }
  kernels::tree_attention_together<T>(*ops_, calls);
  // The streams that were fused are not needed any more: their rows take the features.
  ops_->copy_rows({.rows = count,
                   .width = shape_.hidden,
                   .src_row = ints + 4 * rows,
                   .src = feature_.data(),
                   .dst = captured_.data(),
                   .term = TrafficTerm::kDraft});
  finish(count, captured_.data(), output_.data());
  batch_outputs_ = count;
}

template <class T>
void Draft<T>::step_batch(const SharedEntries& shared, std::span<const BatchNodes> sequences) {
  NodeLists lists;
  for (const BatchNodes& n : sequences) {
    lists.add(batch_[n.sequence], n.nodes);
  }
  std::vector<std::int32_t> ints = lists.token;
  const std::int64_t rows = static_cast<std::int64_t>(ints.size());
  ensure_rows(rows);
  VERSIEVE_ASSERT(batch_outputs_ + rows <= slot_capacity_ + 1, "slots were asked for");
  for (const std::vector<std::int32_t>* list :
       {&lists.position, &lists.feature_row, &lists.attention}) {
    append(ints, *list);
  }
  const std::int32_t* const staged = staged_.upload(*ops_, ints);
  embed(rows, staged, staged + rows, staged + 2 * rows);
  project(rows);
  const std::int32_t* next = staged + 3 * rows;
  std::int64_t at = 0;
  std::vector<kernels::TreeAttentionParams<T>> calls;
  for (const BatchNodes& n : sequences) {
    BatchSequence& s = batch_[n.sequence];
    const std::int64_t count = static_cast<std::int64_t>(n.nodes.token.size());
    const std::int64_t nodes = static_cast<std::int64_t>(s.parent.size());
    calls.push_back(slot_attention(shared, s, at,
                                   {.first = nodes - count,
                                    .count = count,
                                    .slot = next,
                                    .parent = next + count,
                                    .position = next + count + nodes}));
    next += count + 2 * nodes;
    for (std::int64_t i = 0; i < count; ++i) {
      s.output.push_back(static_cast<std::int32_t>(batch_outputs_ + at + i));
    }
    at += count;
  }
  kernels::tree_attention_together<T>(*ops_, calls);
  finish(rows, feature_.data(), output_.data() + batch_outputs_ * shape_.hidden);
  batch_outputs_ += rows;
}

template <class T>
kernels::TreeAttentionParams<T> Draft<T>::slot_attention(const SharedEntries& shared,
                                                         const BatchSequence& sequence,
                                                         std::int64_t at,
                                                         const LevelTree& slots) const {
  const std::int64_t slot = sequence.first_slot * kv_width();
  return {.joint = {.x = joint_.data() + at * shape_.joint_rows(),
                    .cosine = cosine_.data() + at * shape_.head_dim / 2,
                    .sine = sine_.data() + at * shape_.head_dim / 2,
                    .k = k_tree_.data() + slot,
                    .v = v_tree_.data() + slot},
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = sequence.length,
          .first_position = 1,
          .window = shape_.window,
          .num_queries = slots.count,
          .num_nodes = slots.first + slots.count,
          .query_node = slots.slot,
          .parent = slots.parent,
          .position = slots.position,
          .pages = sequence.table,
          .k = shared.k,
          .v = shared.v,
          .k_tree = k_tree_.data() + slot,
          .v_tree = v_tree_.data() + slot,
          .out = attention_.data() + at * q_width(),
          .cache_term = TrafficTerm::kDraft};
}

template <class T>
void Draft<T>::step_level(const SharedEntries& shared, const Level& level) {
  ensure_rows(level.rows);
  VERSIEVE_ASSERT(batch_outputs_ + level.rows <= slot_capacity_ + 1, "slots were asked for");
  embed(level.rows, level.token, level.position, level.feature_row);
  project(level.rows);
  std::int64_t at = 0;
  std::vector<kernels::TreeAttentionParams<T>> calls;
  for (const LevelTree& tree : level.trees) {
    const BatchSequence& s = batch_[tree.sequence];
    VERSIEVE_ASSERT(tree.first + tree.count <= s.slots, "slots were asked for");
    calls.push_back(slot_attention(shared, s, at, tree));
    at += tree.count;
  }
  kernels::tree_attention_together<T>(*ops_, calls);
  finish(level.rows, feature_.data(), output_.data() + batch_outputs_ * shape_.hidden);
  batch_outputs_ += level.rows;
}

template <class T>
std::int64_t Draft<T>::step_bytes(const DraftShape& shape, std::int64_t rows, std::int64_t slots) {
  const std::int64_t kv = shape.num_kv_heads * shape.head_dim;
  const std::int64_t q = shape.num_heads * shape.head_dim;
  const std::int64_t row =
      7 * shape.hidden + 2 * q + shape.joint_rows() + shape.intermediate + shape.vocab;
  return (rows * row + slots * (2 * kv + shape.hidden)) * static_cast<std::int64_t>(sizeof(T)) +
         rows * (shape.head_dim * 8 + 16);
}

template void Draft<double>::extend_batch(const SharedEntries&, std::span<const BatchEntries>,
                                          const double*);
template void Draft<double>::read_out_batch(const SharedEntries&, const std::int32_t*,
                                            std::int64_t);
template std::int64_t Draft<double>::step_bytes(const DraftShape&, std::int64_t, std::int64_t);
template void Draft<double>::step_batch(const SharedEntries&, std::span<const BatchNodes>);
template void Draft<double>::step_level(const SharedEntries&, const Level&);
template void Draft<float>::extend_batch(const SharedEntries&, std::span<const BatchEntries>,
                                         const float*);
template void Draft<float>::read_out_batch(const SharedEntries&, const std::int32_t*, std::int64_t);
template std::int64_t Draft<float>::step_bytes(const DraftShape&, std::int64_t, std::int64_t);
template void Draft<float>::step_batch(const SharedEntries&, std::span<const BatchNodes>);
template void Draft<float>::step_level(const SharedEntries&, const Level&);
template void Draft<Bf16>::extend_batch(const SharedEntries&, std::span<const BatchEntries>,
                                        const Bf16*);
template void Draft<Bf16>::read_out_batch(const SharedEntries&, const std::int32_t*, std::int64_t);
template std::int64_t Draft<Bf16>::step_bytes(const DraftShape&, std::int64_t, std::int64_t);
template void Draft<Bf16>::step_batch(const SharedEntries&, std::span<const BatchNodes>);
template void Draft<Bf16>::step_level(const SharedEntries&, const Level&);

}  // namespace versieve::engine
