// tree_sample, variant `exact`: one launch, one pass over the rows of nodes that have children.
// Grid: clusters of 4 to 16 blocks share out the inner nodes (x) of each sample (y). A warp takes
// chunks of 512 or 1,024 logits and sends their statistics to the first block of its cluster, which
// tests the node's children and draws in case none passes (tree_row.cuh), while the others ask for
// the next node's logits. A note of it goes to memory; the first cluster, which has the root,
// follows the notes; where the path ends at an inner node its draw is there, at a leaf the cluster
// draws from the leaf's row. Bits are those of baseline.cu. Moves (inner nodes + 1) V logits once;
// bound by latencies.
#include <algorithm>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/spec_sample/together.h"
#include "kernels/tree_sample/together.h"
#include "kernels/tree_sample/tree_row.cuh"
#include "model/launches/tree_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kMinWarps = 8;      // the first block's work is a warp a child
constexpr int kMostBlocks = 240;  // of a tree

template <class T>
__device__ void load_tree(const TreeSampleParams<T>& s, std::int64_t sample, TreeShared& shared) {
  const int n = static_cast<int>(s.num_nodes);
  const int i = static_cast<int>(threadIdx.x);
  static_assert(kTreeNodes <= kMinWarps * 32, "a thread a node");
  int parent = -1;
  if (i < n) {
    parent = i == 0 ? -1 : s.parent[i];
    shared.parent[i] = parent;
    shared.proposed[i] = s.token[sample * n + i];
    shared.uniform[i] = s.uniforms[sample * n + i];
    shared.has_child[i] = 0;
  }
  __syncthreads();
  if (parent >= 0) {
    atomicOr(shared.has_child + parent, 1);  // siblings say the same
  }
  __syncthreads();
  if (i < 32) {
    const int count =
        list_nodes(n, shared.inner, [&](int node) { return shared.has_child[node] != 0; });
    if (i == 0) {
      shared.inner_count = count;
    }
  }
  __syncthreads();
}

// By all threads: this block's chunks of a row, of one or two rounds, to the first block.
template <class T, int kRounds>
class ChunkReader {
 public:
  __device__ ChunkReader(const TreeSetting<T>& a, Place place, const T* row, float least)
      : a_(a),
        place_(place),
        row_(row),
        least_(least),
        chunk_(place.rank * block_chunks(place, a.cut) + static_cast<int>(threadIdx.x) / 32),
        end_(min((place.rank + 1) * block_chunks(place, a.cut), a.cut.chunks)) {
    load(chunk_, z_);
  }
  // REQUIRES: the first block has done with the row before.
  __device__ void send(TreeShared& shared) {
    const int warps = static_cast<int>(blockDim.x) / 32;
    for (; chunk_ < end_; chunk_ += warps) {
      if constexpr (kRounds == 1) {
        float next[kRounds][kLaneElements];
        load(chunk_ + warps, next);
        send_chunk(shared);
#pragma unroll
        for (int j = 0; j < kLaneElements; ++j) {
          z_[0][j] = next[0][j];
        }
      } else {  // two rounds are enough on their way
        send_chunk(shared);
        load(chunk_ + warps, z_);
      }
    }
  }

 private:
  __device__ void send_chunk(TreeShared& shared) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      keep_from(least_, z_[r]);
    }
    const LawStat stat = weigh_chunk<T>(z_, chunk_ * kRounds * kRoundElements, a_.scale);
    if (threadIdx.x % 32 == 0) {
      push(place_, &shared.chunk[chunk_], stat, 0, shared.pushed);
    }
  }
  __device__ void load(int chunk, float (&z)[kRounds][kLaneElements]) const {
    if (chunk < end_) {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        load_round(row_, (chunk * kRounds + r) * kRoundElements, a_.cut.vocab, a_.words, z[r]);
      }
    }
  }

  const TreeSetting<T>& a_;
  Place place_;
  const T* row_;
  float least_;
  int chunk_, end_;
  float z_[kRounds][kLaneElements] = {};
};

