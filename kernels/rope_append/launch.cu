// rope_append: one block a node. Each thread moves one unit of the joint row: 8 pairs of a query or
// key head, 8 elements of v, 8 gates (or one of each where sizes or addresses do not allow 16-byte
// words). Then one block a compressed token and KV head (compress/pool.cuh), which waits for no
// other. Starts under the launch before it. Bound by its latency. Rows that have a bias or norms
// before rotary go by a warp a head, compressed tokens then by a launch behind it.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/element_unit.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/compress/pool.cuh"
#include "kernels/compress/traffic.h"
#include "kernels/launch.h"
#include "kernels/rope_append/angles.cuh"
#include "kernels/rope_append/traffic.h"
#include "kernels/rope_append/turn.cuh"
#include "kernels/swiglu/activation.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = kPoolThreads;
constexpr std::size_t kMostSharedBytes = 96 * 1024;  // of a block that pools

// Pairs [i, i + kUnit) of one head, to `y` and, if not null, `also`.
template <class T, int kUnit>
__device__ inline void rotate(const T* x, const float* cosine, const float* sine, int half, T* y,
                              T* also) {
  using U = Unit<T, kUnit>;
  const U low = load_unit<T, kUnit>(x);
  const U high = load_unit<T, kUnit>(x + half);
  const Unit<float, kUnit> c = load_unit<float, kUnit>(cosine);
  const Unit<float, kUnit> s = load_unit<float, kUnit>(sine);
  U y_low;
  U y_high;
  for (int j = 0; j < kUnit; ++j) {
    const float a = load_f32(low.value + j);
    const float b = load_f32(high.value + j);
    store_f32(y_low.value + j, turned_low(a, b, c.value[j], s.value[j]));
    store_f32(y_high.value + j, turned_high(a, b, c.value[j], s.value[j]));
  }
  store_unit(y, y_low);
  store_unit(y + half, y_high);
  if (also != nullptr) {
    store_unit(also, y_low);
    store_unit(also + half, y_high);
  }
}

// A joint row's parts.
template <class T>
struct Widths {
  int d, q, kv, gates, stride;  // stride: between joint rows

  __device__ explicit Widths(const RopeAppendParams<T>& p)
      : d(static_cast<int>(p.head_dim)),
        q(static_cast<int>(p.num_heads) * d),
        kv(static_cast<int>(p.num_kv_heads) * d),
        gates(static_cast<int>(p.gate_count)),
        stride(static_cast<int>(p.x_stride)) {}
  __device__ int row() const { return stride; }
};

template <class T, int kUnit>
__device__ inline void append_row(const RopeAppendParams<T>& p, std::int64_t n) {
  const Widths<T> w(p);
  const int half = w.d / 2;
  const T* x = p.x + n * w.row();
  const bool keeps = p.cache_row != nullptr && p.cache_row[n] >= 0;
  const std::int64_t cached = keeps ? p.cache_row[n] * static_cast<std::int64_t>(w.kv) : 0;
  const int turned = (w.q + w.kv) / 2 / kUnit;  // units of pairs
  const bool whole_gates = w.gates % kUnit == 0;
  const int behind = turned + w.kv / kUnit;
  const int count = behind + (whole_gates ? w.gates / kUnit : w.gates);
  for (int unit = static_cast<int>(threadIdx.x); unit < count; unit += kThreads) {
    if (unit < turned) {
      const int i = unit * kUnit % half;
      const int at = unit * kUnit / half * w.d + i;
      T* const y = at < w.q ? p.q + n * w.q + at : p.k + n * w.kv + at - w.q;
      T* const also = keeps && at >= w.q ? p.k_cache + cached + at - w.q : nullptr;
      rotate<T, kUnit>(x + at, p.cosine + n * half + i, p.sine + n * half + i, half, y, also);
      if (at >= w.q && p.k_raw != nullptr) {
        T* const raw = p.k_raw + n * w.kv + at - w.q;
        store_unit(raw, load_unit<T, kUnit>(x + at));
        store_unit(raw + half, load_unit<T, kUnit>(x + at + half));
      }
    } else if (!whole_gates && unit >= behind) {
      const int i = unit - behind;
      store_f32(p.gates + n * w.gates + i, logistic(load_f32(x + w.q + 2 * w.kv + i)));
    } else {
      const int at = (unit - turned) * kUnit;
      Unit<T, kUnit> value = load_unit<T, kUnit>(x + w.q + w.kv + at);
      if (at < w.kv) {
        store_unit(p.v + n * w.kv + at, value);
        if (keeps) {
          store_unit(p.v_cache + cached + at, value);
        }
      } else {
        for (int j = 0; j < kUnit; ++j) {
          store_f32(value.value + j, logistic(load_f32(value.value + j)));
        }
        store_unit(p.gates + n * w.gates + at - w.kv, value);
      }
    }
  }
}

