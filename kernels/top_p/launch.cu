#include "kernels/launch.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/call_list.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/top_p/together.h"
#include "model/launches/specattn.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kRowThreads = 256;  // of 64 registers: four blocks an SM, so 21 rows run at once
constexpr int kUnionThreads = 256;
constexpr int kMaxRowBlocks = 16;             // of the cluster that has a row
constexpr std::int64_t kBlockWeights = 4096;  // at least, if there are more blocks than one
constexpr std::int64_t kMaxSharedWeights = 48 * 1024;  // of a block; 192 KiB of the SM's 227
constexpr std::size_t kSmBytes = 227 * 1024;  // shared memory of an SM that blocks can ask for

// What each of `blocks` on an SM asks for so that no further one fits beside them: with it the
// kernel's own arrays.
constexpr std::size_t crowding_bytes(std::int64_t blocks) {
  return kSmBytes / static_cast<std::size_t>(blocks + 1);
}

// Blocks that share a row, a function of its length alone, so that the order of sums is, too.
__host__ __device__ inline int row_blocks(std::int64_t length) {
  int blocks = 1;
  while (blocks < kMaxRowBlocks && blocks * kBlockWeights < length) {
    blocks *= 2;
  }
  return blocks;
}
__host__ __device__ inline std::int64_t block_weights(std::int64_t length) {
  const std::int64_t blocks = row_blocks(length);
  return (length + blocks - 1) / blocks;
}
// The most weights of a block of a row up to that long.
std::int64_t most_block_weights(std::int64_t bound) {
  return std::max(block_weights(bound), std::min(bound, kBlockWeights));
}

__device__ inline std::int64_t length_of(const TopPParams<float>& p) {
  return p.counts == nullptr ? p.length : p.counts->context_len;
}

// Halvings that one exchange answers: masses at the middles of all ways that they can go.
constexpr int kJoined = 3;
constexpr int kMiddles = (1 << kJoined) - 1;
static_assert(kJoined == 3, "Halving::walk spells the three out");

// What a block knows of its part of a row.
struct alignas(16) RowPart {
  double mass[kMiddles];
  float largest;
  float unused;
};
constexpr int kPartWords = static_cast<int>(sizeof(RowPart) / sizeof(uint4));

// Exchanges take turns between two sets of parts: who pushes the next but one has seen all parts of
// the next, whose senders had read this one.
struct RowShared {
  RowPart part[2][kMaxRowBlocks];  // of all blocks, pushed by each
  RowPart own;
  std::uint64_t pushed[2];
  double sums[kRowThreads / 32][kMiddles];
  std::uint64_t maxima[kRowThreads / 32];
};

// A row's weights, shared out over a cluster.
class RowWeights {
 public:
  // By all threads. REQUIRES: the barriers of `shared` are ready and all blocks run.
  __device__ RowWeights(const float* weights, int count, Place place, RowShared& shared)
      : weights_(weights), count_(count), place_(place), shared_(shared) {}

