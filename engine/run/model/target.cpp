#include "engine/run/model/target.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

bool is_sparse(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa;
}

}  // namespace

template <class T>
Target<T>::Target(kernels::Ops<T>& ops, LlmShape shape, TargetWeights<T> weights,
                  std::vector<std::int64_t> capture_layers)
    : ops_(&ops),
      shape_(std::move(shape)),
      weights_(std::move(weights)),
      capture_layers_(std::move(capture_layers)),
      cache_(ops, shape_),
      tree_kv_(ops, shape_, cache_.keeps_raw_keys()),
      nsa_(ops, shape_),
      dense_(ops, shape_),
      blocks_(ops, shape_),
      indexer_(ops, shape_) {
  VERSIEVE_ASSERT(static_cast<std::int64_t>(weights_.layers.size()) == shape_.layers,
                  "one set of weights a layer");
  VERSIEVE_ASSERT(capture_layers_.empty() || capture_layers_.size() == kCaptureCount,
                  "a draft reads three streams");
  VERSIEVE_ASSERT(shape_.dense_layers.empty() ||
                      (!is_sparse(shape_) &&
                       static_cast<std::int64_t>(shape_.dense_layers.size()) == shape_.layers),
                  "layers differ in a dense target, and each is listed");
  if (shape_.rope.kind != RopeKind::kDefault) {
    frequency_ = {ops, rotary_frequencies(shape_.rope_theta, shape_.head_dim, shape_.rope)};
  }
}

template <class T>
void Target<T>::ensure_rows(std::int64_t nodes) {
  if (nodes <= rows_) {
    return;
  }
  rows_ = std::max(nodes, std::min(2 * rows_, kMostTogether));
  ensure_count(*ops_, hidden_, rows_ * shape_.hidden);
  ensure_count(*ops_, weighted_, rows_ * shape_.hidden);
  ensure_count(*ops_, squares_[0], rows_);
  ensure_count(*ops_, squares_[1], rows_);
  ensure_count(*ops_, query_, rows_ * shape_.q_width());
  ensure_count(*ops_, attention_, rows_ * shape_.q_width());
  ensure_count(*ops_, joint_, rows_ * joint_width());
  ensure_angles();
  ensure_count(*ops_, mlp_, rows_ * shape_.intermediate);
  tree_kv_.ensure_rows(rows_);
  if (!capture_layers_.empty()) {
    ensure_count(*ops_, captured_, rows_ * kCaptureCount * shape_.hidden);
  }
  if (is_sparse(shape_)) {
    ensure_count(*ops_, gates_, rows_ * shape_.num_heads * 3);
    nsa_.ensure_rows(rows_);
  }
}

template <class T>
void Target<T>::ensure_angles() {
  const std::int64_t count = rows_ * shape_.head_dim / 2;
  ensure_count(*ops_, cosine_, count);
  ensure_count(*ops_, sine_, count);
  if (std::any_of(shape_.dense_layers.begin(), shape_.dense_layers.end(),
                  [](const DenseLayer& layer) { return !layer.turns; })) {
    using Sum = kernels::SumOf<T>;
    one_ = {*ops_, std::vector<Sum>(static_cast<std::size_t>(count), Sum{1})};
    zero_ = {*ops_, std::vector<Sum>(static_cast<std::size_t>(count), Sum{0})};
  }
}

template <class T>
void Target<T>::verify(const DraftTree& tree, const VerifyOptions& options) {
  cache_.reserve(std::max<std::int64_t>(length(), 1));
  verify_batch({{.tree = tree, .options = options, .cache = &cache_}});
}

// The forward over the parts whose arrays and sizes are set.
template <class T>
void Target<T>::run_nodes() {
  squares_turn_ = 0;
  count_logits();
  begin_choices();
  ops_->embed({.token = {.n = nodes_.count,
                         .k = shape_.hidden,
                         .x_row = nodes_.token,
                         .x = weights_.embedding.data(),
                         .weight = weights_.layers.front().input_norm.data(),
                         .y = weighted_.data(),
                         .copy = hidden_.data(),
                         .squares = squares_[0].data()},
               .angles = {.n = nodes_.count,
                          .head_dim = shape_.head_dim,
                          .theta = shape_.rope_theta,
                          .frequency = frequency_.data(),
                          .scale = shape_.rope.attention_factor,
                          .position = nodes_.position,
                          .cosine = cosine_.data(),
                          .sine = sine_.data()}});
  capture_embedding();
  if (!try_decode_layers()) {
    run_layers();
  }
  repeat_captures();
  read_out();
}

