#include "engine/analyse/sim/step_sequence.h"

#include <algorithm>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/decode_sequences.h"
#include "engine/analyse/sim/dense_traces.h"
#include "engine/analyse/sim/row_trace.h"
#include "engine/analyse/sim/trace_linear.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kCaptures = 3;  // streams that a draft reads

// A launch as a part of another, whose counters it goes to.
class PartTrace final : public LaunchTrace {
 public:
  PartTrace(const char* path, bool goes_on, std::unique_ptr<LaunchTrace> part)
      : LaunchTrace(part_of(part->shape(), path, goes_on)), part_(std::move(part)) {}
  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    return part_->append_step(cta, step, out);
  }
  bool meets_cluster(std::int64_t cta, std::int64_t step) const override {
    return part_->meets_cluster(cta, step);
  }
  std::int64_t arrives_at(std::int64_t cta) const override { return part_->arrives_at(cta); }
  Waiting waits_for(std::int64_t cta, std::int64_t step) const override {
    return part_->waits_for(cta, step);
  }

 private:
  static LaunchShape part_of(LaunchShape shape, const char* path, bool goes_on) {
    shape.path = path;
    shape.goes_on = goes_on;
    return shape;
  }
  std::unique_ptr<LaunchTrace> part_;
};

class StepBuilder {
 public:
  explicit StepBuilder(const StepCase& step)
      : s_(step),
        shape_(step.shape),
        rows_(step.tree.size()),
        e_(step.element_bytes),
        space_(step.memory) {
    hidden_ = place(rows_ * shape_.hidden);
    weighted_ = place(rows_ * shape_.hidden);
    joint_ = place(rows_ * (shape_.q_width() + 2 * shape_.kv_width() + 3 * shape_.num_heads));
    mlp_ = place(rows_ * shape_.intermediate);
    captured_ = place(rows_ * kCaptures * shape_.hidden);
    logits_ = place(rows_ * shape_.vocab);
    table_ = space_.place(rows_ * shape_.head_dim * kFloat);
    embedding_ = place(shape_.vocab * shape_.hidden);
    for (const DenseCase& layer : step.dense) {
      dense_.push_back(layer);
      // All layers but their caches share buffers.
      if (dense_.size() == 1) {
        place_dense_shared(space_, dense_.front());
      } else {
        dense_.back().at = dense_.front().at;
      }
      if (layer.listed && step.listed_at != 0) {
        dense_.back().at.tokens = step.listed_at;
      }
    }
    if (!dense_.empty()) {
      return;
    }
    AttentionCase a = attention_case(shape_, step.tree, step.context_len);
    a.form = step.form;
    a.group_size = step.group_size;
    a.group_mode = step.group_mode;
    a.element_bytes = e_;
    place_shared(space_, a);
    attention_ = a;
    keeps_raw_ = shape_.compress_stage == CompressStage::kBeforeRope;
  }

  LaunchSequence build();

 private:
  std::uint64_t place(std::int64_t elements) { return space_.place(elements * e_); }
  bool is_dense() const { return !dense_.empty(); }
  std::int64_t gates() const { return is_dense() ? 0 : 3 * shape_.num_heads; }
  std::int64_t joint_width() const { return shape_.q_width() + 2 * shape_.kv_width() + gates(); }
  RowTensor rows_of(std::uint64_t tensor, std::int64_t width) const {
    return {tensor, width * e_, width * e_};
  }
  void linear(std::uint64_t x, std::int64_t k, std::int64_t m, std::uint64_t y,
              bool swiglu = false);
  void linear_to_norm(std::uint64_t x, std::int64_t k, std::uint64_t captured = 0);
  void embed();
  void take_apart(std::int64_t layer);
  void compress();
  void attend(std::int64_t layer);
  void place_layer(std::int64_t layer);
  void commit();
  void commit_path();
  void read_out();
  void append_draft_and_tree();
  std::int64_t slot_of(std::int64_t stream) const;
  std::uint64_t captured_stream(std::int64_t stream) const;
  void copy_streams(bool embedding);

