// A step of several sequences: their trees are laid out row after row, and what depends on a
// sequence's own context runs once for each. The forward itself is target.cpp's.
#include <algorithm>
#include <bit>
#include <utility>

#include "engine/run/model/append.h"
#include "engine/run/model/idle_sequences.h"
#include "engine/run/model/kv_pool.h"
#include "engine/run/model/target.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

bool is_nsa(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa;
}

bool is_chain(const DraftTree& tree) {
  for (std::size_t i = 1; i < tree.parent.size(); ++i) {
    if (tree.parent[i] != static_cast<std::int32_t>(i) - 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

template <class T>
typename Target<T>::Part Target<T>::make_part(SequencePart<T> sequence) const {
  const std::string& schedule = sequence.options.schedule;
  VERSIEVE_ASSERT(sequence.tree.size() >= 1 && sequence.tree.parent[0] == -1, "a tree has a root");
  VERSIEVE_ASSERT(schedule.empty() || static_cast<std::int64_t>(schedule.size()) == shape_.layers,
                  "the schedule has one letter a layer");
  const std::int64_t length =
      sequence.idle_context < 0 ? sequence.cache->length() : sequence.idle_context;
  Part part{.tree = std::move(sequence.tree),
            .layout = {},
            .options = std::move(sequence.options),
            .cache = sequence.cache,
            .choice = sequence.choice,
            .lists = sequence.lists,
            .capture = sequence.capture,
            .nodes = {}};
  part.layout = tree_layout(part.tree, length, shape_.nsa, is_nsa(shape_));
  part.nodes = {.count = part.tree.size(),
                .chain = is_chain(part.tree),
                .context_len = length,
                .compressed_rows = part.layout.compressed_rows(),
                .newest_position = part.layout.newest_position()};
  part.keeps_rows = sequence.of_prompt && part.cache->pages().page != nullptr &&
                    part.nodes.count > kMostTogether && attends_at_once(length, part.nodes.count);
  return part;
}

// Among the rows that the sequences share. A prompt's pieces find each other's in the tree.
template <class T>
std::int32_t Target<T>::source_row(const Part& part, std::int32_t source) const {
  std::int64_t row = source;
  if (piece_rows_ && source >= piece_rows_->before) {
    row = piece_rows_->before - source - 1;
  } else if (source >= 0) {
    row = part.cache->row_of(source);
  } else if (together_) {
    row = source - part.first_row;
  }
  return static_cast<std::int32_t>(row);
}

// First what all launches of a step read, at places that follow its shape alone: the counts, tokens
// and positions of all nodes, blocks and sources of all compressed tokens, up to their bound. Then
// each sequence's own lists, whose nodes are counted from its first.
template <class T>
void Target<T>::upload_layout() {
  const std::size_t bound = static_cast<std::size_t>(nodes_.compressed_rows);
  std::vector<std::int32_t> all, blocks, sources;
  if (together_ || alone_) {
    all = {static_cast<std::int32_t>(alone_ ? parts_[0].cache->length() : 0), 0};  // StepCounts
  }
  for (const Part& part : parts_) {
    append(all, part.tree.token);
  }
  for (const Part& part : parts_) {
    append(all, part.layout.position);
    append(blocks, part.layout.block);
    for (const std::int32_t source : part.layout.source) {
      sources.push_back(source_row(part, source));
    }
  }
  if (together_ || alone_) {
    all[1] = static_cast<std::int32_t>(blocks.size());
    blocks.resize(bound);
    sources.resize(bound * static_cast<std::size_t>(is_nsa(shape_) ? shape_.nsa.cmp_block : 0));
  }
  append(all, blocks);
  append(all, sources);
  const std::size_t lists = all.size();
  for (const Part& part : parts_) {
    append(all, part.tree.parent);
    append(all, part.layout.owner);
  }
  if (alone_) {
    all.resize(lists + 2 * static_cast<std::size_t>(nodes_.count));
  }
  const std::size_t kept = all.size();
  append(all, kept_rows());
  const std::int32_t* next = staged_.upload(*ops_, all);
  if (kept < all.size()) {
    kept_rows_.of_nodes = next + kept;
    kept_rows_.compressed = kept_rows_.of_nodes + nodes_.count;
  }
  const std::int32_t* own = next + lists;
  if ((together_ || alone_) && is_nsa(shape_)) {
    static_assert(sizeof(kernels::StepCounts) == 2 * sizeof(std::int32_t));
    nodes_.counts = reinterpret_cast<const kernels::StepCounts*>(next);
  }
  nodes_.token = next + tokens_at();
  nodes_.position = nodes_.token + nodes_.count;
  nodes_.block = nodes_.position + nodes_.count;
  nodes_.source = nodes_.block + blocks.size();
  for (Part& part : parts_) {
    part.nodes.token = nodes_.token + part.first_row;
    part.nodes.position = nodes_.position + part.first_row;
    part.nodes.block = nodes_.block + part.first_compressed;
    part.nodes.source = nodes_.source + part.first_compressed * shape_.nsa.cmp_block;
    part.nodes.parent = own;
    part.nodes.owner = own + part.nodes.count;
    own = part.nodes.owner + part.nodes.compressed_rows;
  }
  if (alone_) {
    parts_[0].nodes.counts = nodes_.counts;
  }
}

// Of each node where its row goes, of compressed tokens where theirs are and go; nothing where no
// part keeps its rows. What other sequences share is complete and stays as it is.
template <class T>
std::vector<std::int32_t> Target<T>::kept_rows() {
  kept_rows_ = {};
  if (std::none_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.keeps_rows; })) {
    return {};
  }
  std::vector<std::int32_t> of_nodes, from, to;
  const auto place = [](const PagedRows& paged, std::int64_t i) {
    return static_cast<std::int32_t>(i < paged.shared_rows ? -1 : paged.row(i));
  };
  for (const Part& part : parts_) {
    const KvRows<T>& rows = part.cache->rows();
    for (std::int64_t i = 0; i < part.nodes.count; ++i) {
      of_nodes.push_back(part.keeps_rows ? place(rows.paged, part.cache->length() + i) : -1);
    }
    for (std::int64_t i = 0; part.keeps_rows && i < part.nodes.compressed_rows; ++i) {
      const std::int32_t row = place(rows.cmp_paged, part.cache->compressed_length() + i);
      if (row >= 0) {
        from.push_back(static_cast<std::int32_t>(part.first_compressed + i));
        to.push_back(row);
      }
    }
  }
  kept_rows_.count = std::ssize(from);
  append(of_nodes, from);
  append(of_nodes, to);
  return of_nodes;
}

// Behind the launch that makes them.
template <class T>
void Target<T>::keep_compressed_rows(std::int64_t layer) {
  const KvCache<T>& cache = *parts_.front().cache;  // of the pool, as all
  const auto copy = [&](const T* from, T* to) {
    ops_->copy_rows({.rows = kept_rows_.count,
                     .width = shape_.kv_width(),
                     .src_row = kept_rows_.compressed,
                     .dst_row = kept_rows_.compressed + kept_rows_.count,
                     .src = from,
                     .dst = to,
                     .term = TrafficTerm::kKvAppend});
  };
  copy(tree_kv_.k_cmp(layer), cache.k_cmp(layer));
  copy(tree_kv_.v_cmp(layer), cache.v_cmp(layer));
}

template <class T>
void Target<T>::verify_batch(std::vector<SequencePart<T>> parts, IdleSequences<T>* idle) {
  prepare_batch(std::move(parts), idle);
  run_prepared();
}

template <class T>
void Target<T>::prepare_batch(std::vector<SequencePart<T>> parts, IdleSequences<T>* idle) {
  const std::size_t live = parts.size();
  if (idle != nullptr) {
    idle->fill(parts);
  }
  lay_out(std::move(parts));
  if (live < parts_.size()) {
    live_parts_ = live;
    idle_rows_ = nodes_.count - parts_[live].first_row;
  }
  prepare_attention();
  if (idle_rows_ > 0) {
    idle->learn(!step_shape_.empty());
  }
}

template <class T>
void Target<T>::run_prepared(std::span<const std::int32_t> tokens) {
  VERSIEVE_ASSERT(tokens.empty() || std::ssize(tokens) == nodes_.count - idle_rows_,
                  "a token a node");
  if (released_ != ops_->released()) {  // arguments may name scratch memory that is gone
    prepare_attention();
  }
  staged_.replace(*ops_, tokens_at(), tokens);
  recordings_.run(*ops_, step_shape_, [this] { run_nodes(); });
}

template <class T>
void Target<T>::lay_out(std::vector<SequencePart<T>> parts) {
  VERSIEVE_ASSERT(!parts.empty(), "a step has a sequence");
  parts_.clear();
  std::int64_t rows = 0, compressed = 0;
  // Of a pool's dense sequence alone, too: its steps can be recorded.
  together_ = parts.size() > 1 || (!is_nsa(shape_) && parts.front().cache != &cache_);
  alone_ = false;
  for (SequencePart<T>& part : parts) {
    VERSIEVE_ASSERT(part.cache == &cache_ || part.choice != nullptr ||
                        !(part.options.resa || part.options.index),
                    "tokens are chosen by the sequence's own keys");
    VERSIEVE_ASSERT((part.lists.first.token == nullptr && part.capture.weights == nullptr) ||
                        (part.cache != &cache_ && !is_nsa(shape_)),
                    "lists are read and weights kept of dense sequences in a pool");
    if (part.cache != &cache_) {
      nsa_.set_hint(-1);  // it is of the target's own sequence
    }
    parts_.push_back(make_part(std::move(part)));
    Part& made = parts_.back();
    made.first_row = rows;
    made.first_compressed = compressed;
    rows += made.nodes.count;
    compressed += made.nodes.compressed_rows;
  }
  live_parts_ = parts_.size();
  idle_rows_ = 0;
  ensure_rows(rows);
  nodes_ = {.count = rows, .compressed_rows = compressed};
  if (together_ && is_nsa(shape_)) {
    const std::uint64_t least = std::max<std::uint64_t>(
        parts_.size(), std::bit_ceil(static_cast<std::uint64_t>(compressed)));
    nodes_.compressed_rows = std::min(rows, static_cast<std::int64_t>(least));
  }
  if (!together_ && can_bound(parts_[0])) {
    bound_alone();
  }
  upload_layout();
}

// Pieces of a prompt never come again.
template <class T>
bool Target<T>::can_bound(const Part& part) const {
  const VerifyOptions& options = part.options;
  return records_ && is_nsa(shape_) && part.cache != &cache_ && !piece_rows_ && !part.keeps_rows &&
         !options.last_logits_only && !options.no_logits &&
         can_verify_device({.nodes = part.nodes.count,
                            .max_depth = part.nodes.count,
                            .max_context = kernels::bound_of_context(part.nodes.context_len)},
                           options);
}

template <class T>
void Target<T>::bound_alone() {
  alone_ = true;
  StepNodes& nodes = parts_[0].nodes;
  nodes.context_len = kernels::bound_of_context(nodes.context_len);
  nodes.compressed_rows = nodes.count;  // a node completes one at most
  nodes.newest_position = nodes.context_len + nodes.count;
  nodes_.compressed_rows = nodes.compressed_rows;
}

// What follows the step's shape lies in device memory by now, or in its launches.
template <class T>
void Target<T>::prepare_attention() {
  for (const Part& part : parts_) {
    if (part.keeps_rows) {
      nsa_.reserve_prompt(attention_step(part));
    }
  }
  count_logits();
  step_shape_.clear();
  if (alone_) {
    step_shape_ = shape_alone();
  } else if (together_) {
    begin_choices();
    const std::vector<AttentionStep<T>> steps = prepared_steps();
    step_shape_ = is_nsa(shape_) ? nsa_.prepare(steps) : dense_.prepare(steps);
    // A prompt's pieces never come again; sizes of calls that choose are in their launches.
    if (!records_ || piece_rows_ ||
        std::any_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.chooses(); })) {
      step_shape_.clear();
    }
  }
  if (!step_shape_.empty()) {
    for (const std::int64_t size : {nodes_.count, nodes_.compressed_rows, logits_rows_, rows_}) {
      step_shape_.push_back(size);
    }
    step_shape_.push_back(reinterpret_cast<std::int64_t>(nodes_.token));
  }
  released_ = ops_->released();
}