template <class T>
void Target<T>::run_layers() {
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    run_layer(layer);
  }
}

// The stream that enters layer 0, which no layer writes.
template <class T>
void Target<T>::capture_embedding() {
  if (T* const captured = captured_before(0); captured != nullptr) {
    ops_->copy_rows({.rows = nodes_.count,
                     .width = shape_.hidden,
                     .dst_stride = kCaptureCount * shape_.hidden,
                     .src = hidden_.data(),
                     .dst = captured,
                     .term = TrafficTerm::kDraft});
  }
}

// A stream is written once: further slots of the same layer take it from the first.
template <class T>
void Target<T>::repeat_captures() {
  for (std::size_t slot = 1; slot < capture_layers_.size(); ++slot) {
    T* const first = captured_before(capture_layers_[slot]);
    if (first != captured_slot(slot)) {
      ops_->copy_rows({.rows = nodes_.count,
                       .width = shape_.hidden,
                       .src_stride = kCaptureCount * shape_.hidden,
                       .dst_stride = kCaptureCount * shape_.hidden,
                       .src = first,
                       .dst = captured_slot(slot),
                       .term = TrafficTerm::kDraft});
    }
  }
}

template <class T>
T* Target<T>::captured_before(std::int64_t layer) const {
  const auto slot = std::find(capture_layers_.begin(), capture_layers_.end(), layer);
  return slot == capture_layers_.end()
             ? nullptr
             : captured_slot(static_cast<std::size_t>(slot - capture_layers_.begin()));
}

// The layer that reads the normed stream, from node `first` on.
template <class T>
void Target<T>::linear_of_norm(kernels::LinearParams<T> p, std::int64_t first) {
  p.n = nodes_.count - first;
  p.k = shape_.hidden;
  p.x = weighted_.data() + first * shape_.hidden;
  p.norm = {.x_squares = squares_[squares_turn_].data() + first,
            .eps = shape_.norm_eps,
            .cleared = squares_[1 - squares_turn_].data() + first};
  ops_->linear(p);
}

// The layer that adds to the residual stream, which `norm` follows; the new stream also goes to
// `captured` if not null.
template <class T>
void Target<T>::linear_to_norm(const T* x, const Buffer& w, std::int64_t k, const Buffer& norm,
                               T* captured) {
  squares_turn_ = 1 - squares_turn_;
  ops_->linear({.n = nodes_.count,
                .k = k,
                .m = shape_.hidden,
                .x = x,
                .w = w.data(),
                .residual = hidden_.data(),
                .y = hidden_.data(),
                .y_copy = captured,
                .y_copy_stride = captured == nullptr ? 0 : kCaptureCount * shape_.hidden,
                .norm = {.y_weight = norm.data(),
                         .y_weighted = weighted_.data(),
                         .y_squares = squares_[squares_turn_].data()}});
}

template <class T>
AttentionStep<T> Target<T>::attention_step(const Part& part) const {
  return {.options = part.options,
          .nodes = part.nodes,
          .cache = *part.cache,
          .block_keys = part.choice != nullptr ? part.choice->blocks() : nullptr,
          .tree = TreeKvPart<T>(tree_kv_, part.first_row, part.first_compressed),
          .first_row = part.first_row,
          .keeps_rows_first = piece_rows_.has_value() || part.keeps_rows,
          .frequency = frequency_.data(),
          .q = query_.data() + part.first_row * shape_.q_width(),
          .gates = gates_.data() + part.first_row * shape_.num_heads * 3,
          .out = attention_.data() + part.first_row * shape_.q_width()};
}

