#include "kernels/launch.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/resa_decode/attend.cuh"
#include "kernels/resa_decode/fused_launch.cuh"
#include "kernels/resa_decode/score.cuh"
#include "kernels/resa_decode/select.cuh"
#include "kernels/resa_decode/together.h"
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

// Calls in the launches of one.
template <class T>
using Calls = std::span<const ResaCall<T>>;

template <class T>
Traffic sum_of(Calls<T> calls, Traffic (*traffic)(const traffic::ResaShape&)) {
  Traffic sum;
  for (const ResaCall<T>& call : calls) {
    sum += traffic(resa_shape(call.p));
  }
  return sum;
}

template <class T>
void launch_score(Calls<T> calls, const ResaCalls<T>& list, const LaunchContext& context) {
  const LaunchRange range("resa_score", sum_of(calls, traffic::resa_score), context.observer);
  const ResaDecodeParams<T>& p = calls.front().p;
  const std::size_t means = static_cast<std::size_t>(p.num_kv_heads * p.head_dim) * sizeof(float);
  const bool held = means <= kMostMeanBytes;
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    const std::int64_t rows =
        most_of(calls, [](const auto& c) { return c.p.block_count() * c.p.num_kv_heads; });
    const std::int64_t grid = (rows + kScoreThreads / kLanes - 1) / (kScoreThreads / kLanes);
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>(std::min(grid, kScoreBlocks)),
                      static_cast<unsigned>(calls.size())),
         .threads = kScoreThreads,
         .shared_bytes = held ? means : 0,
         .stream = context.stream},
        held ? resa_score_kernel<T, kLanes, true> : resa_score_kernel<T, kLanes, false>, list);
  });
  check(cudaGetLastError());
}

template <class T>
void launch_select(Calls<T> calls, const ResaCalls<T>& list, const LaunchContext& context) {
  const LaunchRange range("resa_select", sum_of(calls, traffic::resa_select), context.observer);
  DependentGrid grid{.grid = dim3(static_cast<unsigned>(calls.front().p.num_kv_heads),
                                  static_cast<unsigned>(calls.size())),
                     .threads = kResaSelectThreads,
                     .stream = context.stream};
  const std::int64_t blocks = most_of(calls, [](const auto& c) { return c.scratch.blocks; });
  if (blocks <= kSharedRanks) {
    grid.shared_bytes = static_cast<std::size_t>(blocks) * sizeof(std::uint32_t);
    launch_dependent(grid, resa_select_kernel<T, true>, list);
  } else {
    launch_dependent(grid, resa_select_kernel<T, false>, list);
  }
  check(cudaGetLastError());
}

template <class T>
void launch_attend(Calls<T> calls, const ResaCalls<T>& list, const LaunchContext& context) {
  const LaunchRange range("resa_attend", sum_of(calls, traffic::resa_attend), context.observer);
  const ResaDecodeParams<T>& p = calls.front().p;
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  const std::int64_t splits = most_of(calls, [](const auto& c) {
    return c.p.splits == 0 ? c.scratch.partials.chunks : std::min<std::int64_t>(c.p.splits, 65535);
  });
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>(splits), static_cast<unsigned>(p.num_kv_heads),
                      static_cast<unsigned>(calls.size())),
         .threads = static_cast<unsigned>(attention_threads(group_heads)),
         .shared_bytes = merge_bytes(group_heads, p.head_dim),
         .stream = context.stream},
        resa_attend_vanilla_kernel<T, kLanes>, list);
  });
  check(cudaGetLastError());
}

template <class T>
void launch_combine(Calls<T> calls, const ResaCalls<T>& list, const LaunchContext& context) {
  Traffic merged;
  for (const auto& [p, scratch] : calls) {
    merged.read(
        TrafficTerm::kScores,
        static_cast<double>(p.num_heads * scratch.partials.chunks * (p.head_dim + 2)) * 4.0);
  }
  const LaunchRange range("resa_combine", merged, context.observer);
  const ResaDecodeParams<T>& p = calls.front().p;
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(p.num_heads), static_cast<unsigned>(calls.size())),
       .threads = static_cast<unsigned>(kCombineParts * p.head_dim),
       .stream = context.stream},
      resa_combine_kernel<T>, list);
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