// All that the launches of a sequence alone hold of it.
template <class T>
kernels::StepShape Target<T>::shape_alone() const {
  const Part& part = parts_[0];
  const VerifyOptions& options = part.options;
  const KvRows<T>& rows = part.cache->rows();
  const auto at = [](const void* memory) { return reinterpret_cast<std::int64_t>(memory); };
  kernels::StepShape shape = {part.nodes.context_len,
                              part.nodes.chain,
                              at(part.cache->pages().page),
                              at(part.cache->compressed_pages().page),
                              at(rows.k),
                              rows.layer_rows,
                              rows.cmp_layer_rows,
                              options.group_size,
                              static_cast<std::int64_t>(options.group_mode),
                              static_cast<std::int64_t>(options.topk),
                              options.hide_tree_compressed,
                              options.one_launch};
  shape.insert(shape.end(), options.schedule.begin(), options.schedule.end());
  return shape;
}

// Of one sequence, or of all: their lists lie one behind the other.
template <class T>
kernels::CompressParams<T> Target<T>::compressed_tokens(const LayerWeights<T>& w,
                                                        std::int64_t layer) const {
  if (!is_nsa(shape_)) {
    return {};
  }
  AttentionStep<T> step = attention_step(parts_[0]);
  if (parts_.size() == 1) {
    kernels::CompressParams<T> p = nsa_.compressed_tokens(step, w, layer);
    if (piece_rows_ && step.nodes.compressed_rows > 0) {  // a prompt's rows go to the cache at once
      const std::int64_t width = shape_.kv_width();
      const std::int64_t before = piece_rows_->before;
      const std::int64_t first = compressed_count(shape_.nsa, before) * width;
      p.k_tree = (cache_.keeps_raw_keys() ? cache_.k_raw(layer) : cache_.k(layer)) + before * width;
      p.v_tree = cache_.v(layer) + before * width;
      p.k_cmp = cache_.k_cmp(layer) + first;
      p.v_cmp = cache_.v_cmp(layer) + first;
    }
    return p;
  }
  const bool routes =
      std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return !part.keeps_rows; });
  const AttentionStep<T> all{.options = step.options,
                             .nodes = nodes_,
                             .cache = step.cache,
                             .tree = TreeKvPart<T>(tree_kv_),
                             .keeps_rows_first = !routes,
                             .frequency = step.frequency};
  return nsa_.compressed_tokens(all, w, layer);
}

