// tree_sample, variant `baseline`: one launch for tau of every node, one for the walk and the draw.
// Each test sums the remaining mass anew over the parent's whole row. Bound by 1 + children passes
// over each parent's row, from the second-level cache after the first.
#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/spec_sample/block_law.cuh"
#include "kernels/tree_sample/tree_law.cuh"
#include "model/launches/tree_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kLawThreads = 1024;
constexpr std::int64_t kMaxNodes = 4096;  // parents and tokens of a tree lie in shared memory

// A sample's tree in shared memory: parent, token, children, children's tokens, N each.
struct TreeShared {
  std::int32_t* parent;
  std::int32_t* token;
  std::int32_t* children;
  std::int32_t* children_tokens;
};

template <class T>
__device__ TreeShared load_tree(const TreeSampleParams<T>& s, std::int64_t sample,
                                std::int32_t* memory) {
  const int n = static_cast<int>(s.num_nodes);
  const TreeShared tree{memory, memory + n, memory + 2 * n, memory + 3 * n};
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kLawThreads) {
    tree.parent[i] = s.parent[i];
    tree.token[i] = s.token[sample * n + i];
  }
  __syncthreads();
  return tree;
}

// The tokens of `node`'s children and their nodes, ascending; returns how many.
__device__ int list_children(const TreeShared& tree, int num_nodes, int node) {
  int count = 0;
  for (int c = node + 1; c < num_nodes; ++c) {
    if (tree.parent[c] == node) {
      if (threadIdx.x == 0) {
        tree.children[count] = c;
        tree.children_tokens[count] = tree.token[c];
      }
      ++count;
    }
  }
  __syncthreads();
  return count;
}

// Loads a node's logits without the first `count` children's tokens.
template <class T>
struct RemainingLogits {
  const TreeSetting<T>* a;
  const T* row;
  float least;
  const std::int32_t* tokens;
  int count;

  __device__ void operator()(int first, float (&z)[kLaneElements]) const {
    load_round(row, first, a->cut.vocab, a->words, z);
    keep_from(least, z);
    for (int i = 0; i < count; ++i) {
      leave_out<T>(z, first, tokens[i]);
    }
  }
};

// Grid: node x sample. tau of the node's children, each given that its earlier siblings were
// rejected.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    tree_tau_kernel(const __grid_constant__ TreeSetting<T> a) {
  __shared__ BlockLawShared shared;
  extern __shared__ std::int32_t memory[];
  const TreeSampleParams<T>& s = a.s;
  const int n = static_cast<int>(s.num_nodes);
  const int node = static_cast<int>(blockIdx.x);
  const std::int64_t sample = blockIdx.y;
  const TreeShared tree = load_tree(s, sample, memory);
  if (node == 0 && threadIdx.x == 0) {
    s.tau[sample * n] = 1.0F;
  }
  const int count = list_children(tree, n, node);
  if (count == 0) {
    return;
  }
  RemainingLogits<T> logits{&a, s.target_logits + node * s.vocab, a.least(node),
                            tree.children_tokens, 0};
  const LawStat whole = block_law<T>(logits, a.cut, a.scale, shared);
  LawStat left = whole;
  for (int c = 0; c < count; ++c) {
    const int token = tree.children_tokens[c];
    bool repeated = false;
    for (int i = 0; i < c; ++i) {
      repeated = repeated || tree.children_tokens[i] == token;
    }
    if (c > 0 && !a.scale.one_hot) {
      logits.count = c;
      left = block_law<T>(logits, a.cut, a.scale, shared);
    }
    const float tau = repeated
                          ? 0.0F
                          : node_tau(token, keep_from(logits.least, load_f32(logits.row + token)),
                                     whole, left, a.scale);
    if (threadIdx.x == 0) {
      s.tau[sample * n + tree.children[c]] = tau;
    }
  }
}

// One block a sample: follows accepted children from the root, then draws from what is left of the
// last node's law.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    tree_walk_kernel(const __grid_constant__ TreeSetting<T> a) {
  __shared__ BlockLawShared shared;
  __shared__ float sums[kMaxLawChunks];
  extern __shared__ std::int32_t memory[];
  const TreeSampleParams<T>& s = a.s;
  const int n = static_cast<int>(s.num_nodes);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * n;
  const TreeShared tree = load_tree(s, blockIdx.x, memory);
  int node = 0;
  int accepted = 0;
  for (int c = 1; c < n; ++c) {  // children stand after their parent, siblings in order
    const float tau = s.tau[first + c];
    if (tree.parent[c] == node && tau > 0.0F && s.uniforms[first + c - 1] <= tau) {
      if (threadIdx.x == 0) {
        s.path[first + accepted] = c;
        s.tokens[first + accepted] = tree.token[c];
      }
      node = c;
      ++accepted;
    }
  }
  const int count = list_children(tree, n, node);
  RemainingLogits<T> logits{&a, s.target_logits + node * s.vocab, a.least(node),
                            tree.children_tokens, 0};
  if (count > 0 && !a.scale.one_hot) {
    const LawStat whole = block_law<T>(logits, a.cut, a.scale, shared);
    logits.count = count;
    const LawStat left = block_law<T>(logits, a.cut, a.scale, shared);
    if (!has_mass(left.largest, whole, a.scale)) {
      logits.count = 0;  // nothing left: the untouched row
    }
  }
  const int token =
      block_draw_by_mass<T>(logits, a.cut, a.scale, s.uniforms[first + n - 1], shared, sums);
  for (int i = accepted + static_cast<int>(threadIdx.x); i < n; i += kLawThreads) {
    s.path[first + i] = -1;
    s.tokens[first + i] = i == accepted ? token : -1;
  }
  if (threadIdx.x == 0) {
    s.accepted[blockIdx.x] = accepted;
  }
}

}  // namespace

template <class T>
void launch_tree_baseline(const TreeSampleParams<T>& p, const float* cuts,
                          const LaunchContext& context) {
  VERSIEVE_ASSERT(p.num_nodes <= kMaxNodes, "a tree lies in shared memory");
  const TreeSetting<T> a = tree_setting(p, cuts);
  const std::size_t shared_bytes = static_cast<std::size_t>(p.num_nodes) * 4 * sizeof(std::int32_t);
  check(cudaFuncSetAttribute(tree_tau_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  check(cudaFuncSetAttribute(tree_walk_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  {
    const LaunchRange range("tree_tau", traffic::tree_tests(p.num_nodes, p.vocab, sizeof(T)),
                            context.observer);
    const dim3 grid(static_cast<unsigned>(p.num_nodes), static_cast<unsigned>(p.samples));
    tree_tau_kernel<T><<<grid, kLawThreads, shared_bytes, context.stream>>>(a);
    check(cudaGetLastError());
  }
  const LaunchRange range("tree_walk", traffic::tree_tests(1, p.vocab, sizeof(T)),
                          context.observer);
  tree_walk_kernel<T>
      <<<static_cast<unsigned>(p.samples), kLawThreads, shared_bytes, context.stream>>>(a);
  check(cudaGetLastError());
}

template void launch_tree_baseline<float>(const TreeSampleParams<float>&, const float*,
                                          const LaunchContext&);
template void launch_tree_baseline<Bf16>(const TreeSampleParams<Bf16>&, const float*,
                                         const LaunchContext&);
template void launch_tree_baseline<F16>(const TreeSampleParams<F16>&, const float*,
                                        const LaunchContext&);

}  // namespace versieve::kernels
