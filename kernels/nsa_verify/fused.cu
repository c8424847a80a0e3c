#include "kernels/nsa_verify/fused.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/nsa_verify/fused_attend.cuh"
#include "kernels/nsa_verify/fused_call.cuh"
#include "kernels/nsa_verify/fused_lone.cuh"
#include "kernels/nsa_verify/fused_route.cuh"
#include "kernels/nsa_verify/traffic_shape.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

struct Layout {
  std::size_t span_states, span_outs, weights, slices, segment_states, segment_outs, bytes;
};

constexpr std::size_t kMaxScratchBytes = std::size_t{1} << 30;

// B/s = 4 and l/s = 2: a slice of 16 compressed tokens is four blocks.
bool four_of(const NsaGeometry& nsa) {
  return nsa.sel_block == 4 * nsa.cmp_stride && nsa.cmp_block == 2 * nsa.cmp_stride;
}

Layout layout_of(const NsaVerifyParams<Bf16>& p) {
  std::size_t bytes = 0;
  const auto place = [&](std::int64_t floats) {
    const std::size_t at = bytes;
    bytes += (static_cast<std::size_t>(floats) * sizeof(float) + 255) / 256 * 256;
    return at;
  };
  const std::int64_t rows = p.num_queries * p.num_heads;
  const std::int64_t spans = span_count(static_cast<int>(call_of(p).max_compressed()));
  const bool routes = p.indices_in == nullptr;
  const std::int64_t slices = routes ? rows * call_of(p).max_slices() : 0;
  Layout l{};
  l.span_states = place(rows * spans * 2);
  l.span_outs = place(rows * spans * head_width(p));
  l.weights = place(slices * (four_of(p.nsa) ? 4 : kSliceKeys));
  l.slices = place(slices * 2);
  l.segment_states = place(rows * kSegments * 2);
  l.segment_outs = place(rows * kSegments * head_width(p));
  l.bytes = bytes;
  return l;
}

FusedArguments arguments_of(const NsaVerifyParams<Bf16>& p, char* base, unsigned* counters) {
  const Layout layout = layout_of(p);
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  FusedArguments a{};
  a.nodes = small(p.num_queries);
  a.heads = small(p.num_heads);
  a.kv_heads = small(p.num_kv_heads);
  a.head_dim = small(p.head_dim);
  a.group_heads = a.heads / a.kv_heads;
  a.head_bits = std::countr_zero(std::bit_ceil(static_cast<unsigned>(a.group_heads)));
  a.context_len = small(p.context_len);
  a.tree_compressed = small(p.num_tree_compressed);
  a.cmp_block = small(p.nsa.cmp_block);
  a.stride_bits = std::countr_zero(static_cast<unsigned>(p.nsa.cmp_stride));
  a.block_bits = std::countr_zero(static_cast<unsigned>(p.nsa.sel_block));
  a.sel_count = small(p.nsa.sel_count);
  a.init_blocks = small(p.nsa.init_blocks);
  a.local_blocks = small(p.nsa.local_blocks);
  a.window = small(p.nsa.window);
  a.num_blocks = small(p.num_blocks);
  a.group_size =
      p.group_mode == GroupMode::kApprox ? small(std::min(p.group_size, p.num_queries)) : 1;
  a.older_lists = p.older_lists;
  a.older_blocks = p.older_blocks;
  a.max_spans = span_count(small(call_of(p).max_compressed()));
  a.max_slices = small(call_of(p).max_slices());
  a.max_blocks = 4 * a.max_slices;
  a.four = four_of(p.nsa);
  a.counts = p.counts;
  a.q = p.q;
  a.k = p.k;
  a.v = p.v;
  a.k_cmp = p.k_cmp;
  a.v_cmp = p.v_cmp;
  a.k_tree = p.k_tree;
  a.v_tree = p.v_tree;
  a.k_cmp_tree = p.k_cmp_tree;
  a.v_cmp_tree = p.v_cmp_tree;
  a.gates = p.gates;
  a.parent = p.parent;
  a.position = p.position;
  a.owner = p.cmp_tree_owner;
  a.chosen = p.indices_in != nullptr        ? p.indices_in
             : p.imposed_indices != nullptr ? p.imposed_indices
                                            : p.indices;
  a.out = p.out;
  a.indices = p.indices;
  a.importance = p.importance;
  a.span_states = reinterpret_cast<float2*>(base + layout.span_states);
  a.span_outs = reinterpret_cast<float*>(base + layout.span_outs);
  a.weights = reinterpret_cast<float*>(base + layout.weights);
  a.slices = reinterpret_cast<float2*>(base + layout.slices);
  a.segment_states = reinterpret_cast<float2*>(base + layout.segment_states);
  a.segment_outs = reinterpret_cast<float*>(base + layout.segment_outs);
  VERSIEVE_ASSERT(counters != nullptr, "a fused launch counts its blocks");
  a.counters = counters;
  return a;
}