// By the first block, once the row's chunks are there: tests and draw of a node into shared.next
// and shared.drawn.
template <class T>
__device__ void judge_node(const TreeSetting<T>& a, std::int64_t sample, int node,
                           TreeShared& shared) {
  const T* const row = a.s.target_logits + node * a.s.vocab;
  combine_row(a, shared);
  int out = 0;
  if (!a.scale.one_hot) {
    out = weigh_left(a, shared);
    __syncthreads();
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp == 0) {
    const float u = shared.uniform[a.s.num_nodes - 1];
    const int token = a.scale.one_hot ? shared.left[0].argmax()
                                      : draw_left(a, row, a.least(node), out, u, shared);
    if (threadIdx.x == 0) {
      shared.drawn = token;
    }
  } else if (warp == 1) {
    const int next = test_children(a, sample, shared);
    if (threadIdx.x == 32) {
      shared.next = next;
    }
  }
  __syncthreads();
}

// A node's row by the cluster; only the first block learns of its verdict.
template <class T, int kRounds>
__device__ void visit_node(const TreeSetting<T>& a, Place place, std::int64_t sample, int node,
                           int parity, TreeShared& shared) {
  const T* const row = a.s.target_logits + node * a.s.vocab;
  if (place.rank == 0) {  // its own chunks wait in the second-level cache meanwhile
    const int own = static_cast<int>(threadIdx.x) / 32;
    if (own < block_chunks(place, a.cut)) {
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        call_for_round(row, (own * kRounds + r) * kRoundElements, a.cut.vocab);
      }
    }
    list_children(static_cast<int>(a.s.num_nodes), node, a.cut, shared);
    if (!a.scale.one_hot) {
      step_children(a, row, a.least(node), shared);
    }
  }
  ChunkReader<T, kRounds> reader(a, place, row, a.least(node));
  cluster_wait();
  reader.send(shared);
  if (place.rank == 0) {
    __syncthreads();
    await_pushes(place, shared.pushed, a.cut.chunks * static_cast<int>(sizeof(LawStat)), parity);
    judge_node(a, sample, node, shared);
  }
}

// By the first block of the sample's first cluster, once it has noted its own nodes: waits for all
// notes and takes them away, follows them from the root; returns the leaf where the path ends, or
// -1. Clusters start in order, so those waited for run.
template <class T>
__device__ int walk(const TreeSetting<T>& a, std::int64_t sample, unsigned* notes /* [N] */,
                    TreeShared& shared) {
  const int n = static_cast<int>(a.s.num_nodes);
  const std::int64_t first = sample * n;
  const int i = static_cast<int>(threadIdx.x);
  if (i < n && shared.has_child[i] != 0) {
    volatile unsigned* const place = notes + i;
    unsigned note = *place;
    while (note == 0) {
      note = *place;
    }
    *place = 0;
    shared.child[i] = noted_next(note);
    shared.token[i] = noted_token(note);
  }
  __syncthreads();
  int node = 0;
  int accepted = 0;
  while (shared.has_child[node] != 0 && shared.child[node] >= 0) {
    node = shared.child[node];
    if (i == accepted) {
      a.s.path[first + i] = node;
      a.s.tokens[first + i] = shared.proposed[node];
    }
    ++accepted;
  }
  const bool is_leaf = shared.has_child[node] == 0;
  if (i >= accepted && i < n) {
    a.s.path[first + i] = -1;
    if (i > accepted || !is_leaf) {
      a.s.tokens[first + i] = i > accepted ? -1 : shared.token[node];
    }
  }
  if (i == 0) {
    a.s.accepted[sample] = accepted;
    a.s.tau[first] = 1.0F;
    shared.accepted = accepted;
  }
  __syncthreads();  // lists change hands
  return is_leaf ? node : -1;
}

// By the sample's first cluster, once its own nodes are noted: the path, and the draw from its end
// if that is a leaf.
template <class T, int kRounds>
__device__ void finish_path(const TreeSetting<T>& a, Place place, std::int64_t sample, int parity,
                            unsigned* notes, TreeShared& shared) {
  if (place.rank == 0) {
    const int leaf = walk(a, sample, notes, shared);
    if (static_cast<int>(threadIdx.x) < place.blocks) {
      *in_block(&shared.ends_at_leaf, static_cast<int>(threadIdx.x)) = leaf;
    }
  }
  cluster_sync();
  const int leaf = shared.ends_at_leaf;
  if (leaf < 0) {
    return;
  }
  cluster_arrive();
  visit_node<T, kRounds>(a, place, sample, leaf, parity, shared);
  if (place.rank == 0 && threadIdx.x == 0) {
    a.s.tokens[sample * a.s.num_nodes + shared.accepted] = shared.drawn;
  }
}

