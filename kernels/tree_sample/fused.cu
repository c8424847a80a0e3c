// tree_sample, variant `exact`: one pass over the rows of nodes that have children.
// tree_tests. Grid: clusters of 16 blocks share out the inner nodes (x) of each sample (y); a block
// takes a tile of the vocabulary, a warp a chunk of 512 logits in its registers. 1. Chunks give
// their statistics, and again after each child's token that lies in them is taken out; blocks send
// what that makes of their tiles, child by child, to the first block. 2. It combines the rows, one
// for each child, tests them and notes the child that passes first. 3. All sum what is left after
// the last child, and the warp whose chunk holds the draw notes the token, in case none passes.
// tree_walk. A cluster a sample follows the notes from the root; where the path ends at an inner
// node its draw is there, at a leaf the cluster draws from the leaf's row. Only that leaf is read.
// Bits are those of baseline.cu. Moves (inner nodes + 1) V logits once; bound by latencies.
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/block_law.cuh"
#include "kernels/spec_sample/cluster_law.cuh"
#include "kernels/tree_sample/launch.h"
#include "kernels/tree_sample/tree_law.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kMaxNodes = 128;
constexpr int kResidentBlocks = 240;  // what the chip holds at once of these clusters

// Notes of the tests, [R, N] each: the child that is accepted at a node, or -1; the token drawn
// there when none is, or -1 at a leaf.
struct TreeNotes {
  std::int32_t* next = nullptr;
  std::int32_t* drawn = nullptr;
};

struct TreeShared {
  std::int32_t parent[kMaxNodes];
  std::int32_t proposed[kMaxNodes];  // tokens of the nodes
  float uniform[kMaxNodes];          // [i - 1] tests node i, the last draws
  std::int32_t inner[kMaxNodes];     // nodes that have children, ascending
  int inner_count;
  // Of the node at hand.
  std::int32_t child[kMaxNodes];
  std::int32_t token[kMaxNodes];
  float logit[kMaxNodes];  // of the token; first block only
  float tau[kMaxNodes];
  int child_count;
  int known_count;          // of their tokens, those that a block holds
  LawStat step[kMaxNodes];  // of the child's chunk after its token left, where this block has it
  LawStat tile[kMaxNodes][kMaxTiles];  // first block: what is left of each tile before each child
  ClusterLawShared cluster;            // cluster.tile: [0] nothing left out, [1] all children
  BlockLawShared law;
  float sums[kMaxChunks];
};

// The nodes i for which `is(i)`, ascending, into `list`; by one warp, the count on all its lanes.
template <class Is>
__device__ int list_nodes(int num_nodes, std::int32_t* list, const Is& is) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int count = 0;
  for (int base = 0; base < num_nodes; base += 32) {
    const bool listed = base + lane < num_nodes && is(base + lane);
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, listed);
    if (listed) {
      list[count + __popc(mask & ((1U << lane) - 1U))] = base + lane;
    }
    count += __popc(mask);
  }
  return count;
}

template <class T>
__device__ void load_tree(const TreeSampleParams<T>& s, std::int64_t sample, TreeShared& shared) {
  const int num_nodes = static_cast<int>(s.num_nodes);
  for (int i = static_cast<int>(threadIdx.x); i < num_nodes; i += static_cast<int>(blockDim.x)) {
    shared.parent[i] = i == 0 ? -1 : s.parent[i];
    shared.proposed[i] = s.token[sample * num_nodes + i];
    shared.uniform[i] = s.uniforms[sample * num_nodes + i];
    shared.tau[i] = 0.0F;  // here: whether node i has children
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < num_nodes; i += static_cast<int>(blockDim.x)) {
    if (i > 0) {
      shared.tau[shared.parent[i]] = 1.0F;
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int count =
        list_nodes(num_nodes, shared.inner, [&](int i) { return shared.tau[i] > 0.0F; });
    if (threadIdx.x == 0) {
      shared.inner_count = count;
    }
  }
  __syncthreads();
}

// The node's children with their tokens.
__device__ inline void list_children(int num_nodes, int node, int vocab, TreeShared& shared) {
  if (threadIdx.x < 32) {
    const int count =
        list_nodes(num_nodes, shared.child, [&](int i) { return shared.parent[i] == node; });
    __syncwarp();
    int known = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) {
      const int token = shared.proposed[shared.child[i]];
      shared.token[i] = token;
      known += token >= 0 && token < vocab ? 1 : 0;
    }
    known = __reduce_add_sync(0xFFFFFFFFU, known);
    if (threadIdx.x == 0) {
      shared.child_count = count;
      shared.known_count = known;
    }
  }
  __syncthreads();
}

