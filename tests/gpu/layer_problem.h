// One layer's attention of nsa-1b in bf16 to be timed: a tree of N nodes over L committed tokens,
// and enough copies of the cache that calls find it cold, or one that they find warm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "kernels/launch.h"
#include "tests/gpu/blank_parts.h"
#include "tests/gpu/device.h"

namespace versieve::testing {

inline constexpr std::size_t kRotatedBytes = std::size_t{256} << 20;  // over three times the L2

// Sum of kernel times of XunhaoLai/native-sparse-attention-triton@9bea856, one layer of this
// geometry, warm caches, on one H200; us by (L, N).
inline const std::map<std::pair<int, int>, double> kTritonBusyUs = {
    {{4096, 4}, 132},  {{4096, 16}, 223},  {{4096, 64}, 331},   {{4096, 128}, 469},
    {{16384, 4}, 167}, {{16384, 16}, 346}, {{16384, 64}, 675},  {{16384, 128}, 1163},
    {{65536, 4}, 309}, {{65536, 16}, 786}, {{65536, 64}, 2029}, {{65536, 128}, 3870}};

inline std::vector<Bf16> random_bf16(std::size_t count, std::mt19937_64& rng, float scale = 1.0F) {
  std::vector<Bf16> values(count);
  std::uint64_t bits = rng();
  for (Bf16& value : values) {
    bits = bits * 6364136223846793005U + 1442695040888963407U;
    value = to_bf16(scale * static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) /
                    static_cast<float>(1 << 22));
  }
  return values;
}