template <class T>
void Target<T>::begin_choices() {
  for (const Part& part : parts_) {
    if (part.options.index) {
      indexer_of(part).begin(*part.options.index);
    }
  }
}

template <class T>
std::vector<AttentionStep<T>> Target<T>::prepared_steps() {
  std::vector<AttentionStep<T>> steps;
  for (const Part& part : parts_) {
    if (part.stands_apart()) {
      continue;
    }
    AttentionStep<T> step = attention_step(part);
    step.selected = part.lists.first;
    step.weights = part.capture.weights;
    step.layers = {.list_stride = part.lists.stride,
                   .list_of_layer = part.lists.of_layer,
                   .weights_stride = part.capture.layer_stride,
                   .first_weights = part.capture.first_layer};
    if (part.options.index) {
      IndexSelector<T>& indexer = indexer_of(part);
      step.selected = indexer.announce(part.nodes.context_len);
      step.layers.list_stride = indexer.list_stride();
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// Of a prepared step's layer: the lists that indexers announced.
template <class T>
void Target<T>::choose_tokens(std::int64_t layer) {
  std::vector<typename IndexSelector<T>::Choice> choices;
  for (const Part& part : parts_) {
    if (part.options.index && indexer_of(part).announce(part.nodes.context_len).token != nullptr) {
      choices.push_back(
          {.selector = &indexer_of(part), .layer = dense_.queries_of(attention_step(part), layer)});
    }
  }
  IndexSelector<T>::select_together(*ops_, choices);
}

// Of the parts that no step prepares: each by what it has of its own.
template <class T>
void Target<T>::attend_apart(std::int64_t layer) {
  std::vector<AttentionStep<T>> resa;
  for (const Part& part : parts_) {
    if (part.options.resa) {
      resa.push_back(attention_step(part));
    } else if (part.stands_apart()) {
      dense_.attend(attention_step(part), layer, nullptr, {});
    }
  }
  if (!resa.empty()) {
    blocks_.attend(resa, layer);
  }
}

template <class T>
void Target<T>::attend(std::int64_t layer) {
  if (together_ && is_sparse(shape_)) {
    nsa_.attend_prepared(layer);
    for (const Part& part : parts_) {
      if (part.keeps_rows) {
        nsa_.attend(attention_step(part), layer);
      }
    }
  } else if (is_sparse(shape_)) {
    nsa_.attend(attention_step(parts_[0]), layer);
  } else {
    if (together_) {
      choose_tokens(layer);
      dense_.attend_prepared(layer);
    } else if (parts_[0].options.index) {
      dense_.attend(attention_step(parts_[0]), layer, &indexer_of(parts_[0]), {});
    } else if (!parts_[0].chooses()) {
      dense_.attend(attention_step(parts_[0]), layer);
    }
    attend_apart(layer);
  }
}

template <class T>
void Target<T>::run_layer(std::int64_t layer) {
  const LayerWeights<T>& w = weights_.layers[static_cast<std::size_t>(layer)];
  project(w, layer);
  attend(layer);
  linear_to_norm(attention_.data(), w.output, shape_.q_width(), w.post_norm);
  linear_of_norm(
      {.m = shape_.intermediate, .swiglu = true, .w = w.mlp_gate_up.data(), .y = mlp_.data()});
  linear_to_norm(mlp_.data(), w.mlp_down, shape_.intermediate, norm_after(layer),
                 captured_before(layer + 1));
}

template <class T>
void Target<T>::project(const LayerWeights<T>& w, std::int64_t layer) {
  // A prompt that is one part leaves its rows in the cache at once.
  const bool keeps = piece_rows_.has_value() && parts_.size() == 1;
  const auto rows = [&](T* of_nodes, T* of_cache) {
    return keeps && of_nodes != nullptr ? of_cache + piece_rows_->before * shape_.kv_width()
                                        : of_nodes;
  };
  const bool turns = shape_.dense_layer(layer).turns;
  const bool keeps_any = nodes_.keeps_rows || kept_rows_.of_nodes != nullptr;
  const KvCache<T>& cache = *parts_.front().cache;  // of a pool: its rows, as all parts'
  linear_of_norm({.m = joint_width(), .w = w.joint.data(), .y = joint_.data()});
  ops_->rope_append({.n = nodes_.count,
                     .num_heads = shape_.num_heads,
                     .num_kv_heads = shape_.num_kv_heads,
                     .head_dim = shape_.head_dim,
                     .gate_count = joint_gates(shape_),
                     .x_stride = joint_width(),
                     .x = joint_.data(),
                     .bias = w.bias.data(),
                     .q_norm = w.q_norm.data(),
                     .k_norm = w.k_norm.data(),
                     .norm_eps = shape_.norm_eps,
                     .cosine = turns ? cosine_.data() : one_.data(),
                     .sine = turns ? sine_.data() : zero_.data(),
                     .q = query_.data(),
                     .k_raw = rows(tree_kv_.k_raw(layer), cache_.k_raw(layer)),
                     .k = rows(tree_kv_.k(layer), cache_.k(layer)),
                     .v = rows(tree_kv_.v(layer), cache_.v(layer)),
                     .gates = gates_.data(),
                     .cache_row = nodes_.keeps_rows ? nodes_.position : kept_rows_.of_nodes,
                     .k_cache = keeps_any ? cache.k(layer) : nullptr,
                     .v_cache = keeps_any ? cache.v(layer) : nullptr,
                     .compress = compressed_tokens(w, layer)});
  if (piece_rows_ && !keeps) {
    keep_piece_rows(layer);
  }
  if (kept_rows_.count > 0) {
    keep_compressed_rows(layer);
  }
}

template <class T>
void Target<T>::count_logits() {
  std::int64_t first = nodes_.count;
  for (const Part& part : parts_) {
    if (!part.options.no_logits) {
      first = std::min(first, part.first_logits());
    }
  }
  logits_rows_ = nodes_.count - first;
}

template <class T>
void Target<T>::read_out() {
  if (logits_rows_ > 0) {
    ensure_count(*ops_, logits_, logits_rows_ * shape_.vocab);
    linear_of_norm({.m = shape_.vocab, .w = head(), .y = logits_.data()},
                   nodes_.count - logits_rows_);
  }
}

// The compressed rows of the path's nodes; the path descends from the root.
template <class T>
std::vector<std::int32_t> Target<T>::compressed_of(const Part& part,
                                                   std::span<const std::int32_t> path) const {
  const std::vector<std::int32_t>& owners = part.layout.owner;
  std::vector<std::int32_t> compressed;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::int32_t parent = part.tree.parent[static_cast<std::size_t>(path[i])];
    VERSIEVE_ASSERT(parent == (i == 0 ? -1 : path[i - 1]), "a path descends from the root");
    const auto owner = std::lower_bound(owners.begin(), owners.end(), path[i]);
    if (owner != owners.end() && *owner == path[i]) {
      compressed.push_back(static_cast<std::int32_t>(owner - owners.begin()));
    }
  }
  return compressed;
}

template <class T>
void Target<T>::commit(std::span<const std::int32_t> path) {
  VERSIEVE_ASSERT(parts_.size() == 1 && parts_[0].cache == &cache_, "the last verify was its own");
  cache_.append(tree_kv_.view(), path, compressed_of(parts_[0], path));
  nsa_.set_hint(is_sparse(shape_) ? path.back() : -1);
  const std::int64_t first = length() - static_cast<std::int64_t>(path.size());
  blocks_.update(cache_, first);
  indexer_.update(cache_, first);
}

template <class T>
void Target<T>::keep_choice_keys(const VerifyOptions& options) {
  if (options.resa) {
    blocks_.keep(cache_, options.resa->key_block);
  } else {
    blocks_.drop();
  }
  if (options.index) {
    indexer_.keep(cache_);
  } else {
    indexer_.drop();
  }
}

template <class T>
std::vector<T> Target<T>::read(const Buffer& buffer, std::int64_t count) const {
  std::vector<T> values(static_cast<std::size_t>(count));
  ops_->download(values.data(), buffer.data(), values.size() * sizeof(T));
  return values;
}

template class Target<double>;
template class Target<float>;
template class Target<Bf16>;

}  // namespace versieve::engine
