// What the launches of one call and of several share: how scratch is laid out, arguments, which
// kernel takes a call. Host code.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>

#include "kernels/nsa_verify/fused.h"
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
inline bool four_of(const NsaGeometry& nsa) {
  return nsa.sel_block == 4 * nsa.cmp_stride && nsa.cmp_block == 2 * nsa.cmp_stride;
}

inline Layout layout_of(const NsaVerifyParams<Bf16>& p) {
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

inline FusedArguments arguments_of(const NsaVerifyParams<Bf16>& p, char* base, unsigned* counters) {
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
  a.pages[0] = p.pages.page;
  a.pages[1] = p.compressed_pages.page;
  a.q = p.q;
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
  a.counters = counters;
  return a;
}

// Calls: FusedOne or FusedSeveral.
template <class Calls>
using Kernel = void (*)(Calls);

// Wide heads, and CTAs of several parts, rank by bounds.
template <int kD, bool kMany, class Calls>
Kernel<Calls> kernel_of_route(bool counts) {
  if constexpr (kD == 64 && !kMany) {
    if (counts) {
      return &nsa_route_kernel<kD, kMany, true, Calls>;
    }
  }
  return &nsa_route_kernel<kD, kMany, false, Calls>;
}
template <int kD, bool kAnnounced, int kHalves, class Calls>
Kernel<Calls> kernel_of_lone(FusedLaunch launch, bool counts) {
  switch (launch) {
    case FusedLaunch::kRoute:
      return kD == 64 && counts ? &nsa_route_lone_kernel<kD, kD == 64, kHalves, Calls>
                                : &nsa_route_lone_kernel<kD, false, kHalves, Calls>;
    case FusedLaunch::kAttend:
      return &nsa_attend_lone_kernel<kD, false, kAnnounced, kHalves, Calls>;
    case FusedLaunch::kReuse:
      return &nsa_attend_lone_kernel<kD, true, kAnnounced, kHalves, Calls>;
  }
  VERSIEVE_ASSERT(false, "a launch has a kernel");
}
// kHalves: of a row tile that hold rows, in nsa_attend and nsa_reuse.
template <int kD, bool kMany, bool kAnnounced, int kHalves, class Calls>
Kernel<Calls> kernel_of(FusedLaunch launch, bool counts) {
  switch (launch) {
    case FusedLaunch::kRoute:
      return kernel_of_route<kD, kMany, Calls>(counts);
    case FusedLaunch::kAttend:
      return &nsa_attend_kernel<kD, false, kMany, kAnnounced, kHalves, Calls>;
    case FusedLaunch::kReuse:
      return &nsa_attend_kernel<kD, true, kMany, kAnnounced, kHalves, Calls>;
  }
  VERSIEVE_ASSERT(false, "a launch has a kernel");
}
template <bool kAnnounced, class Calls>
Kernel<Calls> kernel_of_narrow(FusedLaunch launch, const FusedCut& cut, bool counts, bool alone) {
  if (alone) {
    return cut.half ? kernel_of_lone<64, kAnnounced, 1, Calls>(launch, counts)
                    : kernel_of_lone<64, kAnnounced, 2, Calls>(launch, counts);
  }
  if (cut.many) {
    return kernel_of<64, true, kAnnounced, 2, Calls>(launch, counts);
  }
  return cut.half ? kernel_of<64, false, kAnnounced, 1, Calls>(launch, counts)
                  : kernel_of<64, false, kAnnounced, 2, Calls>(launch, counts);
}
template <class Calls>
Kernel<Calls> kernel_of(FusedLaunch launch, const NsaVerifyParams<Bf16>& p, const FusedCut& cut,
                        bool announced) {
  const bool alone = p.num_queries == 1;
  const bool counts = counts_blocks(p, launch, cut);
  if (head_width(p) == kFusedManyHead) {
    if constexpr (std::is_same_v<Calls, FusedOne>) {
      if (announced) {
        return kernel_of_narrow<true, FusedOne>(launch, cut, counts, alone);
      }
    }
    return kernel_of_narrow<false, Calls>(launch, cut, counts, alone);
  }
  VERSIEVE_ASSERT(!cut.many && !announced && !counts,
                  "wide heads have a part a CTA, which is counted");
  return alone ? kernel_of_lone<128, false, 2, Calls>(launch, false)
               : kernel_of<128, false, false, 2, Calls>(launch, false);
}

inline FusedCut cut_of(const NsaVerifyParams<Bf16>& p, FusedLaunch launch) {
  const std::optional<FusedCut> cut = cut_fused(call_of(p), launch);
  VERSIEVE_ASSERT(cut.has_value(), "fused_takes was asked");
  return *cut;
}

// `a` of a call, completed by its cut for a launch; its counters are the caller's.
inline void complete(const NsaVerifyParams<Bf16>& p, const FusedCut& cut, FusedArguments& a) {
  a.cut = cut;
  a.query_tiles = Divisor(cut.query_tiles);
  a.groups = Divisor(cut.query_tiles * a.kv_heads);
  a.list_length = Divisor(a.sel_count);
  a.words = Divisor(static_cast<int>(fused_map_words(p.num_blocks)));
  a.cta_queries = cut.cta_queries();
  a.cta_bits = std::countr_zero(static_cast<unsigned>(a.cta_queries));
  a.blocks = static_cast<int>(
      (std::int64_t{cut.part_blocks} * cut.query_tiles + cut.finishers(a.nodes)) * a.kv_heads);
}

inline const char* name_of(FusedLaunch launch) {
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

inline Traffic traffic_of(FusedLaunch launch, const NsaVerifyParams<Bf16>& p) {
  const traffic::NsaVerifyShape shape = traffic_shape_of(p);
  return launch == FusedLaunch::kRoute    ? traffic::nsa_route(shape)
         : launch == FusedLaunch::kAttend ? traffic::nsa_attend(shape)
                                          : traffic::nsa_reuse(shape);
}

}  // namespace
}  // namespace versieve::kernels
