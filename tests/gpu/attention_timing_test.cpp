// How long each vanilla launch takes: nsa-1b geometry in bf16, L in {4K, 16K, 64K} and N in {1, 4,
// 16, 64, 128}, with warm and with rotated (cold) caches. Prints a table and checks the bar: less
// time than the public Triton decode operators took on an H200 with warm caches.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/gpu/layer_problem.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr int kCalls = 20;  // 300 stream operations: the launch queue must hold them all

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

void wait_for(void* flag) {
  while (!*static_cast<std::atomic<bool>*>(flag)) {
    std::this_thread::yield();
  }
}

Timing time_vanilla(int context, int nodes, bool rotate) {
  LayerProblem problem(context, nodes, rotate, kCalls);
  problem.params.form = kernels::NsaForm::kVanilla;
  Timing timing{.call_us = problem.graph_us(problem.params)};
  EventObserver observer(problem.stream());
  {
    // The stream waits until all is enqueued, so that no gap of the host shows.
    std::atomic<bool> go = false;
    kernels::check(cudaLaunchHostFunc(problem.stream(), &wait_for, &go));
    problem.call(problem.params, &observer);
    go = true;
    kernels::check(cudaStreamSynchronize(problem.stream()));
  }
  timing.launch_us = observer.medians_us();
  return timing;
}

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

TEST_CASE("a vanilla layer takes less time than the public Triton operators", "[timing]") {
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
      const Timing warm = time_vanilla(context, nodes, false);
      print_row(context, nodes, "warm", warm, peer_us);
      print_row(context, nodes, "cold", time_vanilla(context, nodes, true), 0.0);
      if (peer_us > 0.0) {
        CHECK(warm.call_us < peer_us);
      }
    }
  }
}
