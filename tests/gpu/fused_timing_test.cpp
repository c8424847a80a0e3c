// How long the fused launches take against the vanilla ones: nsa-1b geometry in bf16, one layer,
// captured graphs of calls that rotate over layers (cold) or repeat one (warm). The overlap of
// neighbouring queries' blocks is imposed. Prints a table and checks what holds today at N >= 16 in
// every cell: both under the vanilla form and at least 2.5 times under the public path's GPU-busy
// time (the goal is 10 and 20 times; README.md of kernels/nsa_verify).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <string>

#include "kernels/nsa_verify/launch.h"
#include "tests/gpu/device.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr int kCalls = 24;
constexpr std::size_t kRotatedBytes = std::size_t{256} << 20;  // over three times the L2

std::vector<Bf16> random_bf16(std::size_t count, std::mt19937_64& rng, float scale = 1.0F) {
  std::vector<Bf16> values(count);
  std::uint64_t bits = rng();
  for (Bf16& value : values) {
    bits = bits * 6364136223846793005U + 1442695040888963407U;
    value = to_bf16(scale * static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) /
                    static_cast<float>(1 << 22));
  }
  return values;
}

// n blocks a query and KV head: the forced ones, and others of which a share `overlap` is kept from
// one query to the next.
std::vector<std::int32_t> overlapping_blocks(std::int64_t queries, std::int64_t kv_heads,
                                             std::int64_t n, std::int64_t blocks, double overlap,
                                             std::mt19937_64& rng) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(queries * kv_heads * n), -1);
  for (std::int64_t g = 0; g < kv_heads; ++g) {
    std::vector<std::int32_t> kept;
    for (std::int64_t i = 0; i < queries; ++i) {
      std::vector<std::int32_t> row = {0, static_cast<std::int32_t>(blocks - 2),
                                       static_cast<std::int32_t>(blocks - 1)};
      for (const std::int32_t block : kept) {
        if (std::generate_canonical<double, 53>(rng) < overlap) {
          row.push_back(block);
        }
      }
      while (static_cast<std::int64_t>(row.size()) < std::min(n, blocks)) {
        const std::int32_t block =
            static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(blocks));
        if (std::find(row.begin(), row.end(), block) == row.end()) {
          row.push_back(block);
        }
      }
      kept.assign(row.begin() + 3, row.end());
      std::sort(row.begin(), row.end());
      std::copy(row.begin(), row.end(), out.begin() + (i * kv_heads + g) * n);
    }
  }
  return out;
}

struct Layer {
  DeviceArray<Bf16> k, v, k_cmp, v_cmp;
};

class FusedProblem {
 public:
  FusedProblem(std::int64_t context_len, std::int64_t nodes, bool rotate) : rng_(1) {
    kernels::NsaVerifyParams<Bf16>& p = params;
    p.num_heads = 32;
    p.num_kv_heads = 8;
    p.head_dim = 64;
    p.context_len = context_len;
    p.num_queries = nodes;
    p.num_compressed = compressed_count(p.nsa, context_len);
    grow_tree();
    const std::size_t width = static_cast<std::size_t>(p.num_kv_heads * p.head_dim);
    const std::size_t bytes = 4 * static_cast<std::size_t>(context_len) * width;
    const std::size_t layers = rotate ? kRotatedBytes / bytes + 2 : 1;
    const std::vector<Bf16> k = random_bf16(static_cast<std::size_t>(context_len) * width, rng_);
    for (std::size_t i = 0; i < std::min<std::size_t>(layers, kCalls); ++i) {
      layers_.push_back({DeviceArray<Bf16>(k), DeviceArray<Bf16>(k),
                         DeviceArray<Bf16>(random_bf16(
                             static_cast<std::size_t>(p.num_compressed) * width, rng_, 0.5F)),
                         DeviceArray<Bf16>(random_bf16(
                             static_cast<std::size_t>(p.num_compressed) * width, rng_))});
    }
    scratch_ = &floats_.emplace_back(std::size_t{64} << 20);
    counters_ = &ints_.emplace_back(std::vector<std::int32_t>(kernels::kLaunchCounters));
    kernels::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~FusedProblem() { cudaStreamDestroy(stream_); }

  const std::int32_t* blocks(double overlap) {
    return keep(overlapping_blocks(params.num_queries, 8, 16, params.num_blocks, overlap, rng_))
        .data();
  }

  // Median us a call.
  double time(const kernels::NsaVerifyParams<Bf16>& p) {
    calls(p);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    kernels::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    calls(p);
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
      samples.push_back(1e3 * static_cast<double>(ms) / kCalls);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  kernels::NsaVerifyParams<Bf16> params;

 private:
  void grow_tree() {
    kernels::NsaVerifyParams<Bf16>& p = params;
    std::vector<std::int32_t> parent = {-1};
    std::vector<std::int32_t> position = {static_cast<std::int32_t>(p.context_len)};
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
    p.indices = keep(std::vector<std::int32_t>(rows * 8 * 16)).data();
  }
  DeviceArray<Bf16>& keep(const std::vector<Bf16>& x) { return halves_.emplace_back(x); }
  DeviceArray<std::int32_t>& keep(const std::vector<std::int32_t>& x) {
    return ints_.emplace_back(x);
  }

  void calls(kernels::NsaVerifyParams<Bf16> p) {
    kernels::LaunchContext context;
    context.stream = stream_;
    context.scratch = scratch_->data();
    context.scratch_bytes = kernels::nsa_verify_scratch_bytes(p);
    REQUIRE(context.scratch_bytes <= std::size_t{256} << 20);
    context.counters = reinterpret_cast<unsigned*>(counters_->data());
    for (int i = 0; i < kCalls; ++i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i) % layers_.size()];
      p.k = layer.k.data();
      p.v = layer.v.data();
      p.k_cmp = layer.k_cmp.data();
      p.v_cmp = layer.v_cmp.data();
      kernels::launch_nsa_verify(p, context);
    }
  }

