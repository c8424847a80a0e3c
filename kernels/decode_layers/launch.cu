// decode_layers: all layers of one token in one persistent launch, a CTA an SM.
//
// A layer is a chain of meetings: joint projection, attention by parts, merge, output projection,
// MLP. As launches each of them drains the chip, starts anew and fetches its code; here CTAs stay,
// hand numbers on in packets (packets.cuh) and wait for nothing but the numbers they need, while
// each loading warp goes on streaming the weights that come next into its ring (load.cuh).
//
// Progress: all CTAs are resident at once (a grid of no more CTAs than SMs, one an SM), each works
// its stages off in the same order, and a stage waits for packets of earlier stages alone. Packets
// of a layer are overwritten two layers later, by CTAs that have seen what every reader made of
// them. Bits: those of linear, rope_append and nsa_verify of one node. Bound by the weights' bytes.
#include "kernels/decode_layers/launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/decode_layers/attention.cuh"
#include "kernels/decode_layers/load.cuh"
#include "kernels/decode_layers/traffic.h"
#include "model/assert.h"
#include "model/decode_layers.h"

namespace versieve::kernels {
namespace {

constexpr int kStageAlignment = 1024;

template <int kD>
constexpr std::size_t shared_bytes() {
  return kStageAlignment + kMostStages * kStageBytes + sizeof(DecodeShared);
}
static_assert(shared_bytes<64>() <= 227 * 1024);

// The sum of all squares of the stream, and the epoch that this launch ends with; one warp.
__device__ __forceinline__ void end_launch(const DecodeCta& c, unsigned epoch) {
  const DecodeArguments& a = c.a;
  const SquareSum total =
      received_squares(c.mail(a.layers - 1) + a.mail.squares[1], a.matrix[kDown].units, epoch);
  if (threadIdx.x == 0) {
    *a.out_squares = total;
    *a.epoch = epoch;
  }
}

// Cosines and sines of the compressed token that the node completes, as phi turns it.
template <int kD>
__device__ __forceinline__ void turns_of_pooled(const DecodeCta& c) {
  const DecodeArguments& a = c.a;
  const int i = static_cast<int>(threadIdx.x);
  if (i < kD / 2) {
    const double frequency = pow(a.theta, -2.0 * i / kD);
    const std::int64_t position = static_cast<std::int64_t>(a.block[0]) << a.stride_bits;
    double sine;
    double cosine;
    sincos(static_cast<double>(position) * frequency, &sine, &cosine);
    c.shared.pooled_turns[i] = static_cast<float>(cosine);
    c.shared.pooled_turns[64 + i] = static_cast<float>(sine);
  }
}

template <int kD>
__device__ __forceinline__ void compute_layers(const DecodeCta& c) {
  const DecodeArguments& a = c.a;
  wait_for_predecessors();
  const DecodePosition at(c);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kD / 2) {
    c.shared.cosine[thread] = __ldcg(a.cosine + thread);
    c.shared.sine[thread] = __ldcg(a.sine + thread);
  }
  if (at.own_compressed >= 0 && c.role == Role::kSpans && a.rotates_pooled) {
    turns_of_pooled<kD>(c);
  }
  unsigned epoch = load_epoch(a);
  StageCursor ring;
  int turn = 0;
#pragma unroll 1
  for (int layer = 0; layer < a.layers; ++layer) {
    const DecodeTable* const t = a.table + layer;
    ++epoch;
#pragma unroll 1
    for (int stage = 0; stage < kMatrices; ++stage) {
      matrix_stage(c, stage, layer, t, ring, epoch);
      if (stage == kJoint) {
        attention_stage<kD>(c, at, t, layer, ring, turn, epoch);
      }
    }
  }
  if (c.cta == 0 && thread < 32) {
    end_launch(c, epoch);
  }
}

template <int kD>
__global__ void __launch_bounds__(kDecodeThreads, 1)
    decode_layers_kernel(const __grid_constant__ DecodeArguments a) {
  extern __shared__ unsigned char unaligned[];
  unsigned char* const stages =
      unaligned + (kStageAlignment - shared_address(unaligned) % kStageAlignment) % kStageAlignment;
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(stages + kMostStages * kStageBytes);
  const DecodeCta c(a, shared, stages);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kMostStages; ++i) {
      barrier_init(c.full(i), 1);
      barrier_init(c.empty(i), kStageArrivals);
    }
    barrier_init(c.chosen_full_at, 1);
    barrier_init(c.scaled(0), 1);
    barrier_init(c.scaled(1), 1);
    shared.tile_count = 0;
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= kComputeThreads) {
    give_registers();
    const int warp = static_cast<int>(threadIdx.x) / 32 - kComputeWarps;
    if (warp == 0) {
      load_layers<kD>(c);
    } else if (warp == 1) {
      scale_layers(c);
    }
  } else {
    take_registers();
    compute_layers<kD>(c);
  }
}

