#include "model/launches/draft_tree.h"

#include <algorithm>
#include <array>

#include "model/launches/launch_parts.h"
#include "model/launches/row_ops.h"
#include "model/launches/step_shape.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

void add_tree_launch(LaunchKind kind, Phase phase, const Traffic& traffic, const StepShape& s,
                     StepWork& out) {
  out.add(streaming(kind, phase, 1.0, traffic, 1.0, number(s.num_queries) / kPlacesPerStep));
}

}  // namespace

DraftPasses draft_passes(const DraftChoice& choice) {
  if (!choice.speculates()) {
    return {};
  }
  // Path scores are sums of ranks; candidates are counted by score.
  constexpr std::size_t kScores = 33 * 64 + 1;
  const std::size_t scores = static_cast<std::size_t>((choice.depth + 1) * choice.width + 1);
  VERSIEVE_ASSERT(scores <= kScores, "strategy texts stop at depth 32 and width 64");
  std::array<std::int64_t, kScores> level{};
  std::array<std::int64_t, kScores> all{};
  for (std::int64_t rank = 1; rank <= choice.width; ++rank) {
    level[static_cast<std::size_t>(rank)] = 1;
  }
  DraftPasses out{.passes = 1.0, .rows = 1.0};  // the first reads out one row
  double rows = 1.0;
  const std::int64_t last = choice.levels();
  for (std::int64_t depth = 1; depth < last; ++depth) {
    std::int64_t better = 0;
    std::size_t bar = 0;  // the score of the (nodes - 1)-th best candidate so far, or none
    for (std::size_t s = 0; s < scores; ++s) {
      all[s] += level[s];
      better += all[s];
      bar = bar == 0 && better >= choice.nodes - 1 ? s : bar;
    }
    std::array<std::int64_t, kScores> next{};
    std::int64_t taken = 0;
    for (std::size_t s = 0; s < (bar == 0 ? scores : bar) && taken < choice.width; ++s) {
      const std::int64_t count = std::min(level[s], choice.width - taken);
      taken += count;
      for (std::size_t rank = 1; count > 0 && rank <= static_cast<std::size_t>(choice.width);
           ++rank) {
        next[s + rank] += count;
      }
    }
    if (taken == 0) {
      break;
    }
    out.passes += 1.0;
    rows += static_cast<double>(taken);
    level = next;
  }
  out.rows = rows / out.passes;
  return out;
}

namespace traffic {

Traffic grow_tree(std::int64_t nodes, std::int64_t children) {
  return copy_rows(nodes + children, 4, kIntBytes, TrafficTerm::kDraft);
}

Traffic finish_tree(std::int64_t nodes) {
  return copy_rows(nodes, 5, kIntBytes, TrafficTerm::kDraft);
}

Traffic accept_tree(std::int64_t nodes) {
  return copy_rows(nodes, 4, kIntBytes, TrafficTerm::kDraft);
}

Traffic commit_path(std::int64_t layers, std::int64_t max_path, std::int64_t width,
                    std::int64_t element_bytes) {
  return copy_rows(2 * layers * max_path, width, element_bytes, TrafficTerm::kKvAppend);
}

}  // namespace traffic

void add_grow_tree(const StepShape& s, double times, std::int64_t parents, StepWork& out) {
  const std::int64_t children = parents * std::min(s.tree.width, s.draft.vocab);
  out.add(streaming(LaunchKind::kGrowTree, Phase::kDraft, times,
                    traffic::grow_tree(s.tree.nodes, children), 1.0,
                    number(s.tree.nodes) / kPlacesPerStep));
}

void add_finish_tree(const StepShape& s, StepWork& out) {
  add_tree_launch(LaunchKind::kFinishTree, Phase::kOther, traffic::finish_tree(s.num_queries), s,
                  out);
}

void add_accept_tree(const StepShape& s, StepWork& out) {
  add_tree_launch(LaunchKind::kAcceptTree, Phase::kAcceptance, traffic::accept_tree(s.num_queries),
                  s, out);
}

void add_commit_path(const StepShape& s, StepWork& out) {
  const LlmShape& t = s.target;
  const std::int64_t path = s.tree.levels() + 1;
  out.add(streaming(LaunchKind::kCommitPath, Phase::kAcceptance, 1.0,
                    traffic::commit_path(t.layers, path, t.kv_width(), s.element_bytes),
                    5.0 * number(t.layers * path), 1.0));
}

}  // namespace versieve
