// tree_sample, variant `baseline`: one launch for tau of every node, one for the walk and the draw.
// Each test sums the remaining mass anew over the parent's row, measured from the largest remaining
// logit, so that a tail far below the rejected tokens keeps its precision. Bound by
// (2 + children) passes over each parent's row, from the second-level cache after the first.
#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/row_law.cuh"
#include "kernels/tree_sample/launch.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMaxNodes = 4096;  // parents and tokens of a tree lie in shared memory

// What the launches share: the temperature as f32, and whether the laws are one-hot.
struct Temperature {
  float value = 1.0F;
  bool one_hot = false;
};

// A parent's row without the tokens that were rejected.
template <class T>
struct RemainingLaw {
  const T* logits = nullptr;  // [V]
  int vocab = 0;
  Temperature temperature;
  int argmax = 0;                         // of the whole row
  float whole_largest = 0.0F;             // its logit
  const std::int32_t* removed = nullptr;  // [removed_count], shared memory
  int removed_count = 0;
  float largest = 0.0F;  // of what remains
  bool empty = false;

  // exp underflows there in the reference: no mass.
  __device__ bool has_mass(int x) const {
    if (temperature.one_hot) {
      return x == argmax;
    }
    const float exponent = (load_f32(logits + x) - whole_largest) / temperature.value;
    return exponent > kLeastExponent;
  }
  __device__ bool remains(int x) const {
    if (!has_mass(x)) {
      return false;
    }
    for (int i = 0; i < removed_count; ++i) {
      if (removed[i] == x) {
        return false;
      }
    }
    return true;
  }
  __device__ float weight(int x) const {
    return remains(x) ? expf((load_f32(logits + x) - largest) / temperature.value) : 0.0F;
  }
};

template <class T>
__device__ RemainingLaw<T> whole_law(const T* logits, int vocab, Temperature temperature,
                                     const std::int32_t* removed, LawShared& shared) {
  RemainingLaw<T> law{logits, vocab, temperature};
  law.argmax = index_of(row_max(logits, vocab, shared, [](int) { return true; }));
  law.whole_largest = load_f32(logits + law.argmax);
  law.largest = law.whole_largest;
  law.removed = removed;
  return law;
}

// Removes the first `count` listed tokens.
template <class T>
__device__ void remove(RemainingLaw<T>& law, int count, LawShared& shared) {
  law.removed_count = count;
  const std::uint64_t best =
      row_max(law.logits, law.vocab, shared, [&](int x) { return law.remains(x); });
  law.empty = best == 0;
  law.largest = law.empty ? law.whole_largest : load_f32(law.logits + index_of(best));
}

// The tokens of `node`'s children into `children_tokens`, their nodes into `children`, ascending;
// returns how many. The tree lies in shared memory.
__device__ int list_children(const std::int32_t* parent, const std::int32_t* token, int num_nodes,
                             int node, std::int32_t* children, std::int32_t* children_tokens) {
  int count = 0;
  for (int c = node + 1; c < num_nodes; ++c) {
    if (parent[c] == node) {
      if (threadIdx.x == 0) {
        children[count] = c;
        children_tokens[count] = token[c];
      }
      ++count;
    }
  }
  __syncthreads();
  return count;
}

// A sample's tree in shared memory: parent, token, children, children's tokens, N each.
struct TreeShared {
  std::int32_t* parent;
  std::int32_t* token;
  std::int32_t* children;
  std::int32_t* children_tokens;
};

template <class T>
__device__ TreeShared load_tree(const TreeSampleParams<T>& p, std::int64_t sample,
                                std::int32_t* memory) {
  const int n = static_cast<int>(p.num_nodes);
  const TreeShared tree{memory, memory + n, memory + 2 * n, memory + 3 * n};
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kLawThreads) {
    tree.parent[i] = p.parent[i];
    tree.token[i] = p.token[sample * n + i];
  }
  __syncthreads();
  return tree;
}

