#include "kernels/launch.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/attention_weights/together.h"
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/call_list.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "model/launches/specattn.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kHeadThreads = 1024;
constexpr int kMaxHeadDim = 128;
constexpr int kMaxGroupHeads = 16;

// Scratch: scores [H, stride] with stride = L + nodes, then each head's (maximum, sum).
struct Layout {
  float* scores;
  float2* heads;
  std::int64_t stride;
};

// A call and its scratch.
template <class T>
struct WeightsCall {
  AttentionWeightsParams<T> p;
  Layout layout;
};

// The node's depth below the root, and its k-th ancestor (itself for 0).
__device__ std::int64_t depth_of(const std::int32_t* parent, std::int64_t node) {
  std::int64_t depth = 0;
  for (std::int32_t i = parent[node]; i >= 0; i = parent[i]) {
    ++depth;
  }
  return depth;
}
__device__ std::int64_t ancestor(const std::int32_t* parent, std::int64_t node, std::int64_t k) {
  std::int32_t i = static_cast<std::int32_t>(node);
  for (; k > 0; --k) {
    i = parent[i];
  }
  return i;
}

template <class T>
__device__ std::int64_t committed(const AttentionWeightsParams<T>& p) {
  return p.counts == nullptr ? p.context_len : p.counts->context_len;
}

// Grid: (chunk of positions, KV head, call); one thread a key, the group's queries in shared
// memory.
template <class T, int kCalls>
__global__ void __launch_bounds__(kThreads)
    attention_scores_kernel(const __grid_constant__ CallList<WeightsCall<T>, kCalls> calls) {
  __shared__ float q[kMaxGroupHeads * kMaxHeadDim];
  const AttentionWeightsParams<T>& p = calls.at(blockIdx.z).p;
  const Layout& layout = calls.at(blockIdx.z).layout;
  if (kCalls > 1 && std::int64_t{blockIdx.x} * kThreads >= layout.stride) {
    return;
  }
  const int rows = static_cast<int>(p.num_heads / p.num_kv_heads);
  const int width = static_cast<int>(p.head_dim);
  const std::int64_t g = blockIdx.y;
  const float scale = 1.0F / sqrtf(static_cast<float>(width));
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kThreads) {
    q[i] = load_f32(p.q + g * rows * width + i) * scale;
  }
  __syncthreads();
  const std::int64_t context_len = committed(p);
  const std::int64_t length = context_len + depth_of(p.parent, p.query_node) + 1;
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (position >= length) {
    return;
  }
  const bool cached = position < context_len;
  const std::int64_t row =
      cached ? p.pages.row(position) : ancestor(p.parent, p.query_node, length - 1 - position);
  const T* key = (cached ? p.k : p.k_tree) + (row * p.num_kv_heads + g) * width;
  float sums[kMaxGroupHeads] = {};
  for (int e = 0; e < width; e += kWordElements<T>) {
    float x[kWordElements<T>];
    unpack<T>(*reinterpret_cast<const uint4*>(key + e), x);
#pragma unroll
    for (int h = 0; h < kMaxGroupHeads; ++h) {
      if (h < rows) {
#pragma unroll
        for (int j = 0; j < kWordElements<T>; ++j) {
          sums[h] = fmaf(q[h * width + e + j], x[j], sums[h]);
        }
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kMaxGroupHeads; ++h) {
    if (h < rows) {
      layout.scores[(g * rows + h) * layout.stride + position] = sums[h];
    }
  }
}

// A float's bits as an integer that orders as the floats do.
__device__ std::uint64_t ordered(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ float from_ordered(std::uint64_t order) {
  const unsigned bits = static_cast<unsigned>(order);
  return __uint_as_float((bits & 0x80000000U) != 0 ? bits & 0x7FFFFFFFU : ~bits);
}

// Grid: (query head, call), a CTA each.
template <class T, int kCalls>
__global__ void __launch_bounds__(kHeadThreads)
    attention_sums_kernel(const __grid_constant__ CallList<WeightsCall<T>, kCalls> calls) {
  __shared__ std::uint64_t maxima[kHeadThreads / 32];
  __shared__ float sums[kHeadThreads / 32];
  const AttentionWeightsParams<T>& p = calls.at(blockIdx.y).p;
  const Layout& layout = calls.at(blockIdx.y).layout;
  const std::int64_t length = committed(p) + depth_of(p.parent, p.query_node) + 1;
  const float* scores = layout.scores + blockIdx.x * layout.stride;
  std::uint64_t own = 0;
  for (std::int64_t i = threadIdx.x; i < length; i += kHeadThreads) {
    const std::uint64_t order = ordered(scores[i]);
    own = order > own ? order : own;
  }
  const float most = from_ordered(block_max<kHeadThreads>(own, maxima));
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < length; i += kHeadThreads) {
    sum += expf(scores[i] - most);
  }
  sum = block_sum<kHeadThreads>(sum, sums);
  if (threadIdx.x == 0) {
    layout.heads[blockIdx.x] = {most, sum};
  }
}

// Grid: (chunk of positions, call); heads in ascending order.
template <class T, int kCalls>
__global__ void __launch_bounds__(kThreads)
    attention_mean_kernel(const __grid_constant__ CallList<WeightsCall<T>, kCalls> calls) {
  const AttentionWeightsParams<T>& p = calls.at(blockIdx.y).p;
  const Layout& layout = calls.at(blockIdx.y).layout;
  const std::int64_t length = committed(p) + depth_of(p.parent, p.query_node) + 1;
  const std::int64_t position = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (position >= length) {
    return;
  }
  float sum = 0.0F;
  for (std::int64_t h = 0; h < p.num_heads; ++h) {
    const float2 head = layout.heads[h];
    sum += expf(layout.scores[h * layout.stride + position] - head.x) / head.y;
  }
  p.weights[position] = sum / static_cast<float>(p.num_heads);
}

template <class T>
std::int64_t stride_of(const AttentionWeightsParams<T>& p) {
  return (p.context_len + p.num_nodes + 1) / 2 * 2;
}

constexpr std::size_t kLaunchBytes = std::size_t{256} << 20;  // of several calls' scratch

// As many calls from the first on as share launches.
template <class T>
std::size_t joined_calls(std::span<const AttentionWeightsParams<T>> calls, std::size_t& bytes) {
  bytes = 0;
  std::size_t count = 0;
  while (count < std::min<std::size_t>(calls.size(), kMostListedCalls)) {
    const std::size_t own = attention_weights_scratch_bytes(calls[count]);
    if (count > 0 && bytes + own > kLaunchBytes) {
      break;
    }
    bytes += own;
    ++count;
  }
  return count;
}

template <class T>
void check_call(const AttentionWeightsParams<T>& p) {
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.query_node >= 0 && p.query_node < p.num_nodes, "the query belongs to a node");
  if (p.head_dim % 16 != 0 || p.head_dim > kMaxHeadDim ||
      p.num_heads / p.num_kv_heads > kMaxGroupHeads) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take a head size that is a multiple of 16 up to 128 and at most "
                "16 query heads per KV head");
  }
}

