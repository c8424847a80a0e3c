#include "kernels/launch.h"

#include <algorithm>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "model/launches/specattn.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kRowThreads = 512;
constexpr int kUnionThreads = 256;
constexpr int kMaxRowBlocks = 16;             // of the cluster that has a row
constexpr std::int64_t kBlockWeights = 4096;  // at least, if there are more blocks than one
constexpr std::int64_t kMaxSharedWeights = 48 * 1024;  // of a block; 192 KiB of the SM's 227

// Blocks that share a row, a function of its length alone, so that the order of sums is, too.
unsigned row_blocks(std::int64_t length) {
  unsigned blocks = 1;
  while (blocks < kMaxRowBlocks && blocks * kBlockWeights < length) {
    blocks *= 2;
  }
  return blocks;
}
std::int64_t block_weights(std::int64_t length) {
  const std::int64_t blocks = row_blocks(length);
  return (length + blocks - 1) / blocks;
}

// What a block knows of its part of a row.
struct alignas(16) RowPart {
  double mass = 0.0;
  float largest = 0.0F;
  float unused = 0.0F;
};

// Exchanges take turns between two sets of parts: who pushes the next but one has seen all parts of
// the next, whose senders had read this one.
struct RowShared {
  RowPart part[2][kMaxRowBlocks];  // of all blocks, pushed by each
  std::uint64_t pushed[2];
  double sums[kRowThreads / 32];
  std::uint64_t maxima[kRowThreads / 32];
};

// A row's weights, shared out over a cluster.
class RowWeights {
 public:
  // By all threads. REQUIRES: the barriers of `shared` are ready and all blocks run.
  __device__ RowWeights(const float* weights, int count, Place place, RowShared& shared)
      : weights_(weights), count_(count), place_(place), shared_(shared) {}

  // The row's mass at `least` and above, and its largest weight.
  __device__ RowPart parts_from(float least) {
    double mass = 0.0;
    float largest = 0.0F;
    for (int i = static_cast<int>(threadIdx.x); i < count_; i += kRowThreads) {
      const float w = weights_[i];
      mass += w >= least ? static_cast<double>(w) : 0.0;
      largest = fmaxf(largest, w);
    }
    mass = block_sum<kRowThreads>(mass, shared_.sums);
    if (round_ == 0) {  // bits of floats that are not negative order as the floats do
      largest = __uint_as_float(static_cast<unsigned>(
          block_max<kRowThreads>(std::uint64_t{__float_as_uint(largest)}, shared_.maxima)));
    }
    return exchange({mass, largest, 0.0F});
  }

 private:
  // Blocks are added in ascending order.
  __device__ RowPart exchange(const RowPart& own) {
    const int set = round_ % 2;
    RowPart* const parts = shared_.part[set];
    if (place_.blocks == 1) {
      ++round_;
      return own;
    }
    const std::uint32_t barrier = shared_address(&shared_.pushed[set]);
    if (static_cast<int>(threadIdx.x) < place_.blocks) {
      const int rank = static_cast<int>(threadIdx.x);
      push_word(address_in_block(shared_address(parts + place_.rank), rank),
                *reinterpret_cast<const uint4*>(&own), address_in_block(barrier, rank));
    }
    if (threadIdx.x == 0) {
      barrier_expect(barrier, place_.blocks * static_cast<int>(sizeof(RowPart)));
    }
    barrier_wait(barrier, round_ / 2 % 2);
    ++round_;
    RowPart row;
    for (int rank = 0; rank < place_.blocks; ++rank) {
      row.mass += parts[rank].mass;
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

// Grid: a cluster a row, a part of the row a block. Traffic: traffic::top_p. Bound by the latency
// of dependent sums over the cluster, one a halving.
__global__ void __launch_bounds__(kRowThreads)
    top_p_threshold_kernel(const __grid_constant__ TopPParams<float> p, std::int64_t stride,
                           std::int64_t part, float* least, bool staged) {
  extern __shared__ float held[];
  __shared__ RowShared shared;
  release_successors();
  if (threadIdx.x < 2) {
    barrier_init(shared_address(&shared.pushed[threadIdx.x]), 1);
    publish_barriers();
  }
  const Place place = cluster_place();
  wait_for_predecessors();
  const std::int64_t row = static_cast<int>(blockIdx.x) / place.blocks;
  const std::int64_t first = place.rank * part;
  const int count = static_cast<int>(max(std::int64_t{0}, min(part, p.length - first)));
  const float* weights = p.weights + row * stride + first;
  if (staged) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
      held[i] = weights[i];  // each thread reads back only what it wrote
    }
    weights = held;
  }
  __syncthreads();
  cluster_sync();
  RowWeights sums(weights, count, place, shared);
  const RowPart all = sums.parts_from(0.0F);
  const double wanted = p.p * all.mass;
  double kept = all.mass;
  float low = 0.0F, high = all.largest;
  for (std::int64_t i = 0; i < p.iterations; ++i) {
    const float mid = low / 2 + high / 2;
    if (mid == low) {
      break;
    }
    const double mass = sums.parts_from(mid).mass;
    const bool enough = !(mass < wanted);
    kept = enough ? mass : kept;
    (enough ? low : high) = mid;
  }
  if (threadIdx.x == 0 && place.rank == 0) {
    least[row] = low;
    p.mass[row] = static_cast<float>(kept);
  }
}

__global__ void __launch_bounds__(kUnionThreads)
    top_p_union_kernel(const __grid_constant__ TopPParams<float> p, std::int64_t stride,
                       const float* least) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kUnionThreads + threadIdx.x;
  if (token >= p.length) {
    return;
  }
  int kept = 0;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    kept |= p.weights[r * stride + token] >= least[r] ? 1 : 0;
  }
  p.mask[token] = kept;
}

void launch_thresholds(const TopPParams<float>& p, float* least, cudaStream_t stream) {
  const std::int64_t part = block_weights(p.length);
  const bool staged = part <= kMaxSharedWeights;
  const unsigned blocks = row_blocks(p.length);
  check(cudaFuncSetAttribute(top_p_threshold_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed,
                             1));
  launch_dependent({.grid = dim3(blocks * static_cast<unsigned>(p.rows)),
                    .threads = kRowThreads,
                    .cluster = blocks,
                    .shared_bytes = staged ? static_cast<std::size_t>(part) * sizeof(float) : 0,
                    .stream = stream},
                   top_p_threshold_kernel, p, p.stride(), part, least, staged);
}

}  // namespace

std::size_t top_p_scratch_bytes(const TopPParams<float>& p) {
  return static_cast<std::size_t>(p.rows) * sizeof(float);
}

void launch_top_p(const TopPParams<float>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.p > 0.0 && p.p <= 1.0 && p.iterations >= 0, "a share and a count");
  VERSIEVE_ASSERT(context.scratch_bytes >= top_p_scratch_bytes(p), "scratch is reserved before");
  VERSIEVE_ASSERT(p.length < INT32_MAX, "places are 32-bit");
  float* least = static_cast<float*>(context.scratch);
  const LaunchRange range("top_p", traffic::top_p(p.rows, p.length), context.observer);
  if (p.rows > 0) {
    launch_thresholds(p, least, context.stream);
  }
  if (p.length > 0) {
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>((p.length + kUnionThreads - 1) / kUnionThreads)),
         .threads = kUnionThreads,
         .stream = context.stream},
        top_p_union_kernel, p, p.stride(), static_cast<const float*>(least));
  }
}

}  // namespace versieve::kernels
