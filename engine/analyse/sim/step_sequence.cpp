#include "engine/analyse/sim/step_sequence.h"

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

// CTAs that share a row of logits, of large vocabularies (kernels/top_logits/launch.cu).
std::int64_t logit_parts(std::int64_t rows) {
  return rows <= 8 ? 16 : 8;
}

// A launch as a part of another, whose counters it goes to.
class PartTrace final : public LaunchTrace {
 public:
  PartTrace(const char* path, std::unique_ptr<LaunchTrace> part)
      : LaunchTrace(renamed(part->shape(), path)), part_(std::move(part)) {}
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
  static LaunchShape renamed(LaunchShape shape, const char* path) {
    shape.path = path;
    return shape;
  }
  std::unique_ptr<LaunchTrace> part_;
};

class StepBuilder {
 public:
  explicit StepBuilder(const StepCase& step)
      : s_(step), shape_(step.shape), rows_(step.tree.size()), e_(step.element_bytes) {
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
  void take_apart();
  void compress();
  void attend(std::int64_t layer);
  void commit();
  std::uint64_t captured_after(std::int64_t layer) const;

  const StepCase& s_;
  const LlmShape& shape_;
  std::int64_t rows_;
  std::int64_t e_;
  AddressSpace space_;
  AttentionCase attention_;
  std::vector<DenseCase> dense_;
  std::vector<std::int32_t> refreshed_;  // blocks of the newest refresh layer
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
void StepBuilder::take_apart() {
  const std::int64_t angles = shape_.head_dim * kFloat;
  RowLaunch launch{.path = "rope",
                   .rows = rows_,
                   .reads = {rows_of(joint_, joint_width()), {table_, angles, angles}}};
  if (is_dense()) {
    const DenseBuffers& at = dense_.front().at;
    launch.writes = {rows_of(at.q, shape_.q_width()), rows_of(at.k_tree, shape_.kv_width()),
                     rows_of(at.v_tree, shape_.kv_width())};
  } else {
    const AttentionBuffers& at = attention_.at;
    launch.writes = {rows_of(at.q, shape_.q_width()), rows_of(at.k_tree, shape_.kv_width()),
                     rows_of(at.v_tree, shape_.kv_width()), rows_of(at.gates, gates())};
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

// Where the stream that leaves the layer is kept, or 0. The last layers are taken for those that a
// draft reads, wherever they are.
std::uint64_t StepBuilder::captured_after(std::int64_t layer) const {
  const std::int64_t slot = layer - (shape_.layers - s_.captures);
  return slot < 0 ? 0 : captured_ + static_cast<std::uint64_t>(slot * shape_.hidden * e_);
}

void StepBuilder::attend(std::int64_t layer) {
  if (is_dense()) {
    DenseCase& own = dense_[static_cast<std::size_t>(layer)];
    place_dense_cache(space_, own);
    append_attention(own, launches_);
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

// A token's rows of all layers to their caches, keys and values, and of ReSA the keys of their
// blocks.
void StepBuilder::commit() {
  const std::int64_t bytes = shape_.kv_width() * e_;
  const std::uint64_t end = static_cast<std::uint64_t>(s_.context_len * bytes);
  for (const bool values : {false, true}) {
    RowLaunch launch{.path = "copy_rows"};
    for (const DenseCase& layer : dense_) {
      launch.reads.push_back({values ? layer.at.v_tree : layer.at.k_tree, bytes, 0});
      launch.writes.push_back({(values ? layer.at.v : layer.at.k) + end, bytes, 0});
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
}

LaunchSequence StepBuilder::build() {
  embed();
  const std::size_t first = launches_.size();
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    if (!is_dense()) {
      place_cache(space_, attention_);
    }
    linear(weighted_, shape_.hidden, joint_width(), joint_);
    take_apart();
    attend(layer);
    linear_to_norm(is_dense() ? dense_.front().at.out : attention_.at.out, shape_.q_width());
    linear(weighted_, shape_.hidden, shape_.intermediate, mlp_, true);
    linear_to_norm(mlp_, shape_.intermediate, captured_after(layer));
  }
  for (std::size_t i = first; s_.one_launch && i < launches_.size(); ++i) {
    launches_[i] = std::make_unique<PartTrace>("decode_layers", std::move(launches_[i]));
  }
  linear(weighted_, shape_.hidden, shape_.vocab, logits_);
  launches_.push_back(trace_rows({.path = "top_logits",
                                  .rows = rows_,
                                  .parts = logit_parts(rows_),
                                  .reads = {rows_of(logits_, shape_.vocab)},
                                  .writes = {{captured_, 8, 8}}}));
  if (is_dense() && rows_ == 1) {
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
