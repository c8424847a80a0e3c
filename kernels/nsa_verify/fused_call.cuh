// What a fused launch is cut for (model/launches/fused_cut.h), and where its announced parts lie.
// Host code; included by fused.cu and its tests alone.
#pragma once

#include <type_traits>

#include "kernels/nsa_verify/fused_select.cuh"
#include "model/launches/fused_cut.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

FusedCall call_of(const NsaVerifyParams<Bf16>& p) {
  return {.nsa = p.nsa,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .num_queries = p.num_queries,
          .context_len = p.context_len,
          .num_blocks = p.num_blocks,
          .counted = p.counts != nullptr,
          .group_size = p.group_size,
          .group_mode = p.group_mode};
}

int head_width(const NsaVerifyParams<Bf16>& p) {
  return static_cast<int>(fused_width(p.head_dim));
}

// Whether a finishing CTA of nsa_route has one node, of few enough blocks to count them.
bool counts_blocks(const NsaVerifyParams<Bf16>& p, FusedLaunch launch, const FusedCut& cut) {
  return launch == FusedLaunch::kRoute && !cut.many && cut.finish_nodes() == 1 &&
         p.head_dim <= kFusedManyHead && p.num_blocks <= kFusedMostCounted;
}

// Puts the parts of a launch that announces them into `memory`, kFusedPartBytes: [N, H, ...] as in
// scratch, what is read 16 bytes at a time first.
inline void place_announced(void* memory, bool reuses, FusedArguments& a) {
  const std::int64_t rows = std::int64_t{a.nodes} * a.heads;
  char* at = static_cast<char*>(memory);
  const auto place = [&at](auto*& array, std::int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
    at += count * static_cast<std::int64_t>(sizeof(*array));
  };
  const std::int64_t spans = reuses ? rows * a.max_spans : 0;
  place(a.segment_outs, rows * kSegments * kFusedManyHead);
  if (reuses) {
    place(a.span_outs, spans * kFusedManyHead);
  }
  place(a.segment_states, rows * kSegments);
  if (reuses) {
    place(a.span_states, spans);
  }
  VERSIEVE_ASSERT(at - static_cast<char*>(memory) <= kFusedPartBytes, "fused_announces was asked");
}

}  // namespace
}  // namespace versieve::kernels