// Takes the children's tokens out of this warp's chunk one by one, sends their logits to the first
// block and notes what each leaves; returns the chunk's statistics after all.
template <class T>
__device__ LawStat leave_children_out(const TreeSetting<T>& a, Place place, int first, LawStat stat,
                                      float (&z)[kLaneElements], TreeShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < shared.child_count; ++i) {
    const int token = shared.token[i];
    if (token < first || token >= min(first + kRoundElements, a.cut.vocab)) {
      continue;
    }
    const int2 at = element_place<T>(token - first);
    float weights[kLaneElements];
    float logit = 0.0F;
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      const bool own = j == at.y && lane == at.x;
      logit = own ? z[j] : logit;
      z[j] = own ? -INFINITY : z[j];
      weights[j] = z[j];
    }
    if (lane == at.x) {
      push(place, &shared.logit[i], logit, 0, shared.cluster.law_pushed);
    }
    if (!a.scale.one_hot) {
      stat = weigh_round<T>(weights, first, a.scale);
    }
    if (lane == 0) {
      shared.step[i] = stat;
    }
  }
  return stat;
}

// Statistics of this block's tile before child i for all i, sent to the first block, and with none
// and with all children left out, sent to all blocks.
template <class T>
__device__ void exchange_tiles(const TreeSetting<T>& a, Place place, TreeShared& shared,
                               int parity) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int member = lane % 16;
  const int rank = place.rank;
  const int first_chunk = rank * a.cut.tile_chunks;
  const int count = shared.child_count;
  for (int pair = static_cast<int>(threadIdx.x) / 32; pair * 2 <= count; pair += warps) {
    const int left_out = min(pair * 2 + lane / 16, count);
    LawStat chunk = member < warps ? shared.cluster.chunk[0][member] : empty_stat();
    for (int i = 0; i < left_out; ++i) {
      const int owner = shared.token[i] / kRoundElements - first_chunk;
      if (owner == member && member < warps) {
        chunk = shared.step[i];
      }
    }
    const LawStat tile = combine16(chunk, a.scale);
    const bool own = pair * 2 + lane / 16 <= count;
    if (own && member == 0 && left_out < count) {
      push(place, &shared.tile[left_out][rank], tile, 0, shared.cluster.law_pushed);
    }
    if (own && member < place.blocks && (left_out == 0 || left_out == count)) {
      if (left_out == 0) {
        push(place, &shared.cluster.tile[0][rank], tile, member, shared.cluster.law_pushed);
      }
      if (left_out == count) {
        push(place, &shared.cluster.tile[1][rank], tile, member, shared.cluster.law_pushed);
      }
    }
  }
  constexpr int kStat = static_cast<int>(sizeof(LawStat));
  const int tests = place.blocks * count * kStat + shared.known_count * 4;
  await_pushes(place, shared.cluster.law_pushed, place.blocks * 2 * kStat + (rank == 0 ? tests : 0),
               parity);
}

// By the first block: tau of the node's children, and the first that is accepted.
template <class T>
__device__ void test_children(const TreeSetting<T>& a, Place place, std::int64_t sample, int node,
                              const LawStat& whole, TreeShared& shared, const TreeNotes& notes) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int member = lane % 16;
  const std::int64_t at = sample * a.s.num_nodes;
  for (int pair = static_cast<int>(threadIdx.x) / 32; pair * 2 < shared.child_count;
       pair += warps) {
    const int i = min(pair * 2 + lane / 16, shared.child_count - 1);
    const LawStat left =
        combine16(member < place.blocks ? shared.tile[i][member] : empty_stat(), a.scale);
    const int token = shared.token[i];
    bool repeated = false;
    for (int earlier = 0; earlier < i; ++earlier) {
      repeated = repeated || shared.token[earlier] == token;
    }
    if (member == 0 && pair * 2 + lane / 16 < shared.child_count) {
      const float tau = repeated ? 0.0F : node_tau(token, shared.logit[i], whole, left, a.scale);
      shared.tau[i] = tau;
      a.s.tau[at + shared.child[i]] = tau;
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    std::int32_t next = -1;
    for (int base = 0; next < 0 && base < shared.child_count; base += 32) {
      bool passes = false;
      if (base + lane < shared.child_count) {
        const float tau = shared.tau[base + lane];
        passes = tau > 0.0F && shared.uniform[shared.child[base + lane] - 1] <= tau;
      }
      const unsigned mask = __ballot_sync(0xFFFFFFFFU, passes);
      next = mask != 0 ? shared.child[base + __ffs(static_cast<int>(mask)) - 1] : -1;
    }
    if (lane == 0) {
      notes.next[at + node] = next;
    }
  }
}

