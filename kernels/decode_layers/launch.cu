// decode_layers: all layers of one token in one persistent launch, a CTA an SM.
//
// A layer is a chain of meetings: joint projection, attention by parts, merge, output projection,
// MLP. As launches each of them drains the chip, starts anew and fetches its code; here CTAs stay,
// hand numbers on in packets (kernels/ptx/packets.cuh) and wait for nothing but the numbers they
// need, while each loading warp goes on streaming the weights that come next into its ring
// (load.cuh).
//
// Progress: all CTAs are resident at once (a grid of no more CTAs than SMs, one an SM), each works
// its stages off in the same order, and a stage waits for packets of earlier stages alone. Packets
// of a layer are overwritten two layers later, by CTAs that have seen what every reader made of
// them. Bits: those of linear, rope_append and nsa_verify of one node. Bound by the weights' bytes.
#include "kernels/common/cuda_check.h"
#include "kernels/common/lasting_memory.h"
#include "kernels/common/launch_range.h"
#include "kernels/decode_layers/attention.cuh"
#include "kernels/decode_layers/load.cuh"
#include "kernels/decode_layers/plan.cuh"
#include "kernels/decode_layers/stages.cuh"
#include "kernels/decode_layers/traffic.h"
#include "kernels/launch.h"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/global_memory.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "model/words/assert.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/lasting_memory.h"
#include "kernels/common/launch_range.h"
#include "kernels/decode_layers/attention.cuh"
#include "kernels/decode_layers/load.cuh"
#include "kernels/decode_layers/plan.cuh"
#include "kernels/decode_layers/stages.cuh"
#include "kernels/decode_layers/traffic.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kStageAlignment = 1024;

constexpr std::size_t kSharedBytes =
    kStageAlignment + kMostStages * kStageBytes + sizeof(DecodeShared);
static_assert(kSharedBytes <= 227 * 1024, "of a CTA on compute capability 9.0");

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
  if (at.own_compressed >= 0 && at.from < at.to && a.rotates_pooled) {
    turns_of_pooled<kD>(c);
  }
  unsigned epoch = load_relaxed(a.epoch);
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
    give_registers<kOtherRegisters>();
    const int warp = c.warp - kComputeWarps;
    if (warp == 0) {
      load_layers<kD>(c);
    } else if (warp == 1) {
      scale_layers(c);
    }
  } else {
    take_registers<kComputeRegisters>();
    compute_layers<kD>(c);
  }
}

}  // namespace

class DecodeWorkspace {
 public:
  void prepare(const DecodeLayersParams<Bf16>& p, cudaStream_t stream) {
    if (epoch_ == nullptr) {
      epoch_ = memory_.allocate<unsigned>(1, stream);
    }
    const std::size_t count = 2 * static_cast<std::size_t>(arguments_of(p).mail.half);
    if (count > packet_count_) {
      packets_ = memory_.allocate<uint2>(count, stream);
      packet_count_ = count;
    }
    const std::vector<DecodeTable> tables = tables_of(p);
    if (find(tables) == nullptr) {
      DecodeTable* const memory = memory_.allocate<DecodeTable>(tables.size(), stream);
      check(cudaMemcpyAsync(memory, tables.data(), tables.size() * sizeof(DecodeTable),
                            cudaMemcpyHostToDevice, stream));
      check(cudaStreamSynchronize(stream));
      tables_.emplace_back(tables, memory);
    }
  }
  void place(const DecodeLayersParams<Bf16>& p, DecodeArguments& a) const {
    a.table = find(tables_of(p));
    VERSIEVE_ASSERT(a.table != nullptr && packets_ != nullptr &&
                        2 * static_cast<std::size_t>(a.mail.half) <= packet_count_,
                    "a launch was prepared");
    a.packets = packets_;
    a.epoch = epoch_;
  }

 private:
  const DecodeTable* find(const std::vector<DecodeTable>& tables) const {
    for (const auto& [known, device] : tables_) {
      if (known.size() == tables.size() &&
          std::memcmp(known.data(), tables.data(), known.size() * sizeof(DecodeTable)) == 0) {
        return device;
      }
    }
    return nullptr;
  }

  LastingMemory memory_;
  std::vector<std::pair<std::vector<DecodeTable>, const DecodeTable*>> tables_;
  uint2* packets_ = nullptr;
  std::size_t packet_count_ = 0;
  unsigned* epoch_ = nullptr;
};

std::shared_ptr<DecodeWorkspace> make_decode_workspace() {
  return std::make_shared<DecodeWorkspace>();
}

bool decode_layers_takes(const DecodeLayersParams<Bf16>& p) {
  if (static_cast<std::int64_t>(p.layers.size()) != p.shape.layers) {
    return false;
  }
  // A reuse layer's CTAs still have the blocks of the layer that routed last.
  const std::int32_t* newest = nullptr;
  for (const DecodeLayer<Bf16>& layer : p.layers) {
    if (layer.indices_in == nullptr) {
      newest = layer.indices;
    } else if (layer.indices_in != newest) {
      return false;
    }
  }
  return decodes_in_one_launch(p.shape, p.context_len, multiprocessors());
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
                    .shared_bytes = kSharedBytes,
                    .stream = context.stream},
                   narrow ? decode_layers_kernel<64> : decode_layers_kernel<128>, a);
}

}  // namespace versieve::kernels