class LayerProblem {
 public:
  // `calls`: launches of the layer in one timed graph.
  LayerProblem(std::int64_t context_len, std::int64_t nodes, bool rotate, int calls)
      : rng_(1), calls_(calls) {
    kernels::NsaVerifyParams<Bf16>& p = params;
    p.num_heads = 32;
    p.num_kv_heads = 8;
    p.head_dim = 64;
    p.context_len = context_len;
    p.num_queries = nodes;
    p.num_compressed = compressed_count(p.nsa, context_len);
    p.older_lists = p.older_blocks = true;  // as in all layers of a step but the first ones
    grow_tree();
    const std::size_t width = static_cast<std::size_t>(p.num_kv_heads * p.head_dim);
    const std::size_t bytes = 4 * static_cast<std::size_t>(context_len) * width;
    const std::size_t layers = rotate ? kRotatedBytes / bytes + 2 : 1;
    const std::vector<Bf16> k = random_bf16(static_cast<std::size_t>(context_len) * width, rng_);
    const std::size_t compressed = static_cast<std::size_t>(p.num_compressed) * width;
    for (std::size_t i = 0; i < std::min(layers, static_cast<std::size_t>(calls)); ++i) {
      layers_.push_back({DeviceArray<Bf16>(k), DeviceArray<Bf16>(k),
                         DeviceArray<Bf16>(random_bf16(compressed, rng_, 0.5F)),
                         DeviceArray<Bf16>(random_bf16(compressed, rng_))});
    }
    kernels::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~LayerProblem() { cudaStreamDestroy(stream_); }
  LayerProblem(const LayerProblem&) = delete;
  LayerProblem& operator=(const LayerProblem&) = delete;

  // Enqueues all calls.
  void call(kernels::NsaVerifyParams<Bf16> p, kernels::LaunchObserver* observer = nullptr) {
    kernels::LaunchContext context;
    context.stream = stream_;
    context.observer = observer;
    context.scratch = scratch_.data();
    context.scratch_bytes = kernels::nsa_verify_scratch_bytes(p);
    REQUIRE(context.scratch_bytes <= kScratchFloats * sizeof(float));
    context.counters = reinterpret_cast<unsigned*>(counters_.data());
    context.parts = blank_parts().data();
    for (int i = 0; i < calls_; ++i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i) % layers_.size()];
      p.k = layer.k.data();
      p.v = layer.v.data();
      p.k_cmp = layer.k_cmp.data();
      p.v_cmp = layer.v_cmp.data();
      kernels::launch_nsa_verify(p, context);
    }
  }

  // Median us a call, of a captured graph of all.
  double graph_us(const kernels::NsaVerifyParams<Bf16>& p) {
    call(p);  // modules loaded, attributes set
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    kernels::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    call(p);
    kernels::check(cudaStreamEndCapture(stream_, &graph));
    kernels::check(cudaGraphInstantiate(&executable, graph, 0));
    cudaEvent_t begin;
    cudaEvent_t end;
    kernels::check(cudaEventCreate(&begin));
    kernels::check(cudaEventCreate(&end));
    std::vector<double> samples;
    for (int i = 0; i < 9; ++i) {
      kernels::check(cudaEventRecord(begin, stream_));
      kernels::check(cudaGraphLaunch(executable, stream_));
      kernels::check(cudaEventRecord(end, stream_));
      kernels::check(cudaStreamSynchronize(stream_));
      float ms = 0.0F;
      kernels::check(cudaEventElapsedTime(&ms, begin, end));
      samples.push_back(1e3 * static_cast<double>(ms) / calls_);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  DeviceArray<std::int32_t>& keep(const std::vector<std::int32_t>& x) {
    return ints_.emplace_back(x);
  }
  std::mt19937_64& random() { return rng_; }
  cudaStream_t stream() const { return stream_; }

  kernels::NsaVerifyParams<Bf16> params;  // but for the caches, which take turns
  std::vector<std::int32_t> position;     // of the nodes

 private:
  static constexpr std::size_t kScratchFloats = std::size_t{64} << 20;

  struct Layer {  // its committed cache
    DeviceArray<Bf16> k, v, k_cmp, v_cmp;
  };

  void grow_tree() {
    kernels::NsaVerifyParams<Bf16>& p = params;
    std::vector<std::int32_t> parent = {-1};
    position = {static_cast<std::int32_t>(p.context_len)};
    std::vector<std::int32_t> owner;
    for (std::int32_t i = 0; i < p.num_queries; ++i) {
      if (i > 0) {
        parent.push_back((i - 1) / 2);
        position.push_back(position[static_cast<std::size_t>(parent.back())] + 1);
      }
      if ((position.back() + 1 - p.nsa.cmp_block) % p.nsa.cmp_stride == 0) {
        owner.push_back(i);
      }
    }
    p.num_tree_compressed = static_cast<std::int64_t>(owner.size());
    p.num_blocks = position.back() / p.nsa.sel_block + 1;
    const std::size_t rows = static_cast<std::size_t>(p.num_queries);
    p.q = keep(random_bf16(rows * 2048, rng_)).data();
    p.gates = keep(random_bf16(rows * 96, rng_)).data();
    p.k_tree = keep(random_bf16(rows * 512, rng_)).data();
    p.v_tree = p.k_tree;
    p.k_cmp_tree = keep(random_bf16((owner.size() + 1) * 512, rng_)).data();
    p.v_cmp_tree = p.k_cmp_tree;
    p.parent = keep(parent).data();
    p.position = keep(position).data();
    p.cmp_tree_owner = keep(owner).data();
    p.out = keep(std::vector<Bf16>(rows * 2048)).data();
    p.indices =
        keep(std::vector<std::int32_t>(rows * 8 * static_cast<std::size_t>(p.nsa.sel_count)))
            .data();
  }
  DeviceArray<Bf16>& keep(const std::vector<Bf16>& x) { return halves_.emplace_back(x); }

  std::mt19937_64 rng_;
  int calls_;
  std::vector<Layer> layers_;
  std::deque<DeviceArray<Bf16>> halves_;
  std::deque<DeviceArray<std::int32_t>> ints_;
  DeviceArray<float> scratch_{kScratchFloats};
  DeviceArray<std::int32_t> counters_{std::vector<std::int32_t>(kernels::kLaunchCounters)};
  cudaStream_t stream_ = nullptr;
};

}  // namespace versieve::testing