template <int kCalls>
using Kernel = void (*)(FusedCalls<kCalls>);

// Wide heads, and CTAs of several parts, rank by bounds.
template <int kD, bool kMany, int kCalls>
Kernel<kCalls> kernel_of_route(bool counts) {
  if constexpr (kD == 64 && !kMany) {
    if (counts) {
      return &nsa_route_kernel<kD, kMany, true, kCalls>;
    }
  }
  return &nsa_route_kernel<kD, kMany, false, kCalls>;
}
template <int kD, bool kAnnounced, int kHalves, int kCalls>
Kernel<kCalls> kernel_of_lone(FusedLaunch launch, bool counts) {
  switch (launch) {
    case FusedLaunch::kRoute:
      return kD == 64 && counts ? &nsa_route_lone_kernel<kD, kD == 64, kHalves, kCalls>
                                : &nsa_route_lone_kernel<kD, false, kHalves, kCalls>;
    case FusedLaunch::kAttend:
      return &nsa_attend_lone_kernel<kD, false, kAnnounced, kHalves, kCalls>;
    case FusedLaunch::kReuse:
      return &nsa_attend_lone_kernel<kD, true, kAnnounced, kHalves, kCalls>;
  }
  VERSIEVE_ASSERT(false, "a launch has a kernel");
}
// kHalves: of a row tile that hold rows, in nsa_attend and nsa_reuse.
template <int kD, bool kMany, bool kAnnounced, int kHalves, int kCalls>
Kernel<kCalls> kernel_of(FusedLaunch launch, bool counts) {
  switch (launch) {
    case FusedLaunch::kRoute:
      return kernel_of_route<kD, kMany, kCalls>(counts);
    case FusedLaunch::kAttend:
      return &nsa_attend_kernel<kD, false, kMany, kAnnounced, kHalves, kCalls>;
    case FusedLaunch::kReuse:
      return &nsa_attend_kernel<kD, true, kMany, kAnnounced, kHalves, kCalls>;
  }
  VERSIEVE_ASSERT(false, "a launch has a kernel");
}
template <bool kAnnounced, int kCalls>
Kernel<kCalls> kernel_of_narrow(FusedLaunch launch, const FusedCut& cut, bool counts, bool alone) {
  if (alone) {
    return cut.half ? kernel_of_lone<64, kAnnounced, 1, kCalls>(launch, counts)
                    : kernel_of_lone<64, kAnnounced, 2, kCalls>(launch, counts);
  }
  if (cut.many) {
    return kernel_of<64, true, kAnnounced, 2, kCalls>(launch, counts);
  }
  return cut.half ? kernel_of<64, false, kAnnounced, 1, kCalls>(launch, counts)
                  : kernel_of<64, false, kAnnounced, 2, kCalls>(launch, counts);
}
template <int kCalls>
Kernel<kCalls> kernel_of(FusedLaunch launch, const NsaVerifyParams<Bf16>& p, const FusedCut& cut,
                         bool announced) {
  const bool alone = p.num_queries == 1;
  const bool counts = counts_blocks(p, launch, cut);
  if (head_width(p) == kFusedManyHead) {
    if constexpr (kCalls == 1) {
      if (announced) {
        return kernel_of_narrow<true, 1>(launch, cut, counts, alone);
      }
    }
    return kernel_of_narrow<false, kCalls>(launch, cut, counts, alone);
  }
  VERSIEVE_ASSERT(!cut.many && !announced && !counts,
                  "wide heads have a part a CTA, which is counted");
  return alone ? kernel_of_lone<128, false, 2, kCalls>(launch, false)
               : kernel_of<128, false, false, 2, kCalls>(launch, false);
}