int sm_count() {
  static const int count = [] {
    int device = 0;
    int sms = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    return sms;
  }();
  return count;
}

std::int64_t joint_rows(const LlmShape& s) {
  return s.q_width() + 2 * s.kv_width() + 3 * s.num_heads;
}

// Units of 64 rows and a slice of K; nothing if linear would take blocks of 128 rows.
DecodeMatrix matrix_of(std::int64_t k, std::int64_t rows, bool swiglu) {
  const LinearCut cut = linear_cut(k, rows, swiglu);
  DecodeMatrix m{};
  m.rows = static_cast<int>(rows);
  m.slice_bits = std::countr_zero(static_cast<unsigned>(cut.slices));
  m.k_tiles = static_cast<int>(k / kLinearTileK);
  const bool fits = (cut.groups == 2) == swiglu;
  m.units = fits ? static_cast<int>((rows + kMatrixRows - 1) / kMatrixRows) << m.slice_bits : 0;
  return m;
}

int max_compressed(const DecodeLayersParams<Bf16>& p) {
  return static_cast<int>(compressed_count(p.shape.nsa, p.context_len + 1));
}

DecodeArguments arguments_of(const DecodeLayersParams<Bf16>& p) {
  const LlmShape& s = p.shape;
  DecodeArguments a{};
  a.matrix[kJoint] = matrix_of(s.hidden, joint_rows(s), false);
  a.matrix[kOutput] = matrix_of(s.q_width(), s.hidden, false);
  a.matrix[kGateUp] = matrix_of(s.hidden, s.intermediate, true);
  a.matrix[kDown] = matrix_of(s.intermediate, s.hidden, false);
  a.ctas = sm_count();
  a.matrix[kJoint].first_cta = std::max(a.ctas - a.matrix[kJoint].units, 0);
  a.head_ctas = a.ctas / static_cast<int>(s.num_kv_heads);
  a.layers = static_cast<int>(s.layers);
  a.hidden = static_cast<int>(s.hidden);
  a.heads = static_cast<int>(s.num_heads);
  a.kv_heads = static_cast<int>(s.num_kv_heads);
  a.group_heads = a.heads / a.kv_heads;
  a.head_dim = static_cast<int>(s.head_dim);
  a.max_spans = std::max(span_count(max_compressed(p)), 1);
  a.max_slices = (max_compressed(p) + kSliceKeys - 1) / kSliceKeys + 1;
  a.cmp_block = static_cast<int>(s.nsa.cmp_block);
  a.stride_bits = std::countr_zero(static_cast<unsigned>(s.nsa.cmp_stride));
  a.block_bits = std::countr_zero(static_cast<unsigned>(s.nsa.sel_block));
  a.sel_count = static_cast<int>(s.nsa.sel_count);
  a.init_blocks = static_cast<int>(s.nsa.init_blocks);
  a.local_blocks = static_cast<int>(s.nsa.local_blocks);
  a.window = static_cast<int>(s.nsa.window);
  a.rotates_pooled = !p.layers.empty() && p.layers.front().k_raw != nullptr ? 1 : 0;
  a.theta = s.rope_theta;
  a.mean_unit = kSquareSumUnit / static_cast<double>(s.hidden);
  a.eps = static_cast<float>(s.norm_eps);
  a.counts = p.counts;
  a.context_len = static_cast<int>(p.context_len);
  a.tree_compressed = static_cast<int>(p.tree_compressed);
  a.source = p.source;
  a.block = p.block;
  a.cosine = p.cosine;
  a.sine = p.sine;
  a.hidden_rows = p.hidden;
  a.weighted = p.weighted;
  a.squares = p.squares;
  a.out_squares = p.out_squares;
  int packets = 0;
  const auto place = [&](std::int64_t count) {
    const int at = packets;
    packets += static_cast<int>((count + 15) / 16 * 16);  // lines of 128 bytes
    return at;
  };
  DecodeMail& mail = a.mail;
  mail.x[0] = place(s.hidden / 2);
  mail.x[1] = place(s.hidden / 2);
  mail.squares[0] = place(2 * a.matrix[kOutput].units);
  mail.squares[1] = place(2 * a.matrix[kDown].units);
  mail.stream[0] = place(s.hidden / 2);
  mail.stream[1] = place(s.hidden / 2);
  mail.joint = place(joint_rows(s) / 2);
  mail.attended = place(s.q_width() / 2);
  mail.mlp = place(s.intermediate / 2);
  for (int i = 0; i < kMatrices; ++i) {
    mail.partials[i] = place(
        a.matrix[i].slice_bits > 0 ? a.matrix[i].units * kMatrixRows * (i == kGateUp ? 2 : 1) : 0);
  }
  mail.weights = place(static_cast<std::int64_t>(a.heads) * a.max_slices * 6);
  const std::int64_t parts = static_cast<std::int64_t>(a.heads) * (kSegments + a.max_spans);
  mail.part_states = place(parts * 2);
  mail.part_outs = place(parts * s.head_dim);
  mail.half = packets;
  return a;
}