template <class T>
std::int64_t Target<T>::logits_row(std::size_t part) const {
  const std::int64_t row = parts_[part].first_logits() - (nodes_.count - logits_rows_);
  VERSIEVE_ASSERT(!parts_[part].options.no_logits && row >= 0, "its logits were computed");
  return row;
}

template <class T>
void Target<T>::commit_batch(std::span<const std::vector<std::int32_t>> paths) {
  VERSIEVE_ASSERT(paths.size() == live_parts_, "a path a sequence");
  std::vector<CommittedRows<T>> commits;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Part& part = parts_[i];
    CommittedRows<T> rows{.cache = part.cache, .nodes = paths[i], .compressed = {}};
    rows.compressed = compressed_of(part, paths[i]);
    for (std::int32_t& row : rows.nodes) {
      row += static_cast<std::int32_t>(part.first_row);
    }
    for (std::int32_t& row : rows.compressed) {
      row += static_cast<std::int32_t>(part.first_compressed);
    }
    commits.push_back(std::move(rows));
  }
  append_rows(*ops_, shape_, tree_kv_.view(), commits, staged_commit_);
  std::vector<typename ChoiceKeys<T>::Update> updates;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (parts_[i].choice != nullptr && !paths[i].empty()) {
      const KvCache<T>& cache = *parts_[i].cache;
      updates.push_back({.keys = parts_[i].choice,
                         .cache = &cache,
                         .first_token = cache.length() - std::ssize(paths[i])});
    }
  }
  ChoiceKeys<T>::update_together(*ops_, updates);
}