// Grid: node x sample. tau of the node's children, each given that its earlier siblings were
// rejected.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    tree_tau_kernel(const __grid_constant__ TreeSampleParams<T> p, Temperature temperature) {
  __shared__ LawShared shared;
  extern __shared__ std::int32_t memory[];
  const int n = static_cast<int>(p.num_nodes);
  const int node = static_cast<int>(blockIdx.x);
  const std::int64_t sample = blockIdx.y;
  const TreeShared tree = load_tree(p, sample, memory);
  if (node == 0 && threadIdx.x == 0) {
    p.tau[sample * n] = 1.0F;
  }
  const int count =
      list_children(tree.parent, tree.token, n, node, tree.children, tree.children_tokens);
  if (count == 0) {
    return;
  }
  RemainingLaw<T> law = whole_law(p.target_logits + node * p.vocab, static_cast<int>(p.vocab),
                                  temperature, tree.children_tokens, shared);
  for (int c = 0; c < count; ++c) {
    if (c > 0) {
      remove(law, c, shared);
    }
    const int token = tree.children_tokens[c];
    float tau = 0.0F;
    if (!law.empty) {
      const float sum = row_sum(law.vocab, shared, [&](int x) { return law.weight(x); });
      tau = fminf(1.0F, law.weight(token) / sum);
    }
    if (threadIdx.x == 0) {
      p.tau[sample * n + tree.children[c]] = tau;
    }
  }
}

// One block a sample: follows accepted children from the root, then draws from what is left of the
// last node's law.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    tree_walk_kernel(const __grid_constant__ TreeSampleParams<T> p, Temperature temperature) {
  __shared__ LawShared shared;
  extern __shared__ std::int32_t memory[];
  const int n = static_cast<int>(p.num_nodes);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * n;
  const TreeShared tree = load_tree(p, blockIdx.x, memory);
  int node = 0;
  int accepted = 0;
  for (int c = 1; c < n; ++c) {  // children stand after their parent, siblings in order
    const float tau = p.tau[first + c];
    if (tree.parent[c] == node && tau > 0.0F && p.uniforms[first + c - 1] <= tau) {
      if (threadIdx.x == 0) {
        p.path[first + accepted] = c;
        p.tokens[first + accepted] = tree.token[c];
      }
      node = c;
      ++accepted;
    }
  }
  const int count =
      list_children(tree.parent, tree.token, n, node, tree.children, tree.children_tokens);
  RemainingLaw<T> law = whole_law(p.target_logits + node * p.vocab, static_cast<int>(p.vocab),
                                  temperature, tree.children_tokens, shared);
  if (count > 0) {
    remove(law, count, shared);
    law.removed_count = law.empty ? 0 : count;  // nothing left: the untouched row
  }
  const int token =
      row_draw(law.vocab, p.uniforms[first + n - 1], shared, [&](int x) { return law.weight(x); });
  for (int i = accepted + static_cast<int>(threadIdx.x); i < n; i += kLawThreads) {
    p.path[first + i] = -1;
    p.tokens[first + i] = i == accepted ? token : -1;
  }
  if (threadIdx.x == 0) {
    p.accepted[blockIdx.x] = accepted;
  }
}

}  // namespace

template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.num_nodes >= 1 && p.vocab >= 1, "a tree has a root");
  VERSIEVE_ASSERT(p.num_nodes <= kMaxNodes && p.vocab < (1 << 30), "device indices are 32-bit");
  const Temperature temperature{law_temperature(p.temperature), p.temperature == 0.0};
  const std::size_t shared_bytes = static_cast<std::size_t>(p.num_nodes) * 4 * sizeof(std::int32_t);
  check(cudaFuncSetAttribute(tree_tau_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  check(cudaFuncSetAttribute(tree_walk_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  constexpr std::int64_t kSlice = 32768;  // samples a launch: the grid's second dimension
  for (std::int64_t sample = 0; sample < p.samples; sample += kSlice) {
    TreeSampleParams<T> slice = p;
    slice.samples = std::min(kSlice, p.samples - sample);
    slice.token += sample * p.num_nodes;
    slice.uniforms += sample * p.num_nodes;
    slice.accepted += sample;
    slice.tokens += sample * p.num_nodes;
    slice.path += sample * p.num_nodes;
    slice.tau += sample * p.num_nodes;
    {
      const LaunchRange range("tree_tau", traffic::sample_rows_read(p.num_nodes, p.vocab),
                              context.observer);
      const dim3 grid(static_cast<unsigned>(p.num_nodes), static_cast<unsigned>(slice.samples));
      tree_tau_kernel<T><<<grid, kLawThreads, shared_bytes, context.stream>>>(slice, temperature);
      check(cudaGetLastError());
    }
    const LaunchRange range("tree_walk", traffic::sample_rows_read(slice.samples, p.vocab),
                            context.observer);
    tree_walk_kernel<T>
        <<<static_cast<unsigned>(slice.samples), kLawThreads, shared_bytes, context.stream>>>(
            slice, temperature);
    check(cudaGetLastError());
  }
}

template void launch_tree_sample<float>(const TreeSampleParams<float>&, const LaunchContext&);
template void launch_tree_sample<Bf16>(const TreeSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
