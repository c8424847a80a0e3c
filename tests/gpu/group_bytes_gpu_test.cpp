// Exact groups by the counters: from L2 to the SMs go as many fewer bytes as U(C, rho) says, and
// DRAM reads do not grow. N = 64, L = 64K + 48, nsa-1b, bf16, blocks of exactly the declared
// overlap.
//
// What else the launch copies (compressed cache, window, the tree's rows) does not depend on the
// groups, so the bytes that copies brought to the SMs are compared, C = 1 less C, with those of
// (N n - groups U) blocks. L2's own slices serve fewer: GPCs coalesce requests of neighbouring SMs
// for the same line, so that a part of what C = 1 asks for twice never gets there; shown beside.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <map>

#include "engine/measure/sweep/observe.h"
#include "engine/measure/sweep/synthetic_layer.h"
#include "kernels/common/bf16.h"
#include "model/launches/distinct_blocks.h"
#include "model/launches/launch_work.h"
#include "profiler/counter_access.h"
#include "profiler/gpu_timer.h"
#include "profiler/metric_group.h"
#include "profiler/range_counters.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kContext = 65536 + 48;  // the newest block is there in whole slices
constexpr std::int64_t kQueries = 64;
constexpr const char* kCopiedToSms = "l1tex__m_xbar2l1tex_read_bytes_pipe_tma.sum";
constexpr const char* kL2ReadsOfSms = "lts__t_sectors_srcunit_tex.sum";
constexpr double kSectorBytes = 32.0;

struct ReadBytes {
  double copied = 0.0;     // by the copy engines, from L2 into shared memory
  double l2_of_sms = 0.0;  // at the slices of L2, reads and writes
  double dram = 0.0;
  double group_blocks = 0.0;
};

class Bench {
 public:
  Bench()
      : ops_(kernels::make_cuda_ops<Bf16>(stream_.handle())),
        layer_(*ops_, named_llm_shape("nsa-1b"), kContext, kSets, 1),
        counters_({kCopiedToSms, kL2ReadsOfSms, kDramBytesRead}, 64) {
    layer_.set_tree(synthetic_tree({.depth = 6, .width = 8, .nodes = kQueries}));
  }

  // On a copy of the cache that was not used lately.
  ReadBytes of(std::int64_t group, double overlap) {
    layer_.set_overlap(overlap);
    layer_.set_variant({.group_size = group, .reuse = true});
    layer_.run(turn_++ % kSets);
    ReadBytes read{.group_blocks = layer_.measured_group_blocks()};
    CounterObserver observer(counters_, [this] { stream_.synchronize(); });
    ops_->set_observer(&observer);
    counters_.begin();
    layer_.run(turn_++ % kSets);
    ops_->set_observer(nullptr);
    observer.rethrow();
    for (const profiler::RangeSample& range : counters_.end()) {
      INFO("the fused form launches nsa_reuse alone in a reuse layer");
      REQUIRE(range.path == name_of(LaunchKind::kNsaReuse));
      for (const CounterValue& counter : range.counters) {
        REQUIRE(counter.value);
      }
      read.copied += *range.counters[0].value;
      read.l2_of_sms += kSectorBytes * *range.counters[1].value;
      read.dram += *range.counters[2].value;
    }
    return read;
  }

 private:
  static constexpr std::int64_t kSets = 4;

  profiler::GpuStream stream_;
  std::unique_ptr<kernels::Ops<Bf16>> ops_;
  SyntheticLayer<Bf16> layer_;
  profiler::RangeCounters counters_;
  std::int64_t turn_ = 0;
};

// Why nothing can be counted here, or an empty text.
std::string missing_because() {
  const std::string gpu = profiler::gpu_missing_because();
  if (!gpu.empty()) {
    return gpu;
  }
  const profiler::CounterAccess access = profiler::probe_counter_access();
  return access.ok() ? std::string() : access.sentence;
}

}  // namespace

TEST_CASE("exact groups save the bytes that U(C, rho) says") {
  if (const std::string missing = missing_because(); !missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return;
  }
  Bench bench;
  const double block = 64.0 * 2 * 8 * 64 * 2;  // B 2 G d e
  std::printf(
      "  rho C  U(C, rho)  measured  copied, MB   saved MB  by U, MB  ratio  at L2, saved MB  DRAM "
      "MB\n");
  for (const double overlap : {0.5, 0.8, 0.95}) {
    const ReadBytes alone = bench.of(1, overlap);
    for (const std::int64_t group : {2, 4, 8}) {
      const ReadBytes read = bench.of(group, overlap);
      const double saved = alone.copied - read.copied;
      const double groups = std::ceil(static_cast<double>(kQueries) / static_cast<double>(group));
      const double u = distinct_blocks(static_cast<double>(group), 16, 1025, overlap, 1.0);
      const double expected = (kQueries * 16.0 - groups * u) * block;
      std::printf("%5.2f %lld %10.2f %9.2f %11.2f %10.2f %9.2f %6.3f %15.2f %8.2f\n", overlap,
                  static_cast<long long>(group), u, read.group_blocks, read.copied * 1e-6,
                  saved * 1e-6, expected * 1e-6, saved / expected,
                  (alone.l2_of_sms - read.l2_of_sms) * 1e-6, read.dram * 1e-6);
      CHECK(read.group_blocks == Approx(u).epsilon(0.02));
      CHECK(saved == Approx(expected).epsilon(0.1));
      CHECK(read.dram <= 1.05 * alone.dram);
    }
  }
}