  const StepCase& s_;
  const LlmShape& shape_;
  std::int64_t rows_;
  std::int64_t e_;
  AddressSpace space_;
  AttentionCase attention_;
  std::vector<DenseCase> dense_;
  std::vector<std::int32_t> refreshed_;  // blocks of the newest refresh layer
  bool keeps_raw_ = false;               // keys before rotary too
  struct LayerRows {                     // of an NSA layer: the tree's and the cache's
    std::uint64_t k_tree, v_tree, raw_tree, k, v, raw;
  };
  std::vector<LayerRows> rows_of_layers_;
  LaunchSequence launches_;
  std::uint64_t hidden_, weighted_, joint_, mlp_, captured_, logits_, table_, embedding_;
};

void StepBuilder::linear(std::uint64_t x, std::int64_t k, std::int64_t m, std::uint64_t y,
                         bool swiglu) {
  launches_.push_back(trace_linear({.n = rows_,
                                    .k = k,
                                    .m = m,
                                    .swiglu = swiglu,
                                    .element_bytes = e_,
                                    .x = x,
                                    .w = place((swiglu ? 2 : 1) * m * k),
                                    .y = y}));
}

// Into the residual stream, and times the next norm's weight; also to `captured` if not 0.
void StepBuilder::linear_to_norm(std::uint64_t x, std::int64_t k, std::uint64_t captured) {
  launches_.push_back(
      trace_linear({.n = rows_,
                    .k = k,
                    .m = shape_.hidden,
                    .element_bytes = e_,
                    .x = x,
                    .w = place(shape_.hidden * k),
                    .y = hidden_,
                    .residual = hidden_,
                    .weighted = weighted_,
                    .copy = captured,
                    .copy_stride = static_cast<std::uint64_t>(kCaptures * shape_.hidden * e_)}));
}

// rms_norm's first half: the tokens' rows, and times the first norm's weight; the rotary table.
void StepBuilder::embed() {
  const std::int64_t angles = shape_.head_dim * kFloat;
  launches_.push_back(trace_rows(
      {.path = "rms_norm",
       .rows = rows_,
       .reads = {rows_of(embedding_, shape_.hidden),
                 {place(shape_.hidden), shape_.hidden * e_, 0},
                 {is_dense() ? dense_.front().at.position : attention_.at.position, 4, 4}},
       .writes = {rows_of(hidden_, shape_.hidden),
                  rows_of(weighted_, shape_.hidden),
                  {table_, angles, angles}}}));
}

// rope_append, under the range's name.
void StepBuilder::take_apart(std::int64_t layer) {
  const std::int64_t angles = shape_.head_dim * kFloat;
  RowLaunch launch{.path = "rope",
                   .rows = rows_,
                   .reads = {rows_of(joint_, joint_width()), {table_, angles, angles}}};
  if (is_dense()) {
    const DenseBuffers& at = dense_[static_cast<std::size_t>(layer)].at;
    launch.writes = {rows_of(at.q, shape_.q_width()), rows_of(at.k_tree, shape_.kv_width()),
                     rows_of(at.v_tree, shape_.kv_width())};
  } else {
    const AttentionBuffers& at = attention_.at;
    launch.writes = {rows_of(at.q, shape_.q_width()), rows_of(at.k_tree, shape_.kv_width()),
                     rows_of(at.v_tree, shape_.kv_width()), rows_of(at.gates, gates())};
    if (keeps_raw_) {
      launch.writes.push_back(rows_of(rows_of_layers_.back().raw_tree, shape_.kv_width()));
    }
  }
  launches_.push_back(trace_rows(launch));
}

// Path-local compressed tokens, l rows of keys and values each; traced behind the rows that the
// same launch takes apart.
void StepBuilder::compress() {
  const std::int64_t made = static_cast<std::int64_t>(attention_.cmp_tree_owner.size());
  if (made == 0) {
    return;
  }
  const std::int64_t block = shape_.nsa.cmp_block * shape_.kv_width() * e_;
  const std::uint64_t newest = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, s_.context_len - shape_.nsa.cmp_block) * shape_.kv_width() * e_);
  launches_.push_back(trace_rows(
      {.path = "rope",
       .rows = made,
       .reads = {{attention_.at.k + newest, block, 0}, {attention_.at.v + newest, block, 0}},
       .writes = {rows_of(attention_.at.k_cmp_tree, shape_.kv_width()),
                  rows_of(attention_.at.v_cmp_tree, shape_.kv_width())}}));
}