DecodeTable table_of(const DecodeLayersParams<Bf16>& p, const DecodeLayer<Bf16>& layer) {
  const LlmShape& s = p.shape;
  DecodeTable t{};
  t.joint = matrix_map(layer.joint, joint_rows(s), s.hidden, kMatrixRows);
  t.output = matrix_map(layer.output, s.hidden, s.q_width(), kMatrixRows);
  t.gate_up = matrix_map(layer.gate_up, 2 * s.intermediate, s.hidden, kMatrixRows);
  t.down = matrix_map(layer.down, s.hidden, s.intermediate, kMatrixRows);
  const auto cache = [&](const Bf16* rows, std::int64_t count) {
    return cache_map(rows != nullptr ? rows : layer.k, std::max<std::int64_t>(count, 1),
                     s.num_kv_heads, s.head_dim, kTileKeys);
  };
  t.k = cache(layer.k, p.cache_rows);
  t.v = cache(layer.v, p.cache_rows);
  t.k_cmp = cache(layer.k_cmp, p.compressed_rows);
  t.v_cmp = cache(layer.v_cmp, p.compressed_rows);
  t.post_norm = layer.post_norm;
  t.next_norm = layer.next_norm;
  t.compress_key = layer.compress_key;
  t.compress_value = layer.compress_value;
  t.intra_block_pe = layer.intra_block_pe;
  t.pooled_k = layer.k_raw != nullptr ? layer.k_raw : layer.k;
  t.pooled_v = layer.v;
  t.k_tree = layer.k_tree;
  t.v_tree = layer.v_tree;
  t.k_raw_tree = layer.k_raw_tree;
  t.k_cmp_tree = layer.k_cmp_tree;
  t.v_cmp_tree = layer.v_cmp_tree;
  t.indices = layer.indices;
  t.captured = layer.captured;
  t.routes = layer.indices_in == nullptr ? 1 : 0;
  return t;
}

std::vector<DecodeTable> tables_of(const DecodeLayersParams<Bf16>& p) {
  std::vector<DecodeTable> tables;
  for (const DecodeLayer<Bf16>& layer : p.layers) {
    tables.push_back(table_of(p, layer));
  }
  return tables;
}

}  // namespace

