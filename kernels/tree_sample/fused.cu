// tree_sample, variant `exact`: one launch, one pass over the rows of nodes that have children.
// Grid: clusters of 4 to 16 blocks share out the inner nodes (x) of each sample (y). A warp takes
// chunks of 512 logits and sends their statistics to the first block of its cluster, which tests
// the node's children and draws in case none passes (tree_row.cuh), while the others ask for the
// next node's logits. The cluster that ends last follows the notes of all from the root; where the
// path ends at an inner node its draw is there, at a leaf this cluster draws from the leaf's row.
// Bits are those of baseline.cu. Moves (inner nodes + 1) V logits once; bound by latencies.
#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/tree_sample/launch.h"
#include "kernels/tree_sample/tree_row.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kMinWarps = 8;      // the first block's work is a warp a child
constexpr int kMostBlocks = 240;  // of a launch

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

// By all threads: this block's chunks of a row, to the first block.
template <class T>
class ChunkReader {
 public:
  __device__ ChunkReader(const TreeSetting<T>& a, Place place, const T* row)
      : a_(a),
        place_(place),
        row_(row),
        chunk_(place.rank * block_chunks(place, a.cut) + static_cast<int>(threadIdx.x) / 32),
        end_(min((place.rank + 1) * block_chunks(place, a.cut), a.cut.chunks)) {
    load(chunk_, z_);
  }
  // REQUIRES: the first block has done with the row before.
  __device__ void send(TreeShared& shared) {
    const int warps = static_cast<int>(blockDim.x) / 32;
    for (; chunk_ < end_; chunk_ += warps) {
      float next[kLaneElements];
      load(chunk_ + warps, next);
      const LawStat stat = weigh_round<T>(z_, chunk_ * kRoundElements, a_.scale);
      if (threadIdx.x % 32 == 0) {
        push(place_, &shared.chunk[chunk_], stat, 0, shared.pushed);
      }
#pragma unroll
      for (int j = 0; j < kLaneElements; ++j) {
        z_[j] = next[j];
      }
    }
  }

 private:
  __device__ void load(int chunk, float (&z)[kLaneElements]) const {
    if (chunk < end_) {
      load_round(row_, chunk * kRoundElements, a_.cut.vocab, a_.words, z);
    }
  }

  const TreeSetting<T>& a_;
  Place place_;
  const T* row_;
  int chunk_, end_;
  float z_[kLaneElements] = {};
};

// By the first block, once the row's chunks are there: tests and draw of a node; its notes, or the
// token of the leaf where the path ends.
template <class T>
__device__ void judge_node(const TreeSetting<T>& a, std::int64_t sample, int node, bool is_leaf,
                           TreeShared& shared, const TreeNotes& notes) {
  const std::int64_t first = sample * a.s.num_nodes;
  const T* const row = a.s.target_logits + node * a.s.vocab;
  const float u = shared.uniform[a.s.num_nodes - 1];
  combine_row(a, shared);
  int out = 0;
  if (!a.scale.one_hot) {
    out = weigh_left(a, shared);
    __syncthreads();
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == 0) {
    const int token = a.scale.one_hot ? shared.left[0].argmax() : draw_left(a, row, out, u, shared);
    if (lane == 0) {
      (is_leaf ? a.s.tokens[first + shared.accepted] : notes.drawn[first + node]) = token;
    }
  } else if (warp == 1 && !is_leaf) {
    const int next = test_children(a, sample, shared);
    if (lane == 0) {
      notes.next[first + node] = next;
    }
  }
  __syncthreads();  // lists change hands
}

// A node's row by the cluster. Ends with half a cluster barrier: what the first block has done.
template <class T>
__device__ void visit_node(const TreeSetting<T>& a, Place place, std::int64_t sample, int node,
                           bool is_leaf, int parity, TreeShared& shared, const TreeNotes& notes) {
  const T* const row = a.s.target_logits + node * a.s.vocab;
  ChunkReader<T> reader(a, place, row);
  if (place.rank == 0) {
    list_children(static_cast<int>(a.s.num_nodes), node, shared);
  }
  cluster_wait();
  reader.send(shared);
  if (place.rank == 0) {
    if (!a.scale.one_hot) {
      step_children(a, row, shared);
    }
    __syncthreads();
    await_pushes(place, shared.pushed, a.cut.chunks * static_cast<int>(sizeof(LawStat)), parity);
    judge_node(a, sample, node, is_leaf, shared, notes);
  }
}

// By the first block of the cluster that ends last: the path, and the node where it ends.
template <class T>
__device__ void walk(const TreeSetting<T>& a, std::int64_t sample, TreeShared& shared,
                     const TreeNotes& notes) {
  const int n = static_cast<int>(a.s.num_nodes);
  const std::int64_t first = sample * n;
  const int i = static_cast<int>(threadIdx.x);
  if (i < n && shared.has_child[i] != 0) {
    shared.child[i] = __ldcg(notes.next + first + i);
    shared.token[i] = __ldcg(notes.drawn + first + i);
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
    shared.ends_at_leaf = is_leaf ? node : -1;
  }
  __syncthreads();
}