TileMaps tile_maps(const NsaVerifyParams<Bf16>& p) {
  // A cache without rows is never read.
  const auto map = [&](const Bf16* cache, std::int64_t rows) {
    return cache_map(cache != nullptr ? cache : p.q, std::max<std::int64_t>(rows, 1),
                     p.num_kv_heads, p.head_dim, kTileKeys);
  };
  const std::int64_t compressed = compressed_count(p.nsa, p.context_len);
  const std::int64_t nodes = p.num_queries;
  const std::int64_t tree_compressed = p.num_tree_compressed;
  return {{{map(p.k, p.context_len), map(p.v, p.context_len), map(p.k_tree, nodes),
            map(p.v_tree, nodes)},
           {map(p.k_cmp, compressed), map(p.v_cmp, compressed), map(p.k_cmp_tree, tree_compressed),
            map(p.v_cmp_tree, tree_compressed)}}};
}

FusedCut cut_of(const NsaVerifyParams<Bf16>& p, FusedLaunch launch) {
  const std::optional<FusedCut> cut = cut_fused(call_of(p), launch);
  VERSIEVE_ASSERT(cut.has_value(), "fused_takes was asked");
  return *cut;
}

// `a` of a call, completed by its cut for a launch.
void complete(FusedLaunch launch, const NsaVerifyParams<Bf16>& p, const FusedCut& cut,
              FusedArguments& a) {
  a.cut = cut;
  a.query_tiles = Divisor(cut.query_tiles);
  a.groups = Divisor(cut.query_tiles * a.kv_heads);
  a.list_length = Divisor(a.sel_count);
  a.words = Divisor(static_cast<int>(fused_map_words(p.num_blocks)));
  a.cta_queries = cut.cta_queries();
  a.cta_bits = std::countr_zero(static_cast<unsigned>(a.cta_queries));
  if (launch == FusedLaunch::kAttend) {  // counts while nsa_route still does
    a.counters += kLaunchCounters / 2;
  }
  a.blocks = static_cast<int>(
      (std::int64_t{cut.part_blocks} * cut.query_tiles + cut.finishers(a.nodes)) * a.kv_heads);
}

DependentGrid grid_of(const FusedArguments& a, unsigned calls, const LaunchContext& context) {
  return {.grid = dim3(static_cast<unsigned>(a.blocks), calls),
          .threads = static_cast<unsigned>(a.nodes == 1 ? kCtaWarps * 32 : kTreeThreads),
          .shared_bytes = static_cast<std::size_t>(a.cut.shared_bytes),
          .stream = context.stream};
}

void enqueue(FusedLaunch launch, const NsaVerifyParams<Bf16>& p, const FusedCut& cut,
             const FusedArguments& arguments, const TileMaps& maps, const LaunchContext& context) {
  FusedCalls<1> calls{.arguments = {arguments}, .maps = {maps}};
  FusedArguments& a = calls.arguments[0];
  complete(launch, p, cut, a);
  const bool announced = cut.announced && context.parts != nullptr;
  if (announced) {
    place_announced(context.parts, launch == FusedLaunch::kReuse, a);
  }
  launch_dependent(grid_of(a, 1, context), kernel_of<1>(launch, p, cut, announced), calls);
}

// A call of a launch of several.
struct PreparedCall {
  const NsaVerifyParams<Bf16>* p;
  FusedArguments arguments;
  TileMaps maps;
};

const char* name_of(FusedLaunch launch) {
  switch (launch) {
    case FusedLaunch::kRoute:
      return "nsa_route";
    case FusedLaunch::kAttend:
      return "nsa_attend";
    case FusedLaunch::kReuse:
      return "nsa_reuse";
  }
  VERSIEVE_ASSERT(false, "a launch has a name");
}

Traffic traffic_of(FusedLaunch launch, const NsaVerifyParams<Bf16>& p) {
  const traffic::NsaVerifyShape shape = traffic_shape_of(p);
  return launch == FusedLaunch::kRoute    ? traffic::nsa_route(shape)
         : launch == FusedLaunch::kAttend ? traffic::nsa_attend(shape)
                                          : traffic::nsa_reuse(shape);
}