// Draws from this warp's chunk if it is hit. `weights` are turned into probabilities.
template <class T>
__device__ void draw_in_cluster(const TreeSetting<T>& a, Place place, int chunk, float factor,
                                float u, float (&weights)[kLaneElements], ClusterLawShared& shared,
                                std::int32_t* drawn, int parity) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    weights[j] = __fmul_rn(weights[j], factor);
    sum += weights[j];
  }
  sum = warp_sum(sum);
  if (lane == 0) {
    shared.sum[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  const DrawRange<float> tile = exchange_sums(place, shared, parity);
  const float aim = u * tile.total;
  if (!tile.hit(aim)) {
    return;
  }
  const DrawRange<float> range = chunk_range(tile, shared);
  if (range.hit(aim)) {
    const int token = register_draw<T>(weights, chunk, a.cut, range.before, aim);
    if (lane == 0) {
      *drawn = token;
    }
  }
}

// A node that has children. Its logits are read once; the next node's are called for.
template <class T>
__device__ void visit_node(const TreeSetting<T>& a, Place place, std::int64_t sample, int node,
                           int next_node, int parity, TreeShared& shared, const TreeNotes& notes) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int member = lane % 16;
  const int chunk = place.rank * a.cut.tile_chunks + warp;
  const int first = chunk * kRoundElements;
  const T* const row = a.s.target_logits + node * a.s.vocab;
  const float u = shared.uniform[a.s.num_nodes - 1];
  float z[kLaneElements], weights[kLaneElements];
  load_round(row, first, a.cut.vocab, a.words, z);
  call_for_round(a.s.target_logits + next_node * a.s.vocab, first, a.cut.vocab);
  list_children(static_cast<int>(a.s.num_nodes), node, a.cut.vocab, shared);
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    weights[j] = z[j];
  }
  const LawStat untouched = weigh_round<T>(weights, first, a.scale);
  if (lane == 0) {
    shared.cluster.chunk[0][warp] = untouched;
  }
  const LawStat own = leave_children_out(a, place, first, untouched, z, shared);
  __syncthreads();
  exchange_tiles(a, place, shared, parity);
  const RowPair law = row_pair(
      member < place.blocks ? shared.cluster.tile[lane / 16][member] : empty_stat(), a.scale);
  const LawStat whole = law.target;
  const LawStat left = law.draft;
  if (place.rank == 0) {
    test_children(a, place, sample, node, whole, shared, notes);
  }
  std::int32_t* const drawn = notes.drawn + sample * a.s.num_nodes + node;
  if (a.scale.one_hot) {
    if (place.rank == 0 && threadIdx.x == 0) {
      *drawn = whole.argmax();
    }
    cluster_sync();  // tiles change hands
    return;
  }
  const bool empty = !has_mass(left.largest, whole, a.scale);
  weigh(z, own.largest, a.scale.per_logit);
  draw_in_cluster(a, place, chunk, empty ? 0.0F : chunk_factor(own, left, a.scale), u, z,
                  shared.cluster, drawn, parity);
  if (empty && place.rank == 0) {
    const auto load = [&](int begin, float(&w)[kLaneElements]) {
      load_round(row, begin, a.cut.vocab, a.words, w);
    };
    const int token = block_draw_softmax<T>(load, a.cut, a.scale, u, shared.law, shared.sums);
    if (threadIdx.x == 0) {
      *drawn = token;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kClusterLawThreads, 2)
    tree_tests_kernel(const __grid_constant__ TreeSetting<T> a,
                      const __grid_constant__ TreeNotes notes) {
  __shared__ TreeShared shared;
  release_successors();
  init_pushes(shared.cluster);
  cluster_arrive_relaxed();
  const Place place = cluster_place();
  wait_for_predecessors();
  const int n = static_cast<int>(a.s.num_nodes);
  const std::int64_t sample = blockIdx.y;
  const int cluster = static_cast<int>(blockIdx.x) / place.blocks;
  const int clusters = static_cast<int>(gridDim.x) / place.blocks;
  load_tree(a.s, sample, shared);
  if (cluster == 0 && place.rank == 0) {  // notes of the leaves
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
      if (shared.tau[i] == 0.0F) {
        notes.next[sample * n + i] = -1;
        notes.drawn[sample * n + i] = -1;
      }
    }
    if (threadIdx.x == 0) {
      a.s.tau[sample * n] = 1.0F;
    }
    __syncthreads();  // tau changes its meaning
  }
  cluster_wait();  // all blocks run
  int parity = 0;
  for (int i = cluster; i < shared.inner_count; i += clusters, parity ^= 1) {
    const int next = i + clusters < shared.inner_count ? i + clusters : i;
    visit_node(a, place, sample, shared.inner[i], shared.inner[next], parity, shared, notes);
    __syncthreads();  // lists change hands
  }
}

