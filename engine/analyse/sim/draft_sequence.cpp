#include "engine/analyse/sim/draft_sequence.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/sim/row_trace.h"
#include "engine/analyse/sim/trace_draft_levels.h"
#include "engine/analyse/sim/trace_linear.h"
#include "engine/analyse/sim/trace_tree_attention.h"
#include "engine/run/speculate/tree_growth.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4, kInt = 4;
constexpr std::int64_t kStreams = 3;  // that an entry is made of

class DraftBuilder {
 public:
  DraftBuilder(const DraftCase& draft, AddressSpace& space, LaunchSequence& out)
      : c_(draft),
        d_(draft.shape),
        levels_(draft_levels_of(draft.choice, draft.shape.vocab)),
        most_rows_(*std::max_element(levels_.rows.begin(), levels_.rows.end())),
        space_(space),
        launches_(out) {
    const std::int64_t slots = static_cast<std::int64_t>(levels_.parent.size()) + 1;
    entry_ = place(kStreams * d_.hidden);
    feature_ = place(most_rows_ * d_.hidden);
    input_ = place(most_rows_ * 2 * d_.hidden);
    query_ = place(q_width());
    attended_ = place(most_rows_ * q_width());
    weighted_ = place(most_rows_ * d_.hidden);
    joint_ = place(most_rows_ * d_.joint_rows());
    mlp_ = place(most_rows_ * d_.intermediate);
    logits_ = place(most_rows_ * d_.vocab);
    output_ = place(slots * d_.hidden);
    table_ = space_.place(most_rows_ * d_.head_dim * kFloat);
    lists_ = space_.place(4 * slots * kInt);
    k_ = place((c_.context_len + 1) * kv_width());
    v_ = place((c_.context_len + 1) * kv_width());
    k_tree_ = place(slots * kv_width());
    v_tree_ = place(slots * kv_width());
    w_ = {.fuse = place(d_.hidden * kStreams * d_.hidden),
          .joint = place(d_.joint_rows() * 2 * d_.hidden),
          .output = place(d_.hidden * q_width()),
          .gate_up = place(2 * d_.intermediate * d_.hidden),
          .down = place(d_.hidden * d_.intermediate),
          .head = place(d_.vocab * d_.hidden),
          .norms = place(2 * d_.hidden)};
  }

  void build();

 private:
  std::uint64_t place(std::int64_t elements) { return space_.place(elements * c_.element_bytes); }
  std::int64_t q_width() const { return d_.num_heads * d_.head_dim; }
  std::int64_t kv_width() const { return d_.num_kv_heads * d_.head_dim; }
  RowTensor rows_of(std::uint64_t tensor, std::int64_t width) const {
    return {tensor, width * c_.element_bytes, width * c_.element_bytes};
  }
  std::uint64_t row(std::uint64_t tensor, std::int64_t index, std::int64_t width) const {
    return tensor + static_cast<std::uint64_t>(index * width * c_.element_bytes);
  }
  void linear(std::int64_t rows, std::uint64_t x, std::uint64_t w, std::int64_t k, std::int64_t m,
              std::uint64_t y, bool swiglu = false);
  void linear_to_norm(std::int64_t rows, std::uint64_t x, std::uint64_t w, std::int64_t k,
                      std::uint64_t residual, std::uint64_t y);
  void embed(std::int64_t rows, std::uint64_t feature, bool keeps);
  void enter();
  void attend(TreeAttentionLaunch launch);
  void read_out();
  void level(std::int64_t first, std::int64_t rows);
  void finish(std::int64_t rows, std::uint64_t feature, std::uint64_t output);

  struct Weights {
    std::uint64_t fuse = 0, joint = 0, output = 0, gate_up = 0, down = 0, head = 0, norms = 0;
  };
  const DraftCase& c_;
  const DraftShape& d_;
  DraftLevels levels_;
  std::int64_t most_rows_;
  AddressSpace& space_;
  LaunchSequence& launches_;
  Weights w_;
  std::uint64_t entry_, feature_, input_, query_, attended_, weighted_, joint_, mlp_, logits_,
      output_, table_, lists_, k_, v_, k_tree_, v_tree_;
};