// All at once.
template <class T, int kCalls>
void enqueue(const CallList<WeightsCall<T>, kCalls>& list, std::span<const WeightsCall<T>> calls,
             cudaStream_t stream) {
  const auto size = [](std::int64_t count) { return static_cast<unsigned>(count); };
  const unsigned count = size(std::ssize(calls));
  const AttentionWeightsParams<T>& any = calls.front().p;
  const unsigned chunks = size(most_of(calls, [](const WeightsCall<T>& call) {
    return (call.p.context_len + call.p.num_nodes + kThreads - 1) / kThreads;
  }));
  attention_scores_kernel<T, kCalls>
      <<<dim3(chunks, size(any.num_kv_heads), count), kThreads, 0, stream>>>(list);
  check(cudaGetLastError());
  attention_sums_kernel<T, kCalls>
      <<<dim3(size(any.num_heads), count), kHeadThreads, 0, stream>>>(list);
  check(cudaGetLastError());
  attention_mean_kernel<T, kCalls><<<dim3(chunks, count), kThreads, 0, stream>>>(list);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t attention_weights_scratch_bytes(const AttentionWeightsParams<T>& p) {
  return static_cast<std::size_t>(p.num_heads) *
         (static_cast<std::size_t>(stride_of(p)) * sizeof(float) + sizeof(float2));
}

template <class T>
std::size_t attention_weights_together_scratch_bytes(
    std::span<const AttentionWeightsParams<T>> calls) {
  std::size_t most = 0;
  for (std::size_t bytes = 0; !calls.empty(); most = std::max(most, bytes)) {
    calls = calls.subspan(joined_calls(calls, bytes));
  }
  return most;
}

template <class T>
void launch_attention_weights(const AttentionWeightsParams<T>& p, const LaunchContext& context) {
  launch_attention_weights_together<T>({&p, 1}, context);
}

template <class T>
void launch_attention_weights_together(std::span<const AttentionWeightsParams<T>> calls,
                                       const LaunchContext& context) {
  while (!calls.empty()) {
    std::size_t bytes = 0;
    const std::span<const AttentionWeightsParams<T>> joined =
        calls.first(joined_calls(calls, bytes));
    calls = calls.subspan(joined.size());
    VERSIEVE_ASSERT(context.scratch_bytes >= bytes, "scratch is reserved before");
    char* scratch = static_cast<char*>(context.scratch);
    std::vector<WeightsCall<T>> own;
    Traffic traffic;
    for (const AttentionWeightsParams<T>& p : joined) {
      check_call(p);
      VERSIEVE_ASSERT(p.num_heads == joined[0].num_heads &&
                          p.num_kv_heads == joined[0].num_kv_heads &&
                          p.head_dim == joined[0].head_dim,
                      "calls are of one model");
      float* const scores = reinterpret_cast<float*>(scratch);
      own.push_back(
          {p,
           {scores, reinterpret_cast<float2*>(scores + p.num_heads * stride_of(p)), stride_of(p)}});
      scratch += attention_weights_scratch_bytes(p);
      traffic += traffic::attention_weights(p.num_heads, p.num_kv_heads, p.head_dim, p.context_len,
                                            sizeof(T));
    }
    const LaunchRange range("attention_weights", traffic, context.observer);
    launch_lists(std::span<const WeightsCall<T>>(own),
                 [&](const auto& list, std::span<const WeightsCall<T>> some) {
                   enqueue(list, some, context.stream);
                 });
  }
}

template std::size_t attention_weights_scratch_bytes<float>(const AttentionWeightsParams<float>&);
template std::size_t attention_weights_scratch_bytes<Bf16>(const AttentionWeightsParams<Bf16>&);
template void launch_attention_weights<float>(const AttentionWeightsParams<float>&,
                                              const LaunchContext&);
template void launch_attention_weights<Bf16>(const AttentionWeightsParams<Bf16>&,
                                             const LaunchContext&);
template std::size_t attention_weights_together_scratch_bytes<float>(
    std::span<const AttentionWeightsParams<float>>);
template std::size_t attention_weights_together_scratch_bytes<Bf16>(
    std::span<const AttentionWeightsParams<Bf16>>);
template void launch_attention_weights_together<float>(
    std::span<const AttentionWeightsParams<float>>, const LaunchContext&);
template void launch_attention_weights_together<Bf16>(
    std::span<const AttentionWeightsParams<Bf16>>, const LaunchContext&);

}  // namespace versieve::kernels
