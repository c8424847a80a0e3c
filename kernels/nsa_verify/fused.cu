#include "kernels/nsa_verify/fused.h"

#include <algorithm>
#include <optional>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/nsa_verify/fused_kernels.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

TileMaps tile_maps(const NsaVerifyParams<Bf16>& p) {
  // A cache without rows is never read.
  const auto map = [&](const Bf16* cache, std::int64_t rows) {
    return cache_map(cache != nullptr ? cache : p.q, std::max<std::int64_t>(rows, 1),
                     p.num_kv_heads, p.head_dim, kTileKeys);
  };
  const std::int64_t tokens = p.pages.rows(p.context_len);
  const std::int64_t compressed = p.compressed_pages.rows(compressed_count(p.nsa, p.context_len));
  const std::int64_t nodes = p.num_queries;
  const std::int64_t tree_compressed = p.num_tree_compressed;
  return {{{map(p.k, tokens), map(p.v, tokens), map(p.k_tree, nodes), map(p.v_tree, nodes)},
           {map(p.k_cmp, compressed), map(p.v_cmp, compressed), map(p.k_cmp_tree, tree_compressed),
            map(p.v_cmp_tree, tree_compressed)}}};
}

DependentGrid grid_of(const FusedArguments& a, const LaunchContext& context) {
  return {.grid = dim3(static_cast<unsigned>(a.blocks)),
          .threads = static_cast<unsigned>(a.nodes == 1 ? kCtaWarps * 32 : kTreeThreads),
          .shared_bytes = static_cast<std::size_t>(a.cut.shared_bytes),
          .stream = context.stream};
}

void enqueue(FusedLaunch launch, const NsaVerifyParams<Bf16>& p, const FusedCut& cut,
             const FusedArguments& arguments, const TileMaps& maps, const LaunchContext& context) {
  FusedOne call{.arguments = arguments, .maps = maps};
  FusedArguments& a = call.arguments;
  complete(p, cut, a);
  if (launch == FusedLaunch::kAttend) {  // counts while nsa_route still does
    a.counters += kLaunchCounters / 2;
  }
  const bool announced = cut.announced && context.parts != nullptr;
  if (announced) {
    place_announced(context.parts, launch == FusedLaunch::kReuse, a);
  }
  launch_dependent(grid_of(a, context), kernel_of<FusedOne>(launch, p, cut, announced), call);
}

}  // namespace

bool fused_takes(const NsaVerifyParams<Bf16>& p) {
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  const std::int64_t per_block = p.nsa.sel_block / p.nsa.cmp_stride;
  const std::int64_t overlaps = p.nsa.cmp_block / p.nsa.cmp_stride;
  const auto power_of_two = [](std::int64_t x) { return (x & (x - 1)) == 0; };
  if (p.head_dim % 16 != 0 || p.head_dim > 128 || group_heads > kTileRows ||
      !power_of_two(p.nsa.cmp_stride) || !power_of_two(p.nsa.sel_block) ||
      p.context_len > (1 << 20) || p.nsa.cmp_block > (1 << 20) ||
      p.num_queries > kMaxFusedQueries || p.nsa.sel_block % kSliceKeys != 0 ||
      p.nsa.sel_block > 4096 || p.nsa.sel_count > 1024 || p.nsa.window > (1 << 22) ||
      overlaps - 1 > per_block || call_of(p).max_compressed() > (1 << 20) ||
      p.num_queries * p.num_kv_heads * 4 > kLaunchCounters ||
      layout_of(p).bytes > kMaxScratchBytes) {
    return false;
  }
  if (p.indices_in != nullptr) {
    return cut_fused(call_of(p), FusedLaunch::kReuse).has_value();
  }
  return cut_fused(call_of(p), FusedLaunch::kRoute).has_value() &&
         cut_fused(call_of(p), FusedLaunch::kAttend).has_value();
}

std::size_t fused_scratch_bytes(const NsaVerifyParams<Bf16>& p) {
  return layout_of(p).bytes;
}

void launch_fused(const NsaVerifyParams<Bf16>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= layout_of(p).bytes, "scratch was sized for this call");
  VERSIEVE_ASSERT(context.counters != nullptr, "a fused launch counts its blocks");
  FusedArguments a = arguments_of(p, static_cast<char*>(context.scratch), context.counters);
  const TileMaps maps = tile_maps(p);
  const traffic::NsaVerifyShape shape = traffic_shape_of(p);
  if (p.indices_in != nullptr) {
    const LaunchRange range("nsa_reuse", traffic::nsa_reuse(shape), context.observer);
    const FusedCut cut = cut_of(p, FusedLaunch::kReuse);
    a.spans_joined = cut.joined;
    enqueue(FusedLaunch::kReuse, p, cut, a, maps, context);
    return;
  }
  const FusedCut route = cut_of(p, FusedLaunch::kRoute);
  a.spans_joined = route.joined;
  {
    const LaunchRange range("nsa_route", traffic::nsa_route(shape), context.observer);
    enqueue(FusedLaunch::kRoute, p, route, a, maps, context);
  }
  const LaunchRange range("nsa_attend", traffic::nsa_attend(shape), context.observer);
  enqueue(FusedLaunch::kAttend, p, cut_of(p, FusedLaunch::kAttend), a, maps, context);
}

}  // namespace versieve::kernels