// Where the draft keeps a stream (that enters layer `stream`): its first slot, or -1.
std::int64_t StepBuilder::slot_of(std::int64_t stream) const {
  if (!s_.draft) {
    return -1;
  }
  const std::int64_t* const first = s_.draft->shape.capture_layers;
  const std::int64_t* const found = std::find(first, first + kCaptures, stream);
  return found == first + kCaptures ? -1 : found - first;
}

std::uint64_t StepBuilder::captured_stream(std::int64_t stream) const {
  const std::int64_t slot = slot_of(stream);
  return slot < 0 ? 0 : captured_ + static_cast<std::uint64_t>(slot * shape_.hidden * e_);
}

// Streams that no layer writes: the embedding, or one that is kept once more.
void StepBuilder::copy_streams(bool embedding) {
  const std::int64_t width = shape_.hidden * e_;
  for (std::int64_t slot = 0; s_.draft && slot < kCaptures; ++slot) {
    const std::int64_t stream = s_.draft->shape.capture_layers[slot];
    const bool again = slot_of(stream) != slot;
    if (embedding ? again || stream != 0 : !again) {
      continue;
    }
    launches_.push_back(
        trace_rows({.path = "copy_rows",
                    .rows = rows_,
                    .reads = {{embedding ? hidden_ : captured_stream(stream), width,
                               embedding ? width : kCaptures * width}},
                    .writes = {{captured_ + static_cast<std::uint64_t>(slot * width), width,
                                kCaptures * width}}}));
  }
}

// A layer's cache, and its own rows of the tree.
void StepBuilder::place_layer(std::int64_t layer) {
  const std::int64_t rows = rows_ * shape_.kv_width();
  if (is_dense()) {
    DenseCase& own = dense_[static_cast<std::size_t>(layer)];
    place_dense_cache(space_, own);
    own.at.k_tree = place(rows);
    own.at.v_tree = place(rows);
    return;
  }
  place_cache(space_, attention_);
  AttentionBuffers& at = attention_.at;
  at.k_tree = place(rows);
  at.v_tree = place(rows);
  const std::uint64_t end = static_cast<std::uint64_t>(s_.context_len * shape_.kv_width() * e_);
  rows_of_layers_.push_back({.k_tree = at.k_tree,
                             .v_tree = at.v_tree,
                             .raw_tree = keeps_raw_ ? place(rows) : 0,
                             .k = at.k + end,
                             .v = at.v + end,
                             .raw = keeps_raw_ ? place(rows) : 0});
}

void StepBuilder::attend(std::int64_t layer) {
  if (is_dense()) {
    append_attention(dense_[static_cast<std::size_t>(layer)], launches_);
    return;
  }
  compress();
  AttentionCase a = attention_;
  a.reuse = s_.schedule[static_cast<std::size_t>(layer)] == 'R';
  if (!a.reuse) {
    refreshed_ =
        attended_blocks(a, s_.overlap, s_.known, s_.seed + static_cast<std::uint64_t>(layer));
  }
  a.indices = refreshed_;
  for (std::unique_ptr<LaunchTrace>& launch : attention_traces(a)) {
    launches_.push_back(std::move(launch));
  }
}

// The tokens' rows of all layers to their caches, keys and values, and of ReSA the keys of their
// blocks, of an indexer their index keys.
void StepBuilder::commit() {
  const std::int64_t bytes = shape_.kv_width() * e_;
  const std::uint64_t end = static_cast<std::uint64_t>(s_.context_len * bytes);
  for (const bool values : {false, true}) {
    RowLaunch launch{.path = "copy_rows", .rows = s_.committed};
    for (const DenseCase& layer : dense_) {
      launch.reads.push_back({values ? layer.at.v_tree : layer.at.k_tree, bytes, bytes});
      launch.writes.push_back({(values ? layer.at.v : layer.at.k) + end, bytes, bytes});
    }
    launches_.push_back(trace_rows(launch));
  }
  if (dense_.front().key_block > 0) {
    RowLaunch launch{.path = "block_keys"};
    for (const DenseCase& layer : dense_) {
      append_block_keys(layer, launch);
    }
    launches_.push_back(trace_rows(launch));
  }
  if (dense_.front().indexed > 0) {
    RowLaunch launch{.path = "index_keys"};
    for (const DenseCase& layer : dense_) {
      append_index_keys(layer, s_.committed, launch);
    }
    launches_.push_back(trace_rows(launch));
  }
}