void DraftBuilder::linear(std::int64_t rows, std::uint64_t x, std::uint64_t w, std::int64_t k,
                          std::int64_t m, std::uint64_t y, bool swiglu) {
  launches_.push_back(trace_linear({.n = rows,
                                    .k = k,
                                    .m = m,
                                    .swiglu = swiglu,
                                    .element_bytes = c_.element_bytes,
                                    .x = x,
                                    .w = w,
                                    .y = y}));
}

void DraftBuilder::linear_to_norm(std::int64_t rows, std::uint64_t x, std::uint64_t w,
                                  std::int64_t k, std::uint64_t residual, std::uint64_t y) {
  launches_.push_back(trace_linear({.n = rows,
                                    .k = k,
                                    .m = d_.hidden,
                                    .element_bytes = c_.element_bytes,
                                    .x = x,
                                    .w = w,
                                    .y = y,
                                    .residual = residual,
                                    .weighted = weighted_}));
}

// [embedding | feature], each normed; of a level the features are outputs of earlier nodes, and
// kept. Of which tokens the embeddings are nobody knows: rows of their own.
void DraftBuilder::embed(std::int64_t rows, std::uint64_t feature, bool keeps) {
  const std::int64_t angles = d_.head_dim * kFloat;
  RowLaunch launch{.path = "rms_norm",
                   .rows = rows,
                   .reads = {rows_of(c_.embedding, d_.hidden),
                             rows_of(feature, d_.hidden),
                             {w_.norms, 2 * d_.hidden * c_.element_bytes, 0},
                             {lists_, 4 * kInt, 4 * kInt}},
                   .writes = {rows_of(input_, 2 * d_.hidden), {table_, angles, angles}}};
  if (keeps) {
    launch.writes.push_back(rows_of(feature_, d_.hidden));
  }
  launches_.push_back(trace_rows(launch));
}

// The newest token's entry: its streams fused, its key and value to the draft's cache.
void DraftBuilder::enter() {
  const std::int64_t streams = kStreams * d_.hidden;
  launches_.push_back(trace_rows({.path = "copy_rows",
                                  .reads = {rows_of(c_.captured, streams)},
                                  .writes = {rows_of(entry_, streams)}}));
  linear(1, entry_, w_.fuse, streams, d_.hidden, feature_);
  embed(1, feature_, false);
  linear(1, input_, w_.joint, 2 * d_.hidden, d_.joint_rows(), joint_);
  const std::int64_t angles = d_.head_dim * kFloat;
  launches_.push_back(
      trace_rows({.path = "rope",
                  .reads = {rows_of(joint_, d_.joint_rows()), {table_, angles, angles}},
                  .writes = {rows_of(query_, q_width()),
                             rows_of(row(k_, c_.context_len, kv_width()), kv_width()),
                             rows_of(row(v_, c_.context_len, kv_width()), kv_width())}}));
}

void DraftBuilder::attend(TreeAttentionLaunch launch) {
  launch.num_heads = d_.num_heads;
  launch.num_kv_heads = d_.num_kv_heads;
  launch.head_dim = d_.head_dim;
  launch.element_bytes = c_.element_bytes;
  launch.first_position = 1;  // position 0 has no entry
  launch.window = d_.window;
  launch.k = k_;
  launch.v = v_;
  launch.out = attended_;
  launch.lists = lists_;
  launches_.push_back(trace_tree_attention(launch));
}

// The newest entry as a tree of one node over the positions before it.
void DraftBuilder::read_out() {
  attend({.context_len = c_.context_len,
          .parent = {-1},
          .depth = {0},
          .query = {0},
          .k_tree = row(k_, c_.context_len, kv_width()),
          .v_tree = row(v_, c_.context_len, kv_width()),
          .q = query_});
  finish(1, feature_, output_);
}