// The tree's rows of KV head g, worked out from the joint rows: other blocks are storing them.
template <class T, int kUnit>
struct JointTree {
  const RopeAppendParams<T>& p;
  int g;

  __device__ Unit<T, kUnit> key(int node, int e) const {
    const Widths<T> w(p);
    const T* const x = p.x + static_cast<std::int64_t>(node) * w.row() + w.q + g * w.d;
    Unit<T, kUnit> key = load_unit<T, kUnit>(x + e);
    if (p.compress.rotate) {  // phi takes keys before rotary
      return key;
    }
    const int half = w.d / 2;
    const int i = e < half ? e : e - half;
    const Unit<T, kUnit> other = load_unit<T, kUnit>(x + (e < half ? e + half : i));
    const std::int64_t at = static_cast<std::int64_t>(node) * half + i;
    const Unit<float, kUnit> c = load_unit<float, kUnit>(p.cosine + at);
    const Unit<float, kUnit> s = load_unit<float, kUnit>(p.sine + at);
    for (int j = 0; j < kUnit; ++j) {
      const float mine = load_f32(key.value + j);
      const float its = load_f32(other.value + j);
      store_f32(key.value + j, e < half ? turned_low(mine, its, c.value[j], s.value[j])
                                        : turned_high(its, mine, c.value[j], s.value[j]));
    }
    return key;
  }
  __device__ Unit<T, kUnit> value(int node, int e) const {
    const Widths<T> w(p);
    return load_unit<T, kUnit>(p.x + static_cast<std::int64_t>(node) * w.row() + w.q + w.kv +
                               g * w.d + e);
  }
};

// Block `block` of those that pool: a compressed token and KV head. What does not depend on the
// launch before this one comes before the wait.
template <class T, int kUnit>
__device__ inline void pool_row(const RopeAppendParams<T>& p, int block, unsigned char* shared) {
  const CompressParams<T>& c = p.compress;
  const PoolMemory<T> memory(c, shared);
  const int row = block / static_cast<int>(c.num_kv_heads);
  const int g = block - row * static_cast<int>(c.num_kv_heads);
  const JointTree<T, kUnit> tree{p, g};
  stage_weights(c, g, memory);
#pragma unroll 1
  for (int pass = c.older_lists ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1) {
      wait_for_predecessors();
    }
    if (c.counts != nullptr && row >= c.counts->tree_compressed) {
      return;
    }
    const bool cached = pass == 0 || !c.older_lists;
    stage_tokens<T, kUnit>(c, row, g, tree, cached, pass == 1, memory);
  }
  __syncthreads();
  pool(c, row, g, memory);
}

template <class T, int kUnit>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppendParams<T> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  release_successors();
  const int block = static_cast<int>(blockIdx.x);
  const int nodes = static_cast<int>(p.n);
  if (block >= nodes) {
    pool_row<T, kUnit>(p, block - nodes, shared);
    return;
  }
  wait_for_predecessors();
  append_row<T, kUnit>(p, block);
}

// The row's queries, keys and values where a bias or norms come before rotary: a warp a head, a
// lane pairs lane, lane + 32, ...; then the gates.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rope_append_prepared_kernel(const __grid_constant__ RopeAppendParams<T> p) {
  constexpr int kPairs = kMaxRotaryPairs / 32;  // of a lane
  release_successors();
  wait_for_predecessors();
  const Widths<T> w(p);
  const std::int64_t n = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int half = w.d / 2;
  const int heads = (w.q + 2 * w.kv) / w.d;
  const T* const x = p.x + n * w.row();
  const bool keeps = p.cache_row != nullptr && p.cache_row[n] >= 0;
  const std::int64_t cached = keeps ? p.cache_row[n] * static_cast<std::int64_t>(w.kv) : 0;