  // The row's mass at each of `least` and above, and its largest weight.
  __device__ RowPart parts_from(const float (&least)[kMiddles]) {
    double mass[kMiddles] = {};
    float largest = 0.0F;
    for (int i = static_cast<int>(threadIdx.x); i < count_; i += kRowThreads) {
      const float w = weights_[i];
      const double wide = static_cast<double>(w);
#pragma unroll
      for (int m = 0; m < kMiddles; ++m) {
        mass[m] += w >= least[m] ? wide : 0.0;
      }
      largest = fmaxf(largest, w);
    }
#pragma unroll
    for (int m = 0; m < kMiddles; ++m) {
      mass[m] = warp_sum(mass[m]);
      if (threadIdx.x % 32 == 0) {
        shared_.sums[threadIdx.x / 32][m] = mass[m];
      }
    }
    if (round_ == 0) {  // bits of floats that are not negative order as the floats do
      largest = __uint_as_float(static_cast<unsigned>(
          block_max<kRowThreads>(std::uint64_t{__float_as_uint(largest)}, shared_.maxima)));
    }
    __syncthreads();
    if (threadIdx.x < kMiddles) {
      double sum = shared_.sums[0][threadIdx.x];
      for (int warp = 1; warp < kRowThreads / 32; ++warp) {
        sum += shared_.sums[warp][threadIdx.x];
      }
      shared_.own.mass[threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
      shared_.own.largest = largest;
    }
    __syncthreads();
    return exchange();
  }

 private:
  // Blocks are added in ascending order.
  __device__ RowPart exchange() {
    const int set = round_ % 2;
    RowPart* const parts = shared_.part[set];
    if (place_.blocks == 1) {
      ++round_;
      return shared_.own;
    }
    const std::uint32_t barrier = shared_address(&shared_.pushed[set]);
    if (static_cast<int>(threadIdx.x) < place_.blocks * kPartWords) {
      const int rank = static_cast<int>(threadIdx.x) / kPartWords;
      const int word = static_cast<int>(threadIdx.x) % kPartWords;
      push_word(address_in_block(shared_address(parts + place_.rank), rank) +
                    static_cast<std::uint32_t>(word) * sizeof(uint4),
                reinterpret_cast<const uint4*>(&shared_.own)[word],
                address_in_block(barrier, rank));
    }
    if (threadIdx.x == 0) {
      barrier_expect(barrier, place_.blocks * static_cast<int>(sizeof(RowPart)));
    }
    barrier_wait(barrier, round_ / 2 % 2);
    ++round_;
    RowPart row{};
    for (int rank = 0; rank < place_.blocks; ++rank) {
#pragma unroll
      for (int m = 0; m < kMiddles; ++m) {
        row.mass[m] += parts[rank].mass[m];
      }
      row.largest = fmaxf(row.largest, parts[rank].largest);
    }
    return row;
  }

  const float* weights_;  // this block's
  int count_;
  Place place_;
  RowShared& shared_;
  int round_ = 0;
};

// The bisection of a row's threshold: the side kept is never below the wanted mass.
struct Halving {
  float low, high;
  double kept, wanted;
  std::int64_t left;  // halvings
  bool over = false;  // none changes anything any more

  static __device__ float middle(float a, float b) { return a / 2 + b / 2; }
  __device__ void middles(float (&at)[kMiddles]) const {
    at[0] = middle(low, high);
    at[1] = middle(low, at[0]);
    at[2] = middle(at[0], high);
    at[3] = middle(low, at[1]);
    at[4] = middle(at[1], at[0]);
    at[5] = middle(at[0], at[2]);
    at[6] = middle(at[2], high);
  }
  // One halving at `mid`, above which lies `mass`; whether it raised the threshold.
  __device__ bool take(float mid, double mass) {
    over = over || left == 0 || mid == low;
    const bool enough = !(mass < wanted);
    if (!over) {
      --left;
      kept = enough ? mass : kept;
      (enough ? low : high) = mid;
    }
    return enough;
  }
  __device__ void walk(const float (&at)[kMiddles], const double (&mass)[kMiddles]) {
    const bool first = take(at[0], mass[0]);
    const bool second = take(first ? at[2] : at[1], first ? mass[2] : mass[1]);
    take(first ? (second ? at[6] : at[5]) : (second ? at[4] : at[3]),
         first ? (second ? mass[6] : mass[5]) : (second ? mass[4] : mass[3]));
  }
};

// A call, all of whose strides are set, and where its rows' thresholds lie between the launches.
struct TopPCall {
  TopPParams<float> p;
  float* least;  // [lists, rows]

