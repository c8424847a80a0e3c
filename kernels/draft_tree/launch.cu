#include "kernels/launch.h"

#include <cmath>

#include "kernels/common/element.h"
#include "kernels/common/launch_range.h"
#include "kernels/draft_tree/accept.cuh"
#include "kernels/draft_tree/finish.cuh"
#include "kernels/draft_tree/grow_kernels.cuh"
#include "model/launches/draft_tree.h"
#include "model/launches/top_logits.h"
#include "model/words/assert.h"
#include "model/words/traffic.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMostListedRows = 16;  // one a warp; more spread better over the chip

void require_tree(std::int64_t nodes) {
  VERSIEVE_ASSERT(nodes >= 1 && nodes <= kMaxTreeNodes, "a tree has 1 to 256 nodes");
}

void require_growth(const GrowTreeParams& p) {
  require_tree(p.choice.nodes);
  VERSIEVE_ASSERT(p.choice.width >= 1 && p.choice.width <= kMaxTreeWidth, "1 to 64 children");
  VERSIEVE_ASSERT(p.branch >= 1 && p.branch <= p.choice.width, "no more children than the width");
}

}  // namespace

template <class T>
bool grows_from_logits(const TopLogitsParams<T>& top) {
  return top.vocab <= kShortRow && top.rows * top.k <= kEarlyChildren &&
         top.rows <= kMostListedRows;
}

template <class T>
void launch_grow_from_logits(const TopLogitsParams<T>& top, const GrowTreeParams& p,
                             const LaunchContext& context) {
  require_growth(p);
  const std::int64_t expanded = p.level == 0 ? 1 : p.choice.width;
  VERSIEVE_ASSERT(
      grows_from_logits(top) && top.rows == expanded && top.k == p.branch && top.k <= top.vocab,
      "the frontier's rows are listed");
  Traffic traffic = traffic::top_logits(top.rows, top.vocab, top.k, sizeof(T));
  traffic += traffic::grow_tree(p.choice.nodes, expanded * p.branch);
  const LaunchRange range("grow_tree", traffic, context.observer);
  with_own_logits(top.vocab, [&]<int kOwn>() {
    launch_dependent({.grid = dim3(1), .threads = kGrowThreads, .stream = context.stream},
                     grow_listed_kernel<T, kOwn>, top, p, -std::log(2.0F),
                     p.level + 1 < p.choice.levels());
  });
}
template bool grows_from_logits<float>(const TopLogitsParams<float>&);
template bool grows_from_logits<Bf16>(const TopLogitsParams<Bf16>&);
template void launch_grow_from_logits<float>(const TopLogitsParams<float>&, const GrowTreeParams&,
                                             const LaunchContext&);
template void launch_grow_from_logits<Bf16>(const TopLogitsParams<Bf16>&, const GrowTreeParams&,
                                            const LaunchContext&);

void launch_grow_tree(const GrowTreeParams& p, const LaunchContext& context) {
  require_growth(p);
  const std::int64_t expanded = p.level == 0 ? 1 : p.choice.width;
  const LaunchRange range("grow_tree", traffic::grow_tree(p.choice.nodes, expanded * p.branch),
                          context.observer);
  launch_dependent({.grid = dim3(1), .threads = kGrowThreads, .stream = context.stream},
                   grow_tree_kernel, p, -std::log(2.0F), p.level + 1 < p.choice.levels());
}

void launch_finish_tree(const FinishTreeParams& p, const LaunchContext& context) {
  require_tree(p.nodes);
  const LaunchRange range("finish_tree", traffic::finish_tree(p.nodes), context.observer);
  launch_dependent({.grid = dim3(1), .threads = kFinishThreads, .stream = context.stream},
                   finish_tree_kernel, p);
}

void launch_accept_tree(const AcceptTreeParams& p, const LaunchContext& context) {
  require_tree(p.nodes);
  VERSIEVE_ASSERT(p.max_path >= 1 && p.max_path <= kMaxPathNodes, "a path has 1 to 33 nodes");
  const LaunchRange range("accept_tree", traffic::accept_tree(p.nodes), context.observer);
  launch_dependent({.grid = dim3(1), .threads = kAcceptThreads, .stream = context.stream},
                   accept_tree_kernel, p);
}

template <class T>
void launch_commit_path(const CommitPathParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.layers >= 1 && p.width >= 1, "a cache has rows");
  const LaunchRange range("commit_path",
                          traffic::commit_path(p.layers, p.max_path, p.width, sizeof(T)),
                          context.observer);
  const dim3 grid(static_cast<unsigned>(p.max_path), static_cast<unsigned>(p.layers), 5);
  // Buffers come from the allocator, so rows of whole words are aligned words.
  const bool words = p.width * static_cast<std::int64_t>(sizeof(T)) % sizeof(uint4) == 0;
  launch_dependent({.grid = grid, .threads = kCommitThreads, .stream = context.stream},
                   words ? commit_path_kernel<T, uint4> : commit_path_kernel<T, T>, p);
}

template void launch_commit_path<float>(const CommitPathParams<float>&, const LaunchContext&);
template void launch_commit_path<Bf16>(const CommitPathParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