// By the first block of a cluster that has noted all its nodes: whether it is the last of
// `clusters`.
__device__ inline bool is_last(unsigned* done, unsigned clusters, TreeShared& shared) {
  if (clusters == 1) {
    return true;
  }
  if (threadIdx.x == 0) {
    __threadfence();
    shared.accepted = atomicAdd(done, 1) == clusters - 1 ? 1 : 0;
    if (shared.accepted != 0) {
      *done = 0;
    }
    __threadfence();
  }
  __syncthreads();
  const bool last = shared.accepted != 0;
  __syncthreads();
  return last;
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads, 2)
    tree_sample_kernel(const __grid_constant__ TreeSetting<T> a,
                       const __grid_constant__ TreeNotes notes) {
  __shared__ TreeShared shared;
  release_successors();
  if (threadIdx.x == 0) {
    barrier_init(shared_address(&shared.pushed), 1);
    publish_barriers();
    shared.ends_at_leaf = -1;
  }
  __syncwarp();
  cluster_arrive();
  const Place place = cluster_place();
  wait_for_predecessors();
  const std::int64_t sample = blockIdx.y;
  const int cluster = static_cast<int>(blockIdx.x) / place.blocks;
  const int clusters = static_cast<int>(gridDim.x) / place.blocks;
  load_tree(a.s, sample, shared);
  int parity = 0;
  for (int i = cluster; i < shared.inner_count; i += clusters, parity ^= 1) {
    visit_node(a, place, sample, shared.inner[i], false, parity, shared, notes);
    if (i + clusters < shared.inner_count) {
      cluster_arrive();
    }
  }
  const int working = max(1, min(clusters, shared.inner_count));
  if (cluster >= working) {
    cluster_wait();
    return;
  }
  if (shared.inner_count == 0) {
    cluster_wait();
  }
  if (place.rank == 0 && is_last(notes.done + sample, static_cast<unsigned>(working), shared)) {
    walk(a, sample, shared, notes);
    if (static_cast<int>(threadIdx.x) < place.blocks) {
      *in_block(&shared.ends_at_leaf, static_cast<int>(threadIdx.x)) = shared.ends_at_leaf;
    }
    __syncthreads();
  }
  cluster_sync();
  if (shared.ends_at_leaf < 0) {
    return;
  }
  const int leaf = shared.ends_at_leaf;
  cluster_arrive();
  visit_node(a, place, sample, leaf, true, parity, shared, notes);
  cluster_sync();  // nobody ends while others push
}

// Blocks of a cluster: as many as it takes to keep the chip busy with so many nodes, of which often
// a quarter have children.
unsigned blocks_for(const LawCut& cut, std::int64_t num_nodes) {
  const unsigned wanted = num_nodes <= 16 ? 16 : num_nodes <= 64 ? 8 : 4;
  return std::min(wanted, cluster_blocks(cut));
}

}  // namespace

template <class T>
bool tree_fused_takes(const TreeSampleParams<T>& p) {
  return cut_law(p.vocab).rounds == 1 && p.num_nodes <= kTreeNodes;
}

template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples <= kLaunchCounters, "a counter a sample");
  const TreeSetting<T> a = tree_setting(p);
  TreeNotes notes;
  notes.next = static_cast<std::int32_t*>(context.scratch);
  notes.drawn = notes.next + p.samples * p.num_nodes;
  notes.done = context.counters;
  const unsigned blocks = blocks_for(a.cut, p.num_nodes);
  const unsigned chunks = (static_cast<unsigned>(a.cut.chunks) + blocks - 1) / blocks;
  const unsigned clusters =
      std::min(static_cast<unsigned>(p.num_nodes), std::max(1U, kMostBlocks / blocks));
  check(cudaFuncSetAttribute(tree_sample_kernel<T>, cudaFuncAttributeNonPortableClusterSizeAllowed,
                             1));
  const LaunchRange range("tree_tests", traffic::tree_tests(p.num_nodes, p.vocab, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(blocks * clusters, static_cast<unsigned>(p.samples)),
                    .threads = 32 * std::clamp<unsigned>(chunks, kMinWarps, kMaxThreads / 32),
                    .cluster = blocks,
                    .stream = context.stream},
                   tree_sample_kernel<T>, a, notes);
}

template bool tree_fused_takes<float>(const TreeSampleParams<float>&);
template bool tree_fused_takes<Bf16>(const TreeSampleParams<Bf16>&);
template void launch_tree_fused<float>(const TreeSampleParams<float>&, const LaunchContext&);
template void launch_tree_fused<Bf16>(const TreeSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
