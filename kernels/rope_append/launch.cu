// rope_append: one block a node. Each thread moves one unit of the joint row: 8 pairs of a query or
// key head, 8 elements of v, 8 gates (or one of each where sizes or addresses do not allow 16-byte
// words). Starts under the launch before it. Bound by its latency.
#include <cmath>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/rope_append/launch.h"
#include "kernels/swiglu/activation.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxPairs = 128;  // head_dim up to 256

// theta^(-2i/d), computed once a call on the host: the same numbers as the CPU form's.
struct Frequencies {
  double value[kMaxPairs];
};

template <class T>
__global__ void __launch_bounds__(kMaxPairs)
    rope_table_kernel(const __grid_constant__ RopeTableParams<T> p,
                      const __grid_constant__ Frequencies frequencies) {
  release_successors();
  wait_for_predecessors();
  const int half = static_cast<int>(p.head_dim / 2);
  const int i = static_cast<int>(threadIdx.x);
  if (i < half) {
    double s = 0.0;
    double c = 0.0;
    sincos(p.position[blockIdx.x] * frequencies.value[i], &s, &c);
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * half + i;
    p.cosine[at] = static_cast<float>(c);
    p.sine[at] = static_cast<float>(s);
  }
}

// kUnit neighbouring elements.
template <class T, int kUnit>
struct alignas(kUnit == 1 ? sizeof(T) : 16) Unit {
  T value[kUnit];
};

// Pairs [i, i + kUnit) of one head.
template <class T, int kUnit>
__device__ inline void rotate(const T* x, const float* cosine, const float* sine, int half, T* y) {
  using U = Unit<T, kUnit>;
  const U low = *reinterpret_cast<const U*>(x);
  const U high = *reinterpret_cast<const U*>(x + half);
  const Unit<float, kUnit> c = *reinterpret_cast<const Unit<float, kUnit>*>(cosine);
  const Unit<float, kUnit> s = *reinterpret_cast<const Unit<float, kUnit>*>(sine);
  U turned_low;
  U turned_high;
  for (int j = 0; j < kUnit; ++j) {
    const float a = load_f32(low.value + j);
    const float b = load_f32(high.value + j);
    store_f32(turned_low.value + j, fmaf(a, c.value[j], -__fmul_rn(b, s.value[j])));
    store_f32(turned_high.value + j, fmaf(b, c.value[j], __fmul_rn(a, s.value[j])));
  }
  *reinterpret_cast<U*>(y) = turned_low;
  *reinterpret_cast<U*>(y + half) = turned_high;
}

template <class T, int kUnit>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppendParams<T> p) {
  using U = Unit<T, kUnit>;
  release_successors();
  wait_for_predecessors();
  const std::int64_t n = blockIdx.x;
  const int d = static_cast<int>(p.head_dim);
  const int half = d / 2;
  const int q_width = static_cast<int>(p.num_heads) * d;
  const int kv_width = static_cast<int>(p.num_kv_heads) * d;
  const int gates = static_cast<int>(p.gate_count);
  const T* x = p.x + n * (q_width + 2 * kv_width + gates);
  const int turned = (q_width + kv_width) / 2 / kUnit;  // units of pairs
  const int count = turned + (kv_width + gates) / kUnit;
  for (int unit = static_cast<int>(threadIdx.x); unit < count; unit += kThreads) {
    if (unit < turned) {
      const int i = unit * kUnit % half;
      const int at = unit * kUnit / half * d + i;
      T* const y = at < q_width ? p.q + n * q_width + at : p.k + n * kv_width + at - q_width;
      rotate<T, kUnit>(x + at, p.cosine + n * half + i, p.sine + n * half + i, half, y);
      if (at >= q_width && p.k_raw != nullptr) {
        T* const raw = p.k_raw + n * kv_width + at - q_width;
        *reinterpret_cast<U*>(raw) = *reinterpret_cast<const U*>(x + at);
        *reinterpret_cast<U*>(raw + half) = *reinterpret_cast<const U*>(x + at + half);
      }
    } else {
      const int at = (unit - turned) * kUnit;
      U value = *reinterpret_cast<const U*>(x + q_width + kv_width + at);
      if (at < kv_width) {
        *reinterpret_cast<U*>(p.v + n * kv_width + at) = value;
      } else {
        for (int j = 0; j < kUnit; ++j) {
          store_f32(value.value + j, logistic(load_f32(value.value + j)));
        }
        *reinterpret_cast<U*>(p.gates + n * gates + at - kv_width) = value;
      }
    }
  }
}

template <class T>
bool whole_units(const RopeAppendParams<T>& p) {
  std::uintptr_t addresses = 0;
  for (const void* memory :
       {static_cast<const void*>(p.x), static_cast<const void*>(p.q),
        static_cast<const void*>(p.k_raw), static_cast<const void*>(p.k),
        static_cast<const void*>(p.v), static_cast<const void*>(p.gates),
        static_cast<const void*>(p.cosine), static_cast<const void*>(p.sine)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(memory);
  }
  return addresses % 16 == 0 && p.head_dim % 16 == 0 && p.gate_count % 8 == 0;
}

}  // namespace

template <class T>
void launch_rope_table(const RopeTableParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  VERSIEVE_ASSERT(p.head_dim / 2 <= kMaxPairs, "head sizes above 256 have no table");
  if (p.n == 0) {
    return;
  }
  Frequencies frequencies{};
  for (std::int64_t i = 0; i < p.head_dim / 2; ++i) {
    frequencies.value[i] =
        std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(p.head_dim));
  }
  const LaunchRange range("rope", traffic::rope_table(p.n, p.head_dim, sizeof(float)),
                          context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(p.n)), .threads = kMaxPairs, .stream = context.stream},
      rope_table_kernel<T>, p, frequencies);
}

template <class T>
void launch_rope_append(const RopeAppendParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  if (p.n == 0) {
    return;
  }
  const LaunchRange range("rope",
                          traffic::rope_append(p.n, p.num_heads, p.num_kv_heads, p.head_dim,
                                               p.gate_count, p.k_raw != nullptr, sizeof(T)),
                          context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(p.n)), .threads = kThreads, .stream = context.stream},
      whole_units(p) ? rope_append_kernel<T, 8> : rope_append_kernel<T, 1>, p);
}

template void launch_rope_table<float>(const RopeTableParams<float>&, const LaunchContext&);
template void launch_rope_table<Bf16>(const RopeTableParams<Bf16>&, const LaunchContext&);
template void launch_rope_append<float>(const RopeAppendParams<float>&, const LaunchContext&);
template void launch_rope_append<Bf16>(const RopeAppendParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