// Follows the notes from the root; returns the node where the path ends. Reports the path.
template <class T>
__device__ int walk(const TreeSetting<T>& a, Place place, std::int64_t first,
                    const TreeNotes& notes, std::int32_t* next /* [N], shared */, int* accepted) {
  const int n = static_cast<int>(a.s.num_nodes);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    next[i] = notes.next[first + i];
  }
  __syncthreads();
  int node = 0;
  int count = 0;
  for (int child = next[0]; child >= 0; child = next[child]) {
    if (place.rank == 0 && static_cast<int>(threadIdx.x) == count % static_cast<int>(blockDim.x)) {
      a.s.path[first + count] = child;
      a.s.tokens[first + count] = a.s.token[first + child];
    }
    node = child;
    ++count;
  }
  *accepted = count;
  return node;
}

template <class T>
__global__ void __launch_bounds__(kClusterLawThreads, 2)
    tree_walk_kernel(const __grid_constant__ TreeSetting<T> a,
                     const __grid_constant__ TreeNotes notes) {
  __shared__ ClusterLawShared shared;
  __shared__ std::int32_t next[kMaxNodes];
  release_successors();
  init_pushes(shared);
  cluster_arrive_relaxed();
  const Place place = cluster_place();
  wait_for_predecessors();
  const int n = static_cast<int>(a.s.num_nodes);
  const std::int64_t first_cell = std::int64_t{blockIdx.y} * n;
  int accepted = 0;
  const int node = walk(a, place, first_cell, notes, next, &accepted);
  const std::int32_t noted = notes.drawn[first_cell + node];
  if (place.rank == 0) {
    for (int i = accepted + static_cast<int>(threadIdx.x); i < n;
         i += static_cast<int>(blockDim.x)) {
      a.s.path[first_cell + i] = -1;
      if (i > accepted) {
        a.s.tokens[first_cell + i] = -1;
      }
    }
    if (threadIdx.x == 0) {
      a.s.accepted[blockIdx.y] = accepted;
      if (noted >= 0) {
        a.s.tokens[first_cell + accepted] = noted;
      }
    }
  }
  if (noted >= 0) {
    cluster_wait();
    return;
  }
  const int chunk = place.rank * a.cut.tile_chunks + static_cast<int>(threadIdx.x) / 32;
  const int first = chunk * kRoundElements;
  float weights[kLaneElements];
  load_round(a.s.target_logits + node * a.s.vocab, first, a.cut.vocab, a.words, weights);
  const float u = a.s.uniforms[first_cell + n - 1];
  const LawStat own = weigh_round<T>(weights, first, a.scale);
  cluster_wait();  // all blocks run
  const LawStat whole = exchange_law(place, own, empty_stat(), a.scale, shared).target;
  draw_in_cluster(a, place, chunk, chunk_factor(own, whole, a.scale), u, weights, shared,
                  a.s.tokens + first_cell + accepted, 0);
}

}  // namespace

template <class T>
bool tree_fused_takes(const TreeSampleParams<T>& p) {
  return cut_law(p.vocab).rounds == 1 && p.num_nodes <= kMaxNodes;
}

template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const LaunchContext& context) {
  const TreeSetting<T> a = tree_setting(p);
  TreeNotes notes;
  notes.next = static_cast<std::int32_t*>(context.scratch);
  notes.drawn = notes.next + p.samples * p.num_nodes;
  const unsigned blocks = cluster_blocks(a.cut);
  const unsigned threads = static_cast<unsigned>(a.cut.tile_chunks) * 32;
  const unsigned clusters =
      std::min(static_cast<unsigned>(p.num_nodes), std::max(1U, kResidentBlocks / blocks));
  for (const auto kernel : {tree_tests_kernel<T>, tree_walk_kernel<T>}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  {
    const LaunchRange range("tree_tests", traffic::tree_tests(p.num_nodes, p.vocab, sizeof(T)),
                            context.observer);
    launch_dependent({.grid = dim3(blocks * clusters, static_cast<unsigned>(p.samples)),
                      .threads = threads,
                      .cluster = blocks,
                      .stream = context.stream},
                     tree_tests_kernel<T>, a, notes);
  }
  const LaunchRange range("tree_walk", traffic::tree_tests(1, p.vocab, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(blocks, static_cast<unsigned>(p.samples)),
                    .threads = threads,
                    .cluster = blocks,
                    .stream = context.stream},
                   tree_walk_kernel<T>, a, notes);
}

template bool tree_fused_takes<float>(const TreeSampleParams<float>&);
template bool tree_fused_takes<Bf16>(const TreeSampleParams<Bf16>&);
template void launch_tree_fused<float>(const TreeSampleParams<float>&, const LaunchContext&);
template void launch_tree_fused<Bf16>(const TreeSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