// Tables and packets are never moved or freed while a recording may name them.
class DecodeWorkspace {
 public:
  DecodeWorkspace() = default;
  DecodeWorkspace(const DecodeWorkspace&) = delete;
  DecodeWorkspace& operator=(const DecodeWorkspace&) = delete;
  ~DecodeWorkspace() {
    for (void* memory : memory_) {
      cudaFree(memory);
    }
  }

  void prepare(const DecodeLayersParams<Bf16>& p, cudaStream_t stream) {
    if (epoch_ == nullptr) {
      epoch_ = static_cast<unsigned*>(allocate(sizeof(unsigned), stream));
    }
    const std::size_t bytes =
        2 * sizeof(uint2) * static_cast<std::size_t>(arguments_of(p).mail.half);
    if (bytes > packet_bytes_) {
      packets_ = static_cast<uint2*>(allocate(bytes, stream));
      packet_bytes_ = bytes;
    }
    const std::vector<DecodeTable> tables = tables_of(p);
    if (find(tables) == nullptr) {
      const std::size_t size = tables.size() * sizeof(DecodeTable);
      void* const memory = allocate(size, stream);
      check(cudaMemcpyAsync(memory, tables.data(), size, cudaMemcpyHostToDevice, stream));
      check(cudaStreamSynchronize(stream));
      tables_.emplace_back(tables, static_cast<const DecodeTable*>(memory));
    }
  }
  void place(const DecodeLayersParams<Bf16>& p, DecodeArguments& a) const {
    a.table = find(tables_of(p));
    VERSIEVE_ASSERT(a.table != nullptr && packets_ != nullptr &&
                        2 * sizeof(uint2) * static_cast<std::size_t>(a.mail.half) <= packet_bytes_,
                    "a launch was prepared");
    a.packets = packets_;
    a.epoch = epoch_;
  }

 private:
  void* allocate(std::size_t bytes, cudaStream_t stream) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    memory_.push_back(memory);
    check(cudaMemsetAsync(memory, 0, bytes, stream));  // no epoch is 0
    return memory;
  }
  const DecodeTable* find(const std::vector<DecodeTable>& tables) const {
    for (const auto& [known, device] : tables_) {
      if (known.size() == tables.size() &&
          std::memcmp(known.data(), tables.data(), known.size() * sizeof(DecodeTable)) == 0) {
        return device;
      }
    }
    return nullptr;
  }

  std::vector<void*> memory_;
  std::vector<std::pair<std::vector<DecodeTable>, const DecodeTable*>> tables_;
  uint2* packets_ = nullptr;
  std::size_t packet_bytes_ = 0;
  unsigned* epoch_ = nullptr;
};

std::shared_ptr<DecodeWorkspace> make_decode_workspace() {
  return std::make_shared<DecodeWorkspace>();
}

static_assert(kMostDecodeHeads == kDecodeMostHeads && kMostDecodeChosen == kDecodeMostChosen &&
                  kMostDecodeSpans == kDecodeMostSpans && kTileKeys == kDecodeBlockTokens &&
                  kWorkBytes == kDecodeWorkBytes && kSegments == kDecodeSegments,
              "model/decode_layers.h says what a launch takes");

bool decode_layers_takes(const DecodeLayersParams<Bf16>& p) {
  return static_cast<std::int64_t>(p.layers.size()) == p.shape.layers &&
         decodes_in_one_launch(p.shape, p.context_len, sm_count()) &&
         p.layers.front().indices_in == nullptr;
}

void prepare_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                           const LaunchContext& context) {
  workspace.prepare(p, context.stream);
}

void launch_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                          const LaunchContext& context) {
  DecodeArguments a = arguments_of(p);
  workspace.place(p, a);
  const LaunchRange range("decode_layers", decode_layers_traffic(p), context.observer);
  const bool narrow = p.shape.head_dim == 64;
  launch_dependent({.grid = dim3(static_cast<unsigned>(a.ctas)),
                    .threads = kDecodeThreads,
                    .shared_bytes = shared_bytes<64>(),
                    .stream = context.stream},
                   narrow ? decode_layers_kernel<64> : decode_layers_kernel<128>, a);
}

}  // namespace versieve::kernels
