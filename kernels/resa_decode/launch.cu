#include "kernels/launch.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/resa_decode/attend.cuh"
#include "kernels/resa_decode/fused_launch.cuh"
#include "kernels/resa_decode/score.cuh"
#include "kernels/resa_decode/select.cuh"
#include "kernels/resa_decode/traffic_shape.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kScoreBlocks = 132 * 4;      // one wave of an H200
constexpr std::int64_t kSharedRanks = 48 * 1024;    // a row's order keys in shared memory, 192 KiB
constexpr std::size_t kMostMeanBytes = 192 * 1024;  // of the groups' mean queries in shared memory
constexpr std::int64_t kMostKvHeads = 65535;        // second dimension of a grid

std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Bounds of what the device will find, and where results lie.
template <class T>
struct Layout {
  ResaScratch scratch;
  std::size_t bytes = 0;

  Layout(const ResaDecodeParams<T>& p, void* memory) {
    char* base = static_cast<char*>(memory);
    scratch.blocks = p.block_count();
    scratch.indices = p.active_count();
    const std::int64_t tokens = p.active_count() * p.selection.key_block;
    const std::int64_t most = std::max<std::int64_t>(1, std::min(p.length(), tokens));
    scratch.partials.chunks = resa_fused_takes(p) ? most_listed_chunks(most) : most_chunks(most);
    const std::size_t rank =
        aligned(static_cast<std::size_t>(p.num_kv_heads * scratch.blocks) * sizeof(std::uint32_t));
    const std::size_t rows = static_cast<std::size_t>(p.num_heads * scratch.partials.chunks);
    const std::size_t value = aligned(rows * static_cast<std::size_t>(p.head_dim) * sizeof(float));
    scratch.rank = reinterpret_cast<std::uint32_t*>(base);
    scratch.partials.value = reinterpret_cast<float*>(base + rank);
    scratch.partials.max_sum = reinterpret_cast<float*>(base + rank + value);
    bytes = rank + value + rows * 2 * sizeof(float);
  }
};

template <class T>
void launch_score(const ResaDecodeParams<T>& p, const ResaScratch& scratch,
                  const LaunchContext& context) {
  const LaunchRange range("resa_score", traffic::resa_score(resa_shape(p)), context.observer);
  const std::size_t means = static_cast<std::size_t>(p.num_kv_heads * p.head_dim) * sizeof(float);
  const bool held = means <= kMostMeanBytes;
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    const std::int64_t rows = p.block_count() * p.num_kv_heads;
    const std::int64_t grid = (rows + kScoreThreads / kLanes - 1) / (kScoreThreads / kLanes);
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>(std::min(grid, kScoreBlocks))),
         .threads = kScoreThreads,
         .shared_bytes = held ? means : 0,
         .stream = context.stream},
        held ? resa_score_kernel<T, kLanes, true> : resa_score_kernel<T, kLanes, false>, p,
        scratch);
  });
  check(cudaGetLastError());
}

template <class T>
void launch_select(const ResaDecodeParams<T>& p, const ResaScratch& scratch,
                   const LaunchContext& context) {
  const LaunchRange range("resa_select", traffic::resa_select(resa_shape(p)), context.observer);
  DependentGrid grid{.grid = dim3(static_cast<unsigned>(p.num_kv_heads)),
                     .threads = kResaSelectThreads,
                     .stream = context.stream};
  if (scratch.blocks <= kSharedRanks) {
    grid.shared_bytes = static_cast<std::size_t>(scratch.blocks) * sizeof(std::uint32_t);
    launch_dependent(grid, resa_select_kernel<T, true>, p, scratch);
  } else {
    launch_dependent(grid, resa_select_kernel<T, false>, p, scratch);
  }
  check(cudaGetLastError());
}

template <class T>
void launch_attend(const ResaDecodeParams<T>& p, const ResaScratch& scratch,
                   const LaunchContext& context) {
  const LaunchRange range("resa_attend", traffic::resa_attend(resa_shape(p)), context.observer);
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  const std::int64_t splits =
      p.splits == 0 ? scratch.partials.chunks : std::min<std::int64_t>(p.splits, 65535);
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>(splits), static_cast<unsigned>(p.num_kv_heads)),
         .threads = static_cast<unsigned>(attention_threads(group_heads)),
         .shared_bytes = merge_bytes(group_heads, p.head_dim),
         .stream = context.stream},
        resa_attend_vanilla_kernel<T, kLanes>, p, scratch);
  });
  check(cudaGetLastError());
}

template <class T>
void launch_combine(const ResaDecodeParams<T>& p, const ResaScratch& scratch,
                    const LaunchContext& context) {
  Traffic merged;
  merged.read(TrafficTerm::kScores,
              static_cast<double>(p.num_heads * scratch.partials.chunks * (p.head_dim + 2)) * 4.0);
  const LaunchRange range("resa_combine", merged, context.observer);
  launch_dependent({.grid = dim3(static_cast<unsigned>(p.num_heads)),
                    .threads = static_cast<unsigned>(kCombineParts * p.head_dim),
                    .stream = context.stream},
                   resa_combine_kernel<T>, p, scratch);
  check(cudaGetLastError());
}

template <class T>
void refuse(const ResaDecodeParams<T>& p) {
  if (p.head_dim % 16 != 0 || p.head_dim > kMaxHeadDim ||
      p.num_heads / p.num_kv_heads > kMaxGroupHeads) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take a head size that is a multiple of 16 up to 128 and at most "
                "16 query heads per KV head, not d = " +
                    std::to_string(p.head_dim));
  }
  if (p.num_kv_heads > kMostKvHeads || p.length() >= INT32_MAX) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take at most 65,535 KV heads and fewer than 2^31 - 1 tokens");
  }
}

}  // namespace

template <class T>
std::size_t resa_decode_scratch_bytes(const ResaDecodeParams<T>& p) {
  refuse(p);
  return Layout<T>(p, nullptr).bytes;
}

template <class T>
void launch_resa_decode(const ResaDecodeParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.length() >= 1, "there is a token to attend");
  refuse(p);
  const Layout<T> layout(p, context.scratch);
  VERSIEVE_ASSERT(context.scratch_bytes >= layout.bytes, "scratch is reserved before");
  if constexpr (std::is_same_v<T, Bf16>) {
    if (resa_fused_takes(p)) {
      launch_resa_fused(p, layout.scratch, context);
      return;
    }
  }
  launch_score(p, layout.scratch, context);
  launch_select(p, layout.scratch, context);
  launch_attend(p, layout.scratch, context);
  launch_combine(p, layout.scratch, context);
}

template std::size_t resa_decode_scratch_bytes<float>(const ResaDecodeParams<float>&);
template std::size_t resa_decode_scratch_bytes<Bf16>(const ResaDecodeParams<Bf16>&);
template void launch_resa_decode<float>(const ResaDecodeParams<float>&, const LaunchContext&);
template void launch_resa_decode<Bf16>(const ResaDecodeParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