// By all threads of a sample's blocks, its clusters along the grid's x.
template <class T, int kRounds>
__device__ void sample_tree(const TreeSetting<T>& a, std::int64_t sample, unsigned* notes /* [N] */,
                            TreeShared& shared) {
  if (threadIdx.x == 0) {
    barrier_init(shared_address(&shared.pushed), 1);
    publish_barriers();
  }
  __syncwarp();
  cluster_arrive();
  const Place place = cluster_place();
  wait_for_predecessors();
  const int cluster = static_cast<int>(blockIdx.x) / place.blocks;
  const int clusters = static_cast<int>(gridDim.x) / place.blocks;
  load_tree(a.s, sample, shared);
  int parity = 0;
  for (int i = cluster; i < shared.inner_count; i += clusters, parity ^= 1) {
    if (i != cluster) {
      cluster_arrive();  // the first block has done with the node before
    }
    visit_node<T, kRounds>(a, place, sample, shared.inner[i], parity, shared);
    if (place.rank == 0 && threadIdx.x == 0) {
      static_cast<volatile unsigned*>(notes)[shared.inner[i]] = note_of(shared.next, shared.drawn);
    }
  }
  if (cluster >= shared.inner_count) {
    cluster_wait();
  }
  if (cluster == 0) {
    finish_path<T, kRounds>(a, place, sample, parity, notes, shared);
  }
}

template <class T, int kRounds>
__global__ void __launch_bounds__(kMaxThreads, 2)
    tree_sample_kernel(const __grid_constant__ TreeSetting<T> a, unsigned* notes /* [R, N] */) {
  __shared__ TreeShared shared;
  release_successors();
  const std::int64_t sample = blockIdx.y;
  sample_tree<T, kRounds>(a, sample, notes + sample * a.s.num_nodes, shared);
}

template <class T>
struct TreeCalls {
  TreeSetting<T> call[kMostSampled];
  int first_note[kMostSampled];
};
static_assert(sizeof(TreeCalls<float>) + 8 <= 32764);  // of a kernel's parameters
static_assert(kMostSampled * kTreeNodes <= kLaunchCounters, "a word a node");

// Grid: clusters of a tree; call.
template <class T, int kRounds>
__global__ void __launch_bounds__(kMaxThreads, 2)
    tree_samples_kernel(const __grid_constant__ TreeCalls<T> calls, unsigned* notes) {
  __shared__ TreeShared shared;
  release_successors();
  sample_tree<T, kRounds>(calls.call[blockIdx.y], 0, notes + calls.first_note[blockIdx.y], shared);
}

// Blocks of a cluster: as many as it takes to keep the chip busy with so many nodes, of which often
// a quarter have children.
unsigned blocks_for(const LawCut& cut, std::int64_t num_nodes) {
  const unsigned wanted = num_nodes <= 16 ? 16 : num_nodes <= 64 ? 8 : 4;
  return std::min(wanted, cluster_blocks(cut));
}

// How a launch of `nodes` nodes in all is cut; the largest of its trees has `most`.
struct TreeGrid {
  unsigned blocks, clusters, threads;  // of a cluster, of a tree, of a block

  TreeGrid(const LawCut& cut, std::int64_t nodes, std::int64_t most)
      : blocks(blocks_for(cut, nodes)),
        clusters(std::min(static_cast<unsigned>(most), std::max(1U, kMostBlocks / blocks))) {
    const unsigned chunks = (static_cast<unsigned>(cut.chunks) + blocks - 1) / blocks;
    threads = 32 * std::clamp<unsigned>(chunks, kMinWarps, kMaxThreads / 32);
  }
};

}  // namespace

