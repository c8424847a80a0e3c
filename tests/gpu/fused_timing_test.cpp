// How long the fused launches take against the vanilla ones: nsa-1b geometry in bf16, one layer,
// captured graphs of calls that rotate over layers (cold) or repeat one (warm). The overlap of
// neighbouring queries' blocks is imposed, as `versieve bench verify` imposes it. Prints a table
// and checks at N >= 16 in every cell: under the vanilla form; the best variant 10 (refresh) and 20
// times (reuse) under the public path's GPU-busy time, the goal; exact groups 10 and 15 times
// (README.md of kernels/nsa_verify).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "engine/measure/sweep/imposed_blocks.h"
#include "engine/measure/sweep/synthetic_random.h"
#include "tests/gpu/layer_problem.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr int kCalls = 24;

// The blocks that each query and KV head chose: neighbours share n `overlap` of them.
std::vector<std::int32_t> blocks_of(const LayerProblem& problem, double overlap) {
  const kernels::NsaVerifyParams<Bf16>& p = problem.params;
  std::vector<std::int32_t> own;
  for (const std::int32_t position : problem.position) {
    own.push_back(position / static_cast<std::int32_t>(p.nsa.sel_block));
  }
  engine::SyntheticRandom random(1);
  return engine::imposed_blocks(p.nsa, p.num_kv_heads, own, overlap, random);
}

// What is timed: exact groups, then queries that take their representative's blocks.
struct Variant {
  const char* name;
  std::int64_t group;
  GroupMode mode;
};
constexpr Variant kVariants[] = {{"c1", 1, GroupMode::kExact},
                                 {"c4e", 4, GroupMode::kExact},
                                 {"c8e", 8, GroupMode::kExact},
                                 {"c8a", 8, GroupMode::kApprox}};
constexpr std::size_t kExact = 3;  // the first of them

// VERSIEVE_TIMING_CELL=65536:64 keeps to one cell.
bool wanted(int context, int nodes) {
  const char* cell = std::getenv("VERSIEVE_TIMING_CELL");
  return cell == nullptr || std::to_string(context) + ":" + std::to_string(nodes) == cell;
}

// Refresh and reuse against the public path's time, from 16 nodes on.
constexpr double kGoals[2] = {10.0, 20.0};
constexpr double kExactBars[2] = {10.0, 15.0};  // what exact groups hold today

struct Cell {
  int context, nodes;
  bool rotate;
  double overlap, vanilla_us;
  double us[2][std::size(kVariants)];  // refresh, reuse

  double best(int form, std::size_t variants) const {
    return *std::min_element(us[form], us[form] + variants);
  }
};

void time_cell(LayerProblem& problem, Cell& cell) {
  const std::vector<std::int32_t> own = blocks_of(problem, cell.overlap);
  std::vector<std::int32_t> shared = own;
  engine::share_in_groups(problem.position, 8, shared);
  const std::int32_t* const exact = problem.keep(own).data();
  const std::int32_t* const approx = problem.keep(shared).data();
  for (std::size_t i = 0; i < std::size(kVariants); ++i) {
    kernels::NsaVerifyParams<Bf16> p = problem.params;
    p.group_size = kVariants[i].group;
    p.group_mode = kVariants[i].mode;
    const std::int32_t* const blocks = p.group_mode == GroupMode::kExact ? exact : approx;
    p.imposed_indices = blocks;
    cell.us[0][i] = problem.graph_us(p);
    p.imposed_indices = nullptr;
    p.indices_in = blocks;
    cell.us[1][i] = problem.graph_us(p);
  }
}

void print_head() {
  std::printf("us per call (graph of %d calls); nsa-1b, bf16. Refresh and reuse.\n", kCalls);
  std::printf("     L    N  cache  rho  vanilla");
  for (int form = 0; form < 2; ++form) {
    std::printf(" |");
    for (const Variant& variant : kVariants) {
      std::printf(" %6s", variant.name);
    }
  }
  std::printf(" | triton\n");
}

void print_cell(const Cell& cell, double peer) {
  std::printf("%6d %4d  %-5s %.2f %8.1f", cell.context, cell.nodes, cell.rotate ? "cold" : "warm",
              cell.overlap, cell.vanilla_us);
  for (const auto& form : cell.us) {
    std::printf(" |");
    for (const double us : form) {
      std::printf(" %6.1f", us);
    }
  }
  std::printf(" | %6.0f\n", peer);
}

}  // namespace

TEST_CASE("fused layers keep their distance to the public operators", "[timing]") {
  if (no_gpu()) {
    return;
  }
  print_head();
  for (const int context : {4096, 16384, 65536}) {
    for (const int nodes : {1, 4, 16, 64, 128}) {
      if (!wanted(context, nodes)) {
        continue;
      }
      const auto found = kTritonBusyUs.find({context, nodes});
      const double peer = found == kTritonBusyUs.end() ? 0.0 : found->second;
      for (const bool rotate : {false, true}) {
        LayerProblem problem(context, nodes, rotate, kCalls);
        kernels::NsaVerifyParams<Bf16> vanilla = problem.params;
        vanilla.form = kernels::NsaForm::kVanilla;
        const double vanilla_us = problem.graph_us(vanilla);
        for (const double overlap : {0.2, 0.5, 0.8, 0.95}) {
          if (nodes == 1 && overlap != 0.8) {
            continue;
          }
          Cell cell{context, nodes, rotate, overlap, vanilla_us, {}};
          time_cell(problem, cell);
          print_cell(cell, peer);
          for (int form = 0; form < 2 && nodes >= 16; ++form) {
            CHECK(cell.best(form, kExact) < vanilla_us);
            CHECK(kExactBars[form] * cell.best(form, kExact) < peer);
            CHECK(kGoals[form] * cell.best(form, std::size(kVariants)) < peer);
          }
        }
      }
    }
  }
}