// Accepted rows of all layers into their caches: a launch a kind of row, or one for all.
void StepBuilder::commit_path() {
  const bool one = s_.draft && s_.draft->one_launch;
  const std::int64_t bytes = shape_.kv_width() * e_;
  std::vector<std::uint64_t LayerRows::*> from = {&LayerRows::k_tree, &LayerRows::v_tree};
  std::vector<std::uint64_t LayerRows::*> to = {&LayerRows::k, &LayerRows::v};
  if (keeps_raw_) {
    from.push_back(&LayerRows::raw_tree);
    to.push_back(&LayerRows::raw);
  }
  RowLaunch launch{.path = one ? "commit_path" : "copy_rows", .rows = s_.committed};
  for (std::size_t kind = 0; kind < from.size(); ++kind) {
    for (const LayerRows& layer : rows_of_layers_) {
      launch.reads.push_back({layer.*from[kind], bytes, bytes});
      launch.writes.push_back({layer.*to[kind], bytes, bytes});
    }
    if (!one || kind + 1 == from.size()) {
      launches_.push_back(trace_rows(launch));
      launch.reads.clear();
      launch.writes.clear();
    }
  }
}

void StepBuilder::append_draft_and_tree() {
  DraftCase draft = *s_.draft;
  draft.captured = captured_;
  draft.embedding = embedding_;
  append_draft(draft, space_, launches_);
  if (draft.one_launch) {
    append_finish_tree(rows_, space_, launches_);
  }
}

// Logits, and the largest of each row; of a rectification the last row's alone, listed by nobody.
void StepBuilder::read_out() {
  if (s_.last_logits_only) {
    launches_.push_back(trace_linear({.k = shape_.hidden,
                                      .m = shape_.vocab,
                                      .element_bytes = e_,
                                      .x = weighted_,
                                      .w = place(shape_.vocab * shape_.hidden),
                                      .y = logits_}));
    return;
  }
  linear(weighted_, shape_.hidden, shape_.vocab, logits_);
  launches_.push_back(trace_rows({.path = "top_logits",
                                  .rows = rows_,
                                  .parts = logit_parts(rows_, shape_.vocab),
                                  .reads = {rows_of(logits_, shape_.vocab)},
                                  .writes = {{captured_, 8, 8}}}));
}

LaunchSequence StepBuilder::build() {
  if (s_.draft) {
    append_draft_and_tree();
  }
  embed();
  copy_streams(true);
  const std::size_t first = launches_.size();
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    place_layer(layer);
    linear(weighted_, shape_.hidden, joint_width(), joint_);
    take_apart(layer);
    attend(layer);
    linear_to_norm(is_dense() ? dense_.front().at.out : attention_.at.out, shape_.q_width());
    linear(weighted_, shape_.hidden, shape_.intermediate, mlp_, true);
    linear_to_norm(mlp_, shape_.intermediate, captured_stream(layer + 1));
  }
  for (std::size_t i = first; s_.one_launch && i < launches_.size(); ++i) {
    launches_[i] = std::make_unique<PartTrace>("decode_layers", i > first, std::move(launches_[i]));
  }
  copy_streams(false);
  read_out();
  if (s_.draft && s_.draft->one_launch) {
    append_accept_tree(rows_, space_, launches_);
  }
  if (!is_dense()) {
    commit_path();
  } else if (rows_ == s_.committed) {
    commit();
  }
  return std::move(launches_);
}

}  // namespace

LaunchSequence step_sequence(const StepCase& step) {
  VERSIEVE_ASSERT(
      (step.dense.empty() ? static_cast<std::int64_t>(step.schedule.size()) == step.shape.layers &&
                                step.schedule[0] == 'F'
                          : static_cast<std::int64_t>(step.dense.size()) == step.shape.layers),
      "a schedule has a letter a layer and begins with a refresh");
  return StepBuilder(step).build();
}

}  // namespace versieve::engine