  __host__ __device__ std::int64_t all_rows() const { return p.lists * p.rows; }
};

// Grid: (a cluster a row, a part of the row a block; call); blocks beyond those that the row's own
// length asks for add nothing. Traffic: traffic::top_p. Bound by the latency of dependent sums over
// the cluster, one for kJoined halvings.
template <int kCalls>
__global__ void __launch_bounds__(kRowThreads)
    top_p_threshold_kernel(const __grid_constant__ CallList<TopPCall, kCalls> calls, bool staged) {
  extern __shared__ float held[];
  __shared__ RowShared shared;
  const TopPCall& call = calls.at(blockIdx.y);
  const TopPParams<float>& p = call.p;
  release_successors();
  if (threadIdx.x < 2) {
    barrier_init(shared_address(&shared.pushed[threadIdx.x]), 1);
    publish_barriers();
  }
  const Place place = cluster_place();
  const std::int64_t row = static_cast<int>(blockIdx.x) / place.blocks;
  if (kCalls > 1 && row >= call.all_rows()) {  // all of the cluster
    return;
  }
  wait_for_predecessors();
  const std::int64_t length = length_of(p);
  const std::int64_t part = block_weights(length);
  const std::int64_t first = place.rank * part;
  const int count = static_cast<int>(max(std::int64_t{0}, min(part, length - first)));
  const float* weights =
      p.weights + row / p.rows * p.list_stride + row % p.rows * p.row_stride + first;
  if (staged) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
      held[i] = weights[i];  // each thread reads back only what it wrote
    }
    weights = held;
  }
  __syncthreads();
  cluster_sync();
  RowWeights sums(weights, count, place, shared);
  float at[kMiddles] = {};
  const RowPart all = sums.parts_from(at);
  Halving halving{.low = 0.0F,
                  .high = all.largest,
                  .kept = all.mass[0],
                  .wanted = p.p * all.mass[0],
                  .left = p.iterations};
  while (!halving.over && halving.left > 0) {
    halving.middles(at);
    const RowPart part_masses = sums.parts_from(at);
    halving.walk(at, part_masses.mass);
  }
  if (threadIdx.x == 0 && place.rank == 0) {
    call.least[row] = halving.low;
    p.mass[row] = static_cast<float>(halving.kept);
  }
}

// Grid: tokens, lists, calls.
template <int kCalls>
__global__ void __launch_bounds__(kUnionThreads)
    top_p_union_kernel(const __grid_constant__ CallList<TopPCall, kCalls> calls) {
  const TopPCall& call = calls.at(blockIdx.z);
  const TopPParams<float>& p = call.p;
  release_successors();
  if (kCalls > 1 && blockIdx.y >= p.lists) {
    return;
  }
  wait_for_predecessors();
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kUnionThreads + threadIdx.x;
  if (token >= length_of(p)) {
    return;
  }
  const float* weights = p.weights + blockIdx.y * p.list_stride + token;
  int kept = 0;
#pragma unroll 4
  for (std::int64_t r = 0; r < p.rows; ++r) {
    kept |= weights[r * p.row_stride] >= call.least[blockIdx.y * p.rows + r] ? 1 : 0;
  }
  p.mask[blockIdx.y * p.mask_stride + token] = kept;
}