#pragma unroll 1
  for (int h = static_cast<int>(threadIdx.x) / 32; h < heads; h += kThreads / 32) {
    const int at = h * w.d;  // of the joint row
    const bool is_query = at < w.q;
    const bool is_value = at >= w.q + w.kv;
    float low[kPairs];
    float high[kPairs];
    float squares = 0.0F;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = lane + 32 * j;
      low[j] = high[j] = 0.0F;
      if (i < half) {
        low[j] = load_f32(x + at + i);
        high[j] = load_f32(x + at + half + i);
        if (p.bias != nullptr) {
          low[j] += load_f32(p.bias + at + i);
          high[j] += load_f32(p.bias + at + half + i);
        }
        squares = fmaf(high[j], high[j], fmaf(low[j], low[j], squares));
      }
    }
    if (p.q_norm != nullptr && !is_value) {
      const T* const weight = is_query ? p.q_norm : p.k_norm;
      const float mean = warp_sum(squares) / static_cast<float>(w.d);
      const float scale = 1.0F / sqrtf(mean + static_cast<float>(p.norm_eps));
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const int i = lane + 32 * j;
        if (i < half) {
          low[j] *= scale * load_f32(weight + i);
          high[j] *= scale * load_f32(weight + half + i);
        }
      }
    }
    const int own = is_query ? at : is_value ? at - w.q - w.kv : at - w.q;
    T* const to = is_query ? p.q + n * w.q + own : (is_value ? p.v : p.k) + n * w.kv + own;
    T* const also =
        is_query || !keeps ? nullptr : (is_value ? p.v_cache : p.k_cache) + cached + own;
    T* const raw = is_query || is_value || p.k_raw == nullptr ? nullptr : p.k_raw + n * w.kv + own;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = lane + 32 * j;
      if (i >= half) {
        break;
      }
      float y_low = low[j];
      float y_high = high[j];
      if (raw != nullptr) {
        store_f32(raw + i, y_low);
        store_f32(raw + half + i, y_high);
      }
      if (!is_value) {
        const float c = p.cosine[n * half + i];
        const float s = p.sine[n * half + i];
        y_low = turned_low(low[j], high[j], c, s);
        y_high = turned_high(low[j], high[j], c, s);
      }
      store_f32(to + i, y_low);
      store_f32(to + half + i, y_high);
      if (also != nullptr) {
        store_f32(also + i, y_low);
        store_f32(also + half + i, y_high);
      }
    }
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < w.gates; i += kThreads) {
    store_f32(p.gates + n * w.gates + i, logistic(load_f32(x + w.q + 2 * w.kv + i)));
  }
}

// Compressed tokens follow in a launch of their own.
template <class T>
void launch_prepared(const RopeAppendParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT((p.q_norm == nullptr) == (p.k_norm == nullptr), "both norms or neither");
  VERSIEVE_ASSERT(p.head_dim / 2 <= kMaxRotaryPairs, "head sizes above 256 have no table");
  const LaunchRange range("rope", rope_append_traffic(p), context.observer);
  launch_dependent({.grid = dim3(static_cast<unsigned>(p.n)),
                    .threads = kThreads,
                    .shared_bytes = 0,
                    .stream = context.stream},
                   rope_append_prepared_kernel<T>, p);
}

template <class T>
bool whole_units(const RopeAppendParams<T>& p) {
  std::uintptr_t addresses = 0;
  for (const void* memory :
       {static_cast<const void*>(p.x), static_cast<const void*>(p.q),
        static_cast<const void*>(p.k_raw), static_cast<const void*>(p.k),
        static_cast<const void*>(p.v), static_cast<const void*>(p.gates),
        static_cast<const void*>(p.cosine), static_cast<const void*>(p.sine),
        static_cast<const void*>(p.compress.k_cache), static_cast<const void*>(p.compress.v_cache),
        static_cast<const void*>(p.k_cache), static_cast<const void*>(p.v_cache)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(memory);
  }
  return addresses % 16 == 0 && p.head_dim % 16 == 0 && p.x_stride % 8 == 0;
}

}  // namespace

template <class T>
void launch_rope_append(const RopeAppendParams<T>& given, const LaunchContext& context) {
  RopeAppendParams<T> p = given;
  if (p.x_stride == 0) {
    p.x_stride = (p.num_heads + 2 * p.num_kv_heads) * p.head_dim + p.gate_count;
  }
  VERSIEVE_ASSERT(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary pairs need an even head size");
  if (p.n == 0) {
    return;
  }
  const CompressParams<T>& c = p.compress;
  VERSIEVE_ASSERT(c.rows == 0 || (c.num_kv_heads == p.num_kv_heads && c.head_dim == p.head_dim &&
                                  c.k_tree == (c.rotate ? p.k_raw : p.k) && c.v_tree == p.v),
                  "compressed tokens are pooled from the rows that are written here");
  if (p.bias != nullptr || p.q_norm != nullptr) {
    launch_prepared(p, context);
    if (c.rows > 0) {
      launch_compress(c, context);
    }
    return;
  }
  const std::size_t shared_bytes = c.rows > 0 ? PoolMemory<T>::bytes(c) : 0;
  if (shared_bytes > kMostSharedBytes) {
    RopeAppendParams<T> rows = p;
    rows.compress = {};
    launch_rope_append(rows, context);
    launch_compress(c, context);
    return;
  }
  Traffic traffic = rope_append_traffic(p);
  if (c.rows > 0) {
    traffic += compress_traffic(c);
  }
  const LaunchRange range("rope", traffic, context.observer);
  launch_dependent({.grid = dim3(static_cast<unsigned>(p.n + c.rows * c.num_kv_heads)),
                    .threads = kThreads,
                    .shared_bytes = shared_bytes,
                    .stream = context.stream},
                   whole_units(p) ? rope_append_kernel<T, 8> : rope_append_kernel<T, 1>, p);
}

template void launch_rope_append<float>(const RopeAppendParams<float>&, const LaunchContext&);
template void launch_rope_append<Bf16>(const RopeAppendParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