template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const float* cuts,
                       const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples * p.num_nodes <= kLaunchCounters, "a word a node");
  const TreeSetting<T> a = tree_setting(p, cuts);
  VERSIEVE_ASSERT(a.cut.rounds <= 2, "what is launched is what is priced");
  const auto kernel = a.cut.rounds == 1 ? tree_sample_kernel<T, 1> : tree_sample_kernel<T, 2>;
  const TreeGrid grid(a.cut, p.num_nodes, p.num_nodes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const LaunchRange range("tree_tests", traffic::tree_tests(p.num_nodes, p.vocab, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(grid.blocks * grid.clusters, static_cast<unsigned>(p.samples)),
                    .threads = grid.threads,
                    .cluster = grid.blocks,
                    .stream = context.stream},
                   kernel, a, context.counters);
}

template <class T>
std::size_t tree_together_scratch_bytes(std::span<const TreeSampleParams<T>> calls) {
  std::size_t rows = 0;
  for (const TreeSampleParams<T>& p : calls) {
    rows += static_cast<std::size_t>(p.num_nodes);
  }
  return rows * sizeof(float);
}

template <class T>
void launch_tree_together(std::span<const TreeSampleParams<T>> calls,
                          const LaunchContext& context) {
  VERSIEVE_ASSERT(!calls.empty() && calls.size() <= kMostSampled, "a launch has so many calls");
  VERSIEVE_ASSERT(context.scratch_bytes >= tree_together_scratch_bytes(calls),
                  "scratch is reserved before");
  TreeCalls<T> all{};
  std::vector<RowCutsParams<T>> cuts;
  float* const least = static_cast<float*>(context.scratch);
  std::int64_t nodes = 0, most = 0;
  Traffic traffic;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const TreeSampleParams<T>& p = calls[i];
    VERSIEVE_ASSERT(goes_together(p) && p.vocab == calls[0].vocab, "calls of a launch are alike");
    const bool cut = p.truncation.cuts() && p.temperature > 0.0;
    all.call[i] = tree_setting(p, cut ? least + nodes : nullptr);
    all.first_note[i] = static_cast<int>(nodes);
    if (cut) {
      cuts.push_back({.first = p.target_logits,
                      .rows = p.num_nodes,
                      .vocab = p.vocab,
                      .temperature = p.temperature,
                      .truncation = p.truncation,
                      .cuts = least + nodes});
    }
    nodes += p.num_nodes;
    most = std::max(most, p.num_nodes);
    traffic += traffic::tree_tests(p.num_nodes, p.vocab, sizeof(T));
  }
  if (!cuts.empty()) {
    launch_row_cuts_of_calls(std::span<const RowCutsParams<T>>(cuts), context);
  }
  const LawCut& cut = all.call[0].cut;
  VERSIEVE_ASSERT(cut.rounds <= 2, "what is launched is what is priced");
  const auto kernel = cut.rounds == 1 ? tree_samples_kernel<T, 1> : tree_samples_kernel<T, 2>;
  const TreeGrid grid(cut, nodes, most);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const LaunchRange range("tree_tests", traffic, context.observer);
  launch_dependent({.grid = dim3(grid.blocks * grid.clusters, static_cast<unsigned>(calls.size())),
                    .threads = grid.threads,
                    .cluster = grid.blocks,
                    .stream = context.stream},
                   kernel, all, context.counters);
}

template void launch_tree_fused<float>(const TreeSampleParams<float>&, const float*,
                                       const LaunchContext&);
template void launch_tree_fused<Bf16>(const TreeSampleParams<Bf16>&, const float*,
                                      const LaunchContext&);
template void launch_tree_fused<F16>(const TreeSampleParams<F16>&, const float*,
                                     const LaunchContext&);
template std::size_t tree_together_scratch_bytes<float>(std::span<const TreeSampleParams<float>>);
template std::size_t tree_together_scratch_bytes<Bf16>(std::span<const TreeSampleParams<Bf16>>);
template void launch_tree_together<float>(std::span<const TreeSampleParams<float>>,
                                          const LaunchContext&);
template void launch_tree_together<Bf16>(std::span<const TreeSampleParams<Bf16>>,
                                         const LaunchContext&);

}  // namespace versieve::kernels