void DraftBuilder::level(std::int64_t first, std::int64_t rows) {
  embed(rows, output_, true);
  linear(rows, input_, w_.joint, 2 * d_.hidden, d_.joint_rows(), joint_);
  TreeAttentionLaunch launch{.context_len = c_.context_len + 1,
                             .k_tree = k_tree_,
                             .v_tree = v_tree_,
                             .joint = joint_,
                             .table = table_};
  launch.parent.assign(levels_.parent.begin(), levels_.parent.begin() + first + rows);
  launch.depth.assign(levels_.depth.begin(), levels_.depth.begin() + first + rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    launch.query.push_back(static_cast<std::int32_t>(first + i));
  }
  attend(std::move(launch));
  finish(rows, feature_, row(output_, 1 + first, d_.hidden));
}

// Output projection, MLP, head, and the best tokens of each row.
void DraftBuilder::finish(std::int64_t rows, std::uint64_t feature, std::uint64_t output) {
  linear_to_norm(rows, attended_, w_.output, q_width(), feature, output);
  linear(rows, weighted_, w_.gate_up, d_.hidden, d_.intermediate, mlp_, true);
  linear_to_norm(rows, mlp_, w_.down, d_.intermediate, output, output);
  linear(rows, weighted_, w_.head, d_.hidden, d_.vocab, logits_);
  const std::int64_t chosen = std::min(c_.choice.width, d_.vocab) * (kInt + kFloat);
  launches_.push_back(trace_rows({.path = "top_logits",
                                  .rows = rows,
                                  .parts = logit_parts(rows, d_.vocab),
                                  .reads = {rows_of(logits_, d_.vocab)},
                                  .writes = {{lists_, chosen, chosen}}}));
}

void DraftBuilder::build() {
  enter();
  read_out();
  std::int64_t first = 0;
  for (std::size_t level_index = 1; level_index < levels_.rows.size(); ++level_index) {
    level(first, levels_.rows[level_index]);
    first += levels_.rows[level_index];
  }
}

}  // namespace

DraftLevels draft_levels_of(const DraftChoice& choice, std::int64_t vocab) {
  DraftLevels levels;
  TreeGrowth growth(choice, 0);
  std::vector<std::int32_t> slot = {-1};  // of a candidate
  const std::int64_t children = std::min(choice.width, vocab);
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    const DraftTree& tree = growth.candidates();
    slot.resize(static_cast<std::size_t>(tree.size()), -1);
    levels.rows.push_back(static_cast<std::int64_t>(nodes.size()));
    for (const std::int32_t node : nodes) {
      const std::size_t at = static_cast<std::size_t>(node);
      if (node > 0) {
        slot[at] = static_cast<std::int32_t>(levels.parent.size());
        levels.parent.push_back(slot[static_cast<std::size_t>(tree.parent[at])]);
        levels.depth.push_back(tree.depth[at] - 1);
      }
    }
    for (const std::int32_t node : nodes) {
      for (std::int64_t rank = 0; rank < children; ++rank) {
        growth.add_child(node, static_cast<std::int32_t>(rank),
                         -static_cast<float>(rank + 1) * std::log(2.0F));
      }
    }
  }
  return levels;
}

void append_draft(const DraftCase& draft, AddressSpace& space, LaunchSequence& out) {
  if (draft.one_launch) {
    append_draft_levels(draft, space, out);
    return;
  }
  DraftBuilder(draft, space, out).build();
}

// One CTA, a thread a node: five integers a node in and out.
void append_finish_tree(std::int64_t nodes, AddressSpace& space, LaunchSequence& out) {
  const std::int64_t bytes = nodes * 5 * kInt;
  out.push_back(trace_rows({.path = "finish_tree",
                            .reads = {{space.place(bytes), bytes, 0}},
                            .writes = {{space.place(bytes), bytes, 0}}}));
}

void append_accept_tree(std::int64_t nodes, AddressSpace& space, LaunchSequence& out) {
  const std::int64_t bytes = nodes * 4 * kInt;
  out.push_back(trace_rows({.path = "accept_tree",
                            .reads = {{space.place(bytes), bytes, 0}},
                            .writes = {{space.place(bytes), bytes, 0}}}));
}

}  // namespace versieve::engine
