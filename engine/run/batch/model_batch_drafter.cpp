#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/run/batch/batch_drafter.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Tokens of a context that a call reads at most.
constexpr std::int64_t kChunk = Target<float>::kMostTogether;

std::vector<std::int32_t> whole_path(std::size_t nodes) {
  std::vector<std::int32_t> path(nodes);
  std::iota(path.begin(), path.end(), 0);
  return path;
}

}  // namespace

template <class T>
void ModelBatchDrafter<T>::gather(const std::vector<std::int32_t>& rows) {
  const std::int64_t count = static_cast<std::int64_t>(rows.size());
  ensure_count(*ops_, logits_, count * vocab());
  ops_->copy_rows({.rows = count,
                   .width = vocab(),
                   .src_row = staged_.upload(*ops_, rows),
                   .src = model_->logits(),
                   .dst = logits_.data(),
                   .term = TrafficTerm::kDraft});
}

// All tokens before the roots; what an earlier tree left is dropped.
template <class T>
void ModelBatchDrafter<T>::catch_up() {
  for (const Sequence& s : sequences_) {
    std::vector<std::int32_t>& cached = s.context->cached;
    const std::size_t most = std::min(cached.size(), s.text.size() - 1);
    const auto [same, ignored] = std::mismatch(
        cached.begin(), cached.begin() + static_cast<std::ptrdiff_t>(most), s.text.begin());
    cached.erase(same, cached.end());
    s.context->cache.truncate(static_cast<std::int64_t>(cached.size()));
  }
  while (true) {
    std::vector<SequencePart<T>> parts;
    std::vector<std::vector<std::int32_t>> paths;
    for (const Sequence& s : sequences_) {
      std::vector<std::int32_t>& cached = s.context->cached;
      const std::size_t lacking = s.text.size() - 1 - cached.size();
      const std::span<const std::int32_t> next =
          s.text.subspan(cached.size(), std::min<std::size_t>(lacking, kChunk));
      if (!next.empty()) {
        parts.push_back({.tree = chain_tree({next.begin(), next.end()}),
                         .options = {.last_logits_only = true, .no_logits = true},
                         .cache = &s.context->cache});
        paths.push_back(whole_path(next.size()));
        cached.insert(cached.end(), next.begin(), next.end());
      }
    }
    if (parts.empty()) {
      return;
    }
    model_->verify_batch(std::move(parts));
    model_->commit_batch(paths);
  }
}

template <class T>
void ModelBatchDrafter<T>::verify_roots() {
  std::vector<SequencePart<T>> parts;
  std::vector<std::vector<std::int32_t>> paths;
  std::vector<std::int32_t> rows;
  for (const Sequence& s : sequences_) {
    parts.push_back(
        {.tree = chain_tree({s.text.back()}), .options = {}, .cache = &s.context->cache});
    if (s.attention != nullptr) {
      s.attention->begin(static_cast<std::int64_t>(s.text.size()) - 1);
      parts.back().capture = s.attention->next_capture();
    }
    paths.push_back(whole_path(s.chain ? 1 : 0));
    rows.push_back(static_cast<std::int32_t>(rows.size()));
    if (s.chain) {
      s.context->cached.push_back(s.text.back());
    }
  }
  model_->verify_batch(std::move(parts), idle_);
  model_->commit_batch(paths);
  gather(rows);
}

template <class T>
void ModelBatchDrafter<T>::begin(std::vector<Sequence> sequences) {
  sequences_ = std::move(sequences);
  trees_.clear();
  for (const Sequence& s : sequences_) {
    VERSIEVE_ASSERT(!s.text.empty(), "a text has its root");
    trees_.push_back(chain_tree({s.text.back()}));
  }
  catch_up();
  verify_roots();
}

template <class T>
void ModelBatchDrafter<T>::step(std::span<const typename BatchDrafter<T>::Nodes> trees) {
  std::vector<SequencePart<T>> parts;
  std::vector<std::vector<std::int32_t>> paths;
  std::vector<std::int64_t> before;  // nodes that ran already
  for (const typename BatchDrafter<T>::Nodes& nodes : trees) {
    const Sequence& s = sequences_[nodes.sequence];
    DraftTree& tree = trees_[nodes.sequence];
    const std::vector<std::int32_t>& token = nodes.nodes.token;
    before.push_back(s.chain ? 0 : tree.size());
    if (s.chain) {
      VERSIEVE_ASSERT(token.size() == 1, "a chain grows by one node");
      s.context->cached.push_back(token[0]);
    } else {
      const std::int32_t root = static_cast<std::int32_t>(s.text.size()) - 1;
      for (std::size_t i = 0; i < token.size(); ++i) {
        tree.token.push_back(token[i]);
        tree.parent.push_back(nodes.nodes.parent[i] + 1);  // slot s is node s + 1
        tree.depth.push_back(nodes.nodes.position[i] - root);
        tree.log_probability.push_back(0.0F);
      }
    }
    parts.push_back(
        {.tree = s.chain ? chain_tree(token) : tree, .options = {}, .cache = &s.context->cache});
    if (s.attention != nullptr) {
      parts.back().capture = s.attention->next_capture();
    }
    paths.push_back(whole_path(s.chain ? 1 : 0));
  }
  model_->verify_batch(std::move(parts), idle_);
  model_->commit_batch(paths);
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    for (std::size_t node = 0; node < trees[i].nodes.token.size(); ++node) {
      rows.push_back(static_cast<std::int32_t>(model_->logits_row(i) + before[i] +
                                               static_cast<std::int64_t>(node)));
    }
  }
  gather(rows);
}

template class ModelBatchDrafter<double>;
template class ModelBatchDrafter<float>;
template class ModelBatchDrafter<Bf16>;

}  // namespace versieve::engine