template <class T>
std::int64_t Target<T>::step_bytes(const LlmShape& shape, std::int64_t nodes,
                                   std::int64_t logits_rows) {
  const std::int64_t kinds = is_nsa(shape) ? 5 : 2;  // of tree rows
  const std::int64_t elements = (2 + kCaptureCount) * shape.hidden + 2 * shape.q_width() +
                                joint_rows(shape) + shape.intermediate + 3 * shape.num_heads +
                                shape.layers * kinds * shape.kv_width();
  const std::int64_t integers =
      is_nsa(shape) ? shape.layers * shape.num_kv_heads * shape.nsa.sel_count : 0;
  constexpr std::int64_t kBytes = sizeof(T);
  return nodes * (elements * kBytes + integers * 4 + shape.head_dim * 8) +
         logits_rows * shape.vocab * kBytes;
}

template Target<double>::Part Target<double>::make_part(SequencePart<double>) const;
template void Target<double>::upload_layout();
template std::vector<std::int32_t> Target<double>::kept_rows();
template void Target<double>::keep_compressed_rows(std::int64_t);
template void Target<double>::verify_batch(std::vector<SequencePart<double>>,
                                           IdleSequences<double>*);
template void Target<double>::lay_out(std::vector<SequencePart<double>>);
template void Target<double>::prepare_batch(std::vector<SequencePart<double>>,
                                            IdleSequences<double>*);