// One launch of calls that have one kernel and as many threads.
void enqueue_together(FusedLaunch launch, Kernel<kMostFusedCalls> kernel,
                      std::span<const PreparedCall* const> together, const LaunchContext& context) {
  FusedCalls<kMostFusedCalls> calls{};
  DependentGrid grid{};
  Traffic traffic{};
  for (std::size_t i = 0; i < together.size(); ++i) {
    const PreparedCall& call = *together[i];
    calls.arguments[i] = call.arguments;
    calls.maps[i] = call.maps;
    const FusedCut cut = cut_of(*call.p, launch);
    complete(launch, *call.p, cut, calls.arguments[i]);
    const DependentGrid own =
        grid_of(calls.arguments[i], static_cast<unsigned>(together.size()), context);
    traffic += traffic_of(launch, *call.p);
    const std::size_t shared = std::max(grid.shared_bytes, own.shared_bytes);
    const unsigned blocks = std::max(grid.grid.x, own.grid.x);
    grid = own;
    grid.grid.x = blocks;
    grid.shared_bytes = shared;
  }
  const LaunchRange range(name_of(launch), traffic, context.observer);
  launch_dependent(grid, kernel, calls);
}

// The calls' launches of one kind, those of one kernel together.
void enqueue_kind(FusedLaunch launch, const std::vector<PreparedCall>& calls,
                  const LaunchContext& context) {
  std::vector<std::pair<Kernel<kMostFusedCalls>, std::vector<const PreparedCall*>>> by_kernel;
  for (const PreparedCall& call : calls) {
    if ((call.p->indices_in != nullptr) != (launch == FusedLaunch::kReuse)) {
      continue;
    }
    const Kernel<kMostFusedCalls> kernel =
        kernel_of<kMostFusedCalls>(launch, *call.p, cut_of(*call.p, launch), false);
    auto same = std::find_if(by_kernel.begin(), by_kernel.end(),
                             [&](const auto& known) { return known.first == kernel; });
    if (same == by_kernel.end()) {
      same = by_kernel.insert(same, {kernel, {}});
    }
    same->second.push_back(&call);
  }
  for (const auto& [kernel, together] : by_kernel) {
    enqueue_together(launch, kernel, together, context);
  }
}

// Counters that a call needs of each half of the context's.
std::int64_t counters_of(const NsaVerifyParams<Bf16>& p) {
  return 2 * p.num_queries * p.num_kv_heads;
}

std::size_t most_together(std::span<const NsaVerifyParams<Bf16>> calls) {
  std::int64_t counters = 0;
  std::size_t bytes = 0, count = 0;
  for (const NsaVerifyParams<Bf16>& p : calls) {
    counters += counters_of(p);
    bytes += layout_of(p).bytes;
    const bool fits = counters <= kLaunchCounters / 2 && bytes <= kMaxScratchBytes &&
                      count < std::size_t{kMostFusedCalls};
    if (!fits) {
      break;
    }
    ++count;
  }
  return std::max<std::size_t>(count, 1);
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

std::size_t fused_together_bytes(std::span<const NsaVerifyParams<Bf16>> calls) {
  std::size_t bytes = 0;
  for (std::size_t first = 0; first < calls.size();) {
    const std::size_t count = most_together(calls.subspan(first));
    std::size_t own = 0;
    for (const NsaVerifyParams<Bf16>& p : calls.subspan(first, count)) {
      own += layout_of(p).bytes;
    }
    bytes = std::max(bytes, own);
    first += count;
  }
  return bytes;
}

void launch_fused_together(std::span<const NsaVerifyParams<Bf16>> calls,
                           const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= fused_together_bytes(calls),
                  "scratch was sized for these calls");
  for (std::size_t first = 0; first < calls.size();) {
    const std::size_t count = most_together(calls.subspan(first));
    char* scratch = static_cast<char*>(context.scratch);
    unsigned* counters = context.counters;
    std::vector<PreparedCall> prepared;
    for (const NsaVerifyParams<Bf16>& p : calls.subspan(first, count)) {
      prepared.push_back({&p, arguments_of(p, scratch, counters), tile_maps(p)});
      const bool reuses = p.indices_in != nullptr;
      prepared.back().arguments.spans_joined =
          cut_of(p, reuses ? FusedLaunch::kReuse : FusedLaunch::kRoute).joined;
      scratch += layout_of(p).bytes;
      counters += counters_of(p);
    }
    for (const FusedLaunch launch :
         {FusedLaunch::kRoute, FusedLaunch::kAttend, FusedLaunch::kReuse}) {
      enqueue_kind(launch, prepared, context);
    }
    first += count;
  }
}

}  // namespace versieve::kernels