constexpr std::size_t kSeveralBytes = std::size_t{256} << 20;  // of a launch's scratch

// Of calls that share launches, at most kMostListedCalls.
template <class T>
bool share(const ResaDecodeParams<T>& a, const ResaDecodeParams<T>& b) {
  if (resa_fused_takes(a) != resa_fused_takes(b) || a.num_heads != b.num_heads ||
      a.num_kv_heads != b.num_kv_heads || a.head_dim != b.head_dim) {
    return false;
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    return !resa_fused_takes(a) || resa_fused_shares(a, b);
  }
  return true;
}

template <class T>
struct Group {
  std::vector<ResaDecodeParams<T>> calls;
  std::size_t bytes = 0;  // of scratch
};
template <class T>
std::vector<Group<T>> groups_of(std::span<const ResaDecodeParams<T>> calls) {
  std::vector<Group<T>> groups;
  for (const ResaDecodeParams<T>& p : calls) {
    const std::size_t bytes = aligned(Layout<T>(p, nullptr).bytes);
    const auto own = std::find_if(groups.begin(), groups.end(), [&](const Group<T>& group) {
      return std::ssize(group.calls) < kMostListedCalls && group.bytes + bytes <= kSeveralBytes &&
             share(group.calls.front(), p);
    });
    Group<T>& group = own == groups.end() ? groups.emplace_back() : *own;
    group.calls.push_back(p);
    group.bytes += bytes;
  }
  return groups;
}

template <class T>
void launch_group(const Group<T>& group, const LaunchContext& context) {
  std::vector<ResaCall<T>> calls;
  char* scratch = static_cast<char*>(context.scratch);
  for (const ResaDecodeParams<T>& p : group.calls) {
    const Layout<T> layout(p, scratch);
    calls.push_back({.p = p, .scratch = layout.scratch});
    scratch += aligned(layout.bytes);
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    if (resa_fused_takes(group.calls.front())) {
      launch_resa_fused(calls, context);
      return;
    }
  }
  ResaCalls<T> list{};
  std::copy(calls.begin(), calls.end(), list.call);
  launch_score<T>(calls, list, context);
  launch_select<T>(calls, list, context);
  launch_attend<T>(calls, list, context);
  launch_combine<T>(calls, list, context);
}

}  // namespace

template <class T>
std::size_t resa_together_scratch_bytes(std::span<const ResaDecodeParams<T>> calls) {
  for (const ResaDecodeParams<T>& p : calls) {
    refuse(p);
  }
  std::size_t bytes = 0;
  for (const Group<T>& group : groups_of(calls)) {
    bytes = std::max(bytes, group.bytes);
  }
  return bytes;
}

template <class T>
void launch_resa_together(std::span<const ResaDecodeParams<T>> calls,
                          const LaunchContext& context) {
  for (const ResaDecodeParams<T>& p : calls) {
    VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
    VERSIEVE_ASSERT(p.length() >= 1, "there is a token to attend");
    refuse(p);
  }
  for (const Group<T>& group : groups_of(calls)) {
    VERSIEVE_ASSERT(context.scratch_bytes >= group.bytes, "scratch is reserved before");
    launch_group(group, context);
  }
}

template <class T>
std::size_t resa_decode_scratch_bytes(const ResaDecodeParams<T>& p) {
  return resa_together_scratch_bytes(std::span(&p, 1));
}
template <class T>
void launch_resa_decode(const ResaDecodeParams<T>& p, const LaunchContext& context) {
  launch_resa_together(std::span(&p, 1), context);
}

#define VERSIEVE_INSTANTIATE(T)                                                              \
  template std::size_t resa_decode_scratch_bytes<T>(const ResaDecodeParams<T>&);             \
  template void launch_resa_decode<T>(const ResaDecodeParams<T>&, const LaunchContext&);     \
  template std::size_t resa_together_scratch_bytes<T>(std::span<const ResaDecodeParams<T>>); \
  template void launch_resa_together<T>(std::span<const ResaDecodeParams<T>>, const LaunchContext&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