// Whole clusters that run at once where each of their blocks has an SM of its own; asked for once.
int lone_clusters() {
  static const int clusters = [] {
    cudaLaunchAttribute size{};
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim.x = kMaxRowBlocks;
    size.val.clusterDim.y = 1;
    size.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(kMaxRowBlocks);
    config.blockDim = dim3(kRowThreads);
    config.dynamicSmemBytes = crowding_bytes(1);
    config.attrs = &size;
    config.numAttrs = 1;
    int count = 0;
    check(cudaFuncSetAttribute(top_p_threshold_kernel<1>,
                               cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    check(cudaFuncSetAttribute(top_p_threshold_kernel<1>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(crowding_bytes(1))));
    check(cudaOccupancyMaxActiveClusters(&count, top_p_threshold_kernel<1>, &config));
    return std::max(count, 1);
  }();
  return clusters;
}

// Shared memory that keeps blocks of long rows apart: the hardware packs clusters of 16 onto as few
// SMs as hold them, where three blocks wait for one SM's additions. Blocks an SM: as few as let all
// rows run at once. Memory alone is asked for, so a row's sums stay in their order.
std::size_t spread_bytes(std::int64_t rows) {
  const std::int64_t blocks_an_sm = (rows + lone_clusters() - 1) / lone_clusters();
  return crowding_bytes(std::max(blocks_an_sm, std::int64_t{1}));
}

template <int kCalls>
void launch_thresholds(const CallList<TopPCall, kCalls>& list, std::span<const TopPCall> calls,
                       cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(row_blocks(calls.front().p.length));
  const std::int64_t part =
      most_of(calls, [](const TopPCall& call) { return most_block_weights(call.p.length); });
  const std::int64_t rows = most_of(calls, [](const TopPCall& call) { return call.all_rows(); });
  const bool staged = part <= kMaxSharedWeights;
  check(cudaFuncSetAttribute(top_p_threshold_kernel<kCalls>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  std::size_t bytes = staged ? static_cast<std::size_t>(part) * sizeof(float) : 0;
  if (part > kBlockWeights) {  // shorter parts have little to add, and leave room to others
    std::int64_t all = 0;
    for (const TopPCall& call : calls) {
      all += call.all_rows();
    }
    bytes = std::max(bytes, spread_bytes(all));
  }
  launch_dependent({.grid = dim3(blocks * static_cast<unsigned>(rows),
                                 static_cast<unsigned>(calls.size())),
                    .threads = kRowThreads,
                    .cluster = blocks,
                    .shared_bytes = bytes,
                    .stream = stream},
                   top_p_threshold_kernel<kCalls>, list, staged);
}

template <int kCalls>
void launch_unions(const CallList<TopPCall, kCalls>& list, std::span<const TopPCall> calls,
                   cudaStream_t stream) {
  const std::int64_t length = most_of(calls, [](const TopPCall& call) { return call.p.length; });
  const std::int64_t lists = most_of(calls, [](const TopPCall& call) { return call.p.lists; });
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>((length + kUnionThreads - 1) / kUnionThreads),
                    static_cast<unsigned>(lists), static_cast<unsigned>(calls.size())),
       .threads = kUnionThreads,
       .stream = stream},
      top_p_union_kernel<kCalls>, list);
}

// Strides are set, thresholds have their places in scratch.
std::vector<TopPCall> calls_of(std::span<const TopPParams<float>> params,
                               const LaunchContext& context) {
  float* least = static_cast<float*>(context.scratch);
  std::vector<TopPCall> calls;
  for (const TopPParams<float>& p : params) {
    VERSIEVE_ASSERT(p.p > 0.0 && p.p <= 1.0 && p.iterations >= 0, "a share and a count");
    VERSIEVE_ASSERT(p.length < INT32_MAX, "places are 32-bit");
    calls.push_back({p, least});
    TopPParams<float>& own = calls.back().p;
    own.row_stride = p.stride();
    own.list_stride = p.between_lists();
    own.mask_stride = p.between_masks();
    least += calls.back().all_rows();
  }
  return calls;
}

// Thresholds of calls whose rows take as many blocks, and then all unions. What has no rows or no
// tokens is left out.
void enqueue(std::vector<TopPCall> calls, const LaunchContext& context) {
  Traffic traffic;
  for (const TopPCall& call : calls) {
    traffic += traffic::top_p(call.all_rows(), call.p.length);
  }
  const LaunchRange range("top_p", traffic, context.observer);
  for (int blocks = 1; blocks <= kMaxRowBlocks; blocks *= 2) {
    std::vector<TopPCall> alike;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(alike), [&](const TopPCall& call) {
      return call.all_rows() > 0 && row_blocks(call.p.length) == blocks;
    });
    launch_lists(std::span<const TopPCall>(alike),
                 [&](const auto& list, std::span<const TopPCall> some) {
                   launch_thresholds(list, some, context.stream);
                 });
  }
  std::erase_if(calls,
                [](const TopPCall& call) { return call.p.length == 0 || call.p.lists == 0; });
  launch_lists(std::span<const TopPCall>(calls),
               [&](const auto& list, std::span<const TopPCall> some) {
                 launch_unions(list, some, context.stream);
               });
}

}  // namespace

std::size_t top_p_scratch_bytes(const TopPParams<float>& p) {
  return top_p_together_scratch_bytes({&p, 1});
}

std::size_t top_p_together_scratch_bytes(std::span<const TopPParams<float>> calls) {
  std::size_t bytes = 0;
  for (const TopPParams<float>& p : calls) {
    bytes += static_cast<std::size_t>(p.lists * p.rows) * sizeof(float);
  }
  return bytes;
}

void launch_top_p(const TopPParams<float>& p, const LaunchContext& context) {
  launch_top_p_together({&p, 1}, context);
}

void launch_top_p_together(std::span<const TopPParams<float>> calls, const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= top_p_together_scratch_bytes(calls),
                  "scratch is reserved before");
  enqueue(calls_of(calls, context), context);
}

}  // namespace versieve::kernels