template void Target<double>::run_prepared(std::span<const std::int32_t>);
template void Target<double>::prepare_attention();
template kernels::CompressParams<double> Target<double>::compressed_tokens(
    const LayerWeights<double>&, std::int64_t) const;
template std::int64_t Target<double>::logits_row(std::size_t) const;
template void Target<double>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<double>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);
template Target<float>::Part Target<float>::make_part(SequencePart<float>) const;
template void Target<float>::upload_layout();
template std::vector<std::int32_t> Target<float>::kept_rows();
template void Target<float>::keep_compressed_rows(std::int64_t);
template void Target<float>::verify_batch(std::vector<SequencePart<float>>, IdleSequences<float>*);
template void Target<float>::lay_out(std::vector<SequencePart<float>>);
template void Target<float>::prepare_batch(std::vector<SequencePart<float>>, IdleSequences<float>*);
template void Target<float>::run_prepared(std::span<const std::int32_t>);
template void Target<float>::prepare_attention();
template kernels::CompressParams<float> Target<float>::compressed_tokens(const LayerWeights<float>&,
                                                                         std::int64_t) const;
template std::int64_t Target<float>::logits_row(std::size_t) const;
template void Target<float>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<float>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);
template Target<Bf16>::Part Target<Bf16>::make_part(SequencePart<Bf16>) const;
template void Target<Bf16>::upload_layout();
template std::vector<std::int32_t> Target<Bf16>::kept_rows();
template void Target<Bf16>::keep_compressed_rows(std::int64_t);
template void Target<Bf16>::verify_batch(std::vector<SequencePart<Bf16>>, IdleSequences<Bf16>*);
template void Target<Bf16>::lay_out(std::vector<SequencePart<Bf16>>);
template void Target<Bf16>::prepare_batch(std::vector<SequencePart<Bf16>>, IdleSequences<Bf16>*);
template void Target<Bf16>::run_prepared(std::span<const std::int32_t>);
template void Target<Bf16>::prepare_attention();
template kernels::CompressParams<Bf16> Target<Bf16>::compressed_tokens(const LayerWeights<Bf16>&,
                                                                       std::int64_t) const;
template std::int64_t Target<Bf16>::logits_row(std::size_t) const;
template void Target<Bf16>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<Bf16>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);

}  // namespace versieve::engine
