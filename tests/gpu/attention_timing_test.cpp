// How long each vanilla launch takes: nsa-1b geometry in bf16, L in {4K, 16K, 64K} and N in {1, 4,
// 16, 64, 128}, with warm and with rotated (cold) caches. Prints a table and checks the bar: less
// time than the public Triton decode operators took on an H200 with warm caches.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>

#include <cstdio>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "kernels/nsa_verify/launch.h"
#include "tests/gpu/device.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr int kCalls = 20;  // 300 stream operations: the launch queue must hold them all
constexpr std::size_t kRotatedBytes = std::size_t{256} << 20;  // over three times the L2

struct Timing {
  std::map<std::string, double> launch_us;  // median by launch
  double call_us = 0.0;                     // of a captured graph of kCalls calls, per call
};

// Records an event on either side of each launch.
class EventObserver : public kernels::LaunchObserver {
 public:
  explicit EventObserver(cudaStream_t stream) : stream_(stream) {}
  ~EventObserver() override {
    for (const Record& record : records_) {
      cudaEventDestroy(record.begin);
      cudaEventDestroy(record.end);
    }
  }
  void launch_begins(const char* name, const Traffic&) override {
    Record record{name, nullptr, nullptr};
    kernels::check(cudaEventCreate(&record.begin));
    kernels::check(cudaEventCreate(&record.end));
    kernels::check(cudaEventRecord(record.begin, stream_));
    records_.push_back(record);
  }
  void launch_ends(const char*) override {
    kernels::check(cudaEventRecord(records_.back().end, stream_));
  }
  std::map<std::string, double> medians_us() const {
    std::map<std::string, std::vector<double>> samples;
    for (const Record& record : records_) {
      float ms = 0.0F;
      kernels::check(cudaEventElapsedTime(&ms, record.begin, record.end));
      samples[record.name].push_back(1e3 * static_cast<double>(ms));
    }
    std::map<std::string, double> medians;
    for (auto& [name, values] : samples) {
      std::sort(values.begin(), values.end());
      medians[name] = values[values.size() / 2];
    }
    return medians;
  }

 private:
  struct Record {
    std::string name;
    cudaEvent_t begin;
    cudaEvent_t end;
  };
  cudaStream_t stream_;
  std::vector<Record> records_;
};

std::vector<Bf16> random_bf16(std::size_t count, std::mt19937_64& rng) {
  std::vector<Bf16> values(count);
  std::uint64_t bits = rng();
  for (Bf16& value : values) {
    bits = bits * 6364136223846793005U + 1442695040888963407U;
    value = to_bf16(static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) /
                    static_cast<float>(1 << 22));
  }
  return values;
}

// One layer's committed cache.
struct Layer {
  DeviceArray<Bf16> k, v, k_cmp, v_cmp;
};

// A random tree of N nodes over L tokens, and enough layers to rotate over.
class Problem {
 public:
  Problem(std::int64_t context_len, std::int64_t nodes, bool rotate) : rng_(1) {
    kernels::NsaVerifyParams<Bf16>& p = params_;
    p.form = kernels::NsaForm::kVanilla;
    p.num_heads = 32;
    p.num_kv_heads = 8;
    p.head_dim = 64;
    p.context_len = context_len;
    p.num_queries = nodes;
    p.num_compressed = compressed_count(p.nsa, context_len);
    grow_tree();
    const std::size_t width = static_cast<std::size_t>(p.num_kv_heads * p.head_dim);
    const std::size_t kv_bytes = 4 * static_cast<std::size_t>(context_len) * width;
    const std::size_t layers = rotate ? kRotatedBytes / kv_bytes + 2 : 1;
    const std::vector<Bf16> k = random_bf16(static_cast<std::size_t>(context_len) * width, rng_);
    const std::vector<Bf16> k_cmp =
        random_bf16(static_cast<std::size_t>(p.num_compressed) * width, rng_);
    for (std::size_t i = 0; i < layers; ++i) {
      layers_.push_back({DeviceArray<Bf16>(k), DeviceArray<Bf16>(k), DeviceArray<Bf16>(k_cmp),
                         DeviceArray<Bf16>(k_cmp)});
    }
    scratch_bytes_ = kernels::nsa_verify_scratch_bytes(p);
    scratch_ = &keep(std::vector<float>(scratch_bytes_ / 4));
    kernels::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Problem() { cudaStreamDestroy(stream_); }

  Timing time() {
    Timing timing;
    calls(nullptr);  // warm up: modules loaded, attributes set
    EventObserver observer(stream_);
    {
      // The stream waits until all is enqueued, so that no gap of the host shows.
      std::atomic<bool> go = false;
      kernels::check(cudaLaunchHostFunc(stream_, &wait_for, &go));
      calls(&observer);
      go = true;
      kernels::check(cudaStreamSynchronize(stream_));
    }
    timing.launch_us = observer.medians_us();
    timing.call_us = graph_us();
    return timing;
  }

 private:
  static void wait_for(void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::yield();
    }
  }

