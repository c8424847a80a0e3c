// How long the fused launches take against the vanilla ones: nsa-1b geometry in bf16, one layer,
// captured graphs of calls that rotate over layers (cold) or repeat one (warm). The overlap of
// neighbouring queries' blocks is imposed. Prints a table and checks what holds today at N >= 16 in
// every cell: both under the vanilla form and 8 (refresh) and 15 times (reuse) under the
// public path's GPU-busy time (the goal is 10 and 20 times; README.md of kernels/nsa_verify).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/gpu/layer_problem.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr int kCalls = 24;

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
        LayerProblem problem(context, nodes, rotate, kCalls);
        kernels::NsaVerifyParams<Bf16> vanilla = problem.params;
        vanilla.form = kernels::NsaForm::kVanilla;
        const double vanilla_us = problem.graph_us(vanilla);
        for (const double overlap : {0.2, 0.5, 0.8, 0.95}) {
          if (nodes == 1 && overlap != 0.8) {
            continue;
          }
          const std::int32_t* blocks =
              problem
                  .keep(overlapping_blocks(nodes, 8, 16, problem.params.num_blocks, overlap,
                                           problem.random()))
                  .data();
          double us[2][3];
          int at = 0;
          for (const std::int64_t group : {1, 4, 8}) {
            kernels::NsaVerifyParams<Bf16> p = problem.params;
            p.group_size = group;
            p.imposed_indices = blocks;
            us[0][at] = problem.graph_us(p);
            p.imposed_indices = nullptr;
            p.indices_in = blocks;
            us[1][at++] = problem.graph_us(p);
          }
          const auto peer = kTritonBusyUs.find({context, nodes});
          std::printf("%6d %4d  %-5s %.2f %8.1f | %10.1f %6.1f %6.1f | %9.1f %6.1f %6.1f | %6.0f\n",
                      context, nodes, rotate ? "cold" : "warm", overlap, vanilla_us, us[0][0],
                      us[0][1], us[0][2], us[1][0], us[1][1], us[1][2],
                      peer == kTritonBusyUs.end() ? 0.0 : peer->second);
          if (nodes >= 16) {
            constexpr double kBars[2] = {8.0, 15.0};  // refresh and reuse, under the public path
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
