// A step of several sequences: their trees are laid out row after row, and what depends on a
// sequence's own context runs once for each. The forward itself is target.cpp's.
#include <utility>

#include "engine/run/model/kv_pool.h"
#include "engine/run/model/target.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

bool is_nsa(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa;
}

void append(std::vector<std::int32_t>& out, const std::vector<std::int32_t>& values) {
  out.insert(out.end(), values.begin(), values.end());
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
typename Target<T>::Part Target<T>::make_part(SequencePart<T> sequence,
                                              std::int64_t first_row) const {
  const std::string& schedule = sequence.options.schedule;
  VERSIEVE_ASSERT(sequence.tree.size() >= 1 && sequence.tree.parent[0] == -1, "a tree has a root");
  VERSIEVE_ASSERT(schedule.empty() || static_cast<std::int64_t>(schedule.size()) == shape_.layers,
                  "the schedule has one letter a layer");
  const std::int64_t length = sequence.cache->length();
  Part part{.tree = std::move(sequence.tree),
            .layout = {},
            .options = std::move(sequence.options),
            .cache = sequence.cache,
            .nodes = {},
            .first_row = first_row};
  part.layout = tree_layout(part.tree, length, shape_.nsa, is_nsa(shape_));
  part.nodes = {.count = part.tree.size(),
                .chain = is_chain(part.tree),
                .context_len = length,
                .compressed_rows = part.layout.compressed_rows(),
                .newest_position = part.layout.newest_position()};
  return part;
}

// Tokens and positions of all nodes, then each sequence's own lists, whose nodes are counted from
// its first.
template <class T>
void Target<T>::upload_layout() {
  std::vector<std::int32_t> all;
  for (const Part& part : parts_) {
    append(all, part.tree.token);
  }
  for (const Part& part : parts_) {
    append(all, part.layout.position);
  }
  for (const Part& part : parts_) {
    append(all, part.tree.parent);
    append(all, part.layout.owner);
    append(all, part.layout.block);
    append(all, part.layout.source);
  }
  nodes_.token = staged_.upload(*ops_, all);
  nodes_.position = nodes_.token + nodes_.count;
  const std::int32_t* next = nodes_.position + nodes_.count;
  for (Part& part : parts_) {
    part.nodes.token = nodes_.token + part.first_row;
    part.nodes.position = nodes_.position + part.first_row;
    part.nodes.parent = next;
    part.nodes.owner = part.nodes.parent + part.nodes.count;
    part.nodes.block = part.nodes.owner + part.nodes.compressed_rows;
    part.nodes.source = part.nodes.block + part.nodes.compressed_rows;
    next = part.nodes.source + part.layout.source.size();
  }
}

template <class T>
void Target<T>::verify_batch(std::vector<SequencePart<T>> parts) {
  VERSIEVE_ASSERT(!parts.empty(), "a step has a sequence");
  parts_.clear();
  std::int64_t rows = 0;
  for (SequencePart<T>& part : parts) {
    VERSIEVE_ASSERT(part.cache == &cache_ || !part.options.resa, "ReSA keeps one sequence's keys");
    if (part.cache != &cache_) {
      nsa_.set_hint(-1);  // it is of the target's own sequence
    }
    parts_.push_back(make_part(std::move(part), rows));
    rows += parts_.back().nodes.count;
  }
  ensure_rows(rows);
  nodes_ = {.count = rows};
  upload_layout();
  run_nodes();
}

template <class T>
void Target<T>::compress(const LayerWeights<T>& w, std::int64_t layer) {
  for (const Part& part : parts_) {
    const kernels::CompressParams<T> p = nsa_.compressed_tokens(attention_step(part), w, layer);
    if (p.rows > 0) {
      ops_->compress(p);
    }
  }
}

template <class T>
std::int64_t Target<T>::logits_row(std::size_t part) const {
  const std::int64_t row = parts_[part].first_logits() - (nodes_.count - logits_rows_);
  VERSIEVE_ASSERT(!parts_[part].options.no_logits && row >= 0, "its logits were computed");
  return row;
}

template <class T>
void Target<T>::commit_batch(std::span<const std::vector<std::int32_t>> paths) {
  VERSIEVE_ASSERT(paths.size() == parts_.size(), "a path a sequence");
  std::vector<CommittedRows<T>> commits;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Part& part = parts_[i];
    CommittedRows<T> rows{.cache = part.cache, .nodes = paths[i], .compressed = {}};
    rows.compressed = compressed_of(part, paths[i]);
    for (std::vector<std::int32_t>* list : {&rows.nodes, &rows.compressed}) {
      for (std::int32_t& row : *list) {
        row += static_cast<std::int32_t>(part.first_row);
      }
    }
    commits.push_back(std::move(rows));
  }
  append_rows(*ops_, shape_, tree_kv_.view(), commits, staged_commit_);
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

template Target<double>::Part Target<double>::make_part(SequencePart<double>, std::int64_t) const;
template void Target<double>::upload_layout();
template void Target<double>::verify_batch(std::vector<SequencePart<double>>);
template void Target<double>::compress(const LayerWeights<double>&, std::int64_t);
template std::int64_t Target<double>::logits_row(std::size_t) const;
template void Target<double>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<double>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);
template Target<float>::Part Target<float>::make_part(SequencePart<float>, std::int64_t) const;
template void Target<float>::upload_layout();
template void Target<float>::verify_batch(std::vector<SequencePart<float>>);
template void Target<float>::compress(const LayerWeights<float>&, std::int64_t);
template std::int64_t Target<float>::logits_row(std::size_t) const;
template void Target<float>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<float>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);
template Target<Bf16>::Part Target<Bf16>::make_part(SequencePart<Bf16>, std::int64_t) const;
template void Target<Bf16>::upload_layout();
template void Target<Bf16>::verify_batch(std::vector<SequencePart<Bf16>>);
template void Target<Bf16>::compress(const LayerWeights<Bf16>&, std::int64_t);
template std::int64_t Target<Bf16>::logits_row(std::size_t) const;
template void Target<Bf16>::commit_batch(std::span<const std::vector<std::int32_t>>);
template std::int64_t Target<Bf16>::step_bytes(const LlmShape&, std::int64_t, std::int64_t);

}  // namespace versieve::engine