  void grow_tree() {
    kernels::NsaVerifyParams<Bf16>& p = params_;
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
    p.indices =
        keep(std::vector<std::int32_t>(rows * 8 * static_cast<std::size_t>(p.nsa.sel_count)))
            .data();
  }

  DeviceArray<Bf16>& keep(const std::vector<Bf16>& x) { return halves_.emplace_back(x); }
  DeviceArray<float>& keep(const std::vector<float>& x) { return floats_.emplace_back(x); }
  DeviceArray<std::int32_t>& keep(const std::vector<std::int32_t>& x) {
    return ints_.emplace_back(x);
  }

  void calls(kernels::LaunchObserver* observer) {
    kernels::LaunchContext context;
    context.stream = stream_;
    context.observer = observer;
    context.scratch = scratch_->data();
    context.scratch_bytes = scratch_bytes_;
    for (int i = 0; i < kCalls; ++i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i) % layers_.size()];
      kernels::NsaVerifyParams<Bf16> p = params_;
      p.k = layer.k.data();
      p.v = layer.v.data();
      p.k_cmp = layer.k_cmp.data();
      p.v_cmp = layer.v_cmp.data();
      kernels::launch_nsa_verify(p, context);
    }
  }

  double graph_us() {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    kernels::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    calls(nullptr);
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

  std::mt19937_64 rng_;
  kernels::NsaVerifyParams<Bf16> params_;
  std::vector<Layer> layers_;
  std::deque<DeviceArray<Bf16>> halves_;
  std::deque<DeviceArray<float>> floats_;
  std::deque<DeviceArray<std::int32_t>> ints_;
  const DeviceArray<float>* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

// Sum of kernel times of XunhaoLai/native-sparse-attention-triton@9bea856, one layer of this
// geometry, warm caches, on one H200; us by (L, N).
const std::map<std::pair<int, int>, double> kTritonBusyUs = {
    {{4096, 4}, 132},  {{4096, 16}, 223},  {{4096, 64}, 331},   {{4096, 128}, 469},
    {{16384, 4}, 167}, {{16384, 16}, 346}, {{16384, 64}, 675},  {{16384, 128}, 1163},
    {{65536, 4}, 309}, {{65536, 16}, 786}, {{65536, 64}, 2029}, {{65536, 128}, 3870}};

void print_row(int context, int nodes, const char* cache, const Timing& timing, double peer) {
  std::printf("%6d %4d  %-5s", context, nodes, cache);
  for (const char* name :
       {"nsa_compressed", "nsa_select", "nsa_selected", "nsa_window", "nsa_combine"}) {
    std::printf(" %10.1f", timing.launch_us.at(name));
  }
  std::printf(" %10.1f", timing.call_us);
  peer > 0.0 ? std::printf(" %8.0f\n", peer) : std::printf("\n");
}

}  // namespace

TEST_CASE("a vanilla layer takes less time than the public Triton operators") {
  if (no_gpu()) {
    return;
  }
  std::printf("us per launch (median of %d, events) and per call (graph); nsa-1b, bf16\n", kCalls);
  std::printf(
      "     L    N  cache compressed     select   selected     window    combine       "
      "call   triton\n");
  for (const int context : {4096, 16384, 65536}) {
    for (const int nodes : {1, 4, 16, 64, 128}) {
      const auto peer = kTritonBusyUs.find({context, nodes});
      const double peer_us = peer == kTritonBusyUs.end() ? 0.0 : peer->second;
      const Timing warm = Problem(context, nodes, false).time();
      print_row(context, nodes, "warm", warm, peer_us);
      print_row(context, nodes, "cold", Problem(context, nodes, true).time(), 0.0);
      if (peer_us > 0.0) {
        CHECK(warm.call_us < peer_us);
      }
    }
  }
}