  std::mt19937_64 rng_;
  std::vector<Layer> layers_;
  std::deque<DeviceArray<Bf16>> halves_;
  std::deque<DeviceArray<float>> floats_;
  std::deque<DeviceArray<std::int32_t>> ints_;
  DeviceArray<float>* scratch_ = nullptr;
  DeviceArray<std::int32_t>* counters_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// As in attention_timing_test.cpp.
const std::map<std::pair<int, int>, double> kTritonBusyUs = {
    {{4096, 4}, 132},  {{4096, 16}, 223},  {{4096, 64}, 331},   {{4096, 128}, 469},
    {{16384, 4}, 167}, {{16384, 16}, 346}, {{16384, 64}, 675},  {{16384, 128}, 1163},
    {{65536, 4}, 309}, {{65536, 16}, 786}, {{65536, 64}, 2029}, {{65536, 128}, 3870}};

// VERSIEVE_TIMING_CELL=65536:64 keeps to one cell.
bool wanted(int context, int nodes) {
  const char* cell = std::getenv("VERSIEVE_TIMING_CELL");
  return cell == nullptr || std::to_string(context) + ":" + std::to_string(nodes) == cell;
}

}  // namespace

TEST_CASE("fused layers keep their distance to the public operators", "[timing]") {
  if (no_gpu()) {
    return;
  }
  std::printf("us per call (graph of %d calls); nsa-1b, bf16. Refresh and reuse by group size.\n",
              kCalls);
  std::printf(
      "     L    N  cache  rho  vanilla | refresh c1     c4     c8 |  reuse c1     c4     c8 | "
      "triton\n");
  for (const int context : {4096, 16384, 65536}) {
    for (const int nodes : {1, 4, 16, 64, 128}) {
      if (!wanted(context, nodes)) {
        continue;
      }
      for (const bool rotate : {false, true}) {
        FusedProblem problem(context, nodes, rotate);
        kernels::NsaVerifyParams<Bf16> vanilla = problem.params;
        vanilla.form = kernels::NsaForm::kVanilla;
        const double vanilla_us = problem.time(vanilla);
        for (const double overlap : {0.2, 0.8, 0.95}) {
          if (nodes == 1 && overlap != 0.8) {
            continue;
          }
          const std::int32_t* blocks = problem.blocks(overlap);
          double us[2][3];
          int at = 0;
          for (const std::int64_t group : {1, 4, 8}) {
            kernels::NsaVerifyParams<Bf16> p = problem.params;
            p.group_size = group;
            p.imposed_indices = blocks;
            us[0][at] = problem.time(p);
            p.imposed_indices = nullptr;
            p.indices_in = blocks;
            us[1][at++] = problem.time(p);
          }
          const auto peer = kTritonBusyUs.find({context, nodes});
          std::printf("%6d %4d  %-5s %.2f %8.1f | %10.1f %6.1f %6.1f | %9.1f %6.1f %6.1f | %6.0f\n",
                      context, nodes, rotate ? "cold" : "warm", overlap, vanilla_us, us[0][0],
                      us[0][1], us[0][2], us[1][0], us[1][1], us[1][2],
                      peer == kTritonBusyUs.end() ? 0.0 : peer->second);
          if (nodes >= 16) {
            constexpr double kBars[2] = {5.0, 7.0};  // refresh and reuse, under the public path
            for (int form = 0; form < 2; ++form) {
              const double best = *std::min_element(us[form], us[form] + 3);
              CHECK(best < vanilla_us);
              CHECK(kBars[form] * best < peer->second);
            }
          }
        }
      }
    }
  }
}
