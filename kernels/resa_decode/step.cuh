// What every launch of resa_decode knows of the step: lengths and counts, from the host or from
// device memory, and where the launches leave their results for the next.
#pragma once

#include "kernels/common/call_list.cuh"
#include "kernels/flash_decode/partition.h"
#include "kernels/resa_decode/params.h"

namespace versieve::kernels {

struct ResaScratch {
  std::uint32_t* rank = nullptr;  // [G, blocks]: order keys of scores (kernels/topk/order_key.h)
  std::int64_t blocks = 0;        // room a KV head
  std::int64_t indices = 0;       // room a KV head in the caller's list
  ChunkPartials partials;
};

// What a launch takes of a call.
template <class T>
struct ResaCall {
  ResaDecodeParams<T> p;
  ResaScratch scratch;
};
// Of launches that are no op's fastest form: room for several, whatever their number.
template <class T>
using ResaCalls = CallList<ResaCall<T>, kMostListedCalls>;

struct ResaStep {
  std::int64_t context_len, length;  // rows of the cache; L
  std::int64_t blocks;               // M
  std::int64_t active;               // attended
  std::int64_t free;                 // blocks that are chosen from: 0 ... free - 1
};

template <class T>
__device__ inline ResaStep resa_step(const ResaDecodeParams<T>& p) {
  ResaStep s;
  s.context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  s.length = s.context_len + (p.k_new == nullptr ? 0 : 1);
  const unsigned block = static_cast<unsigned>(p.selection.key_block);  // 32 bits, as positions
  s.blocks = (static_cast<unsigned>(s.length) + block - 1) / block;
  s.active = resa_block_count(s.blocks, p.selection);
  s.free = s.blocks - min(s.blocks, p.selection.n_local);
  return s;
}

// Whether the KV head's list of chosen blocks holds the newest one; a forced block is not looked
// up.
__device__ inline bool holds_newest(const ResaStep& s, const std::int32_t* list) {
  return s.free < s.blocks || (s.active > 0 && __ldcg(list + s.active - 1) == s.blocks - 1);
}
// Tokens of the attended blocks.
template <class T>
__device__ inline std::int64_t attended_tokens(const ResaDecodeParams<T>& p, const ResaStep& s,
                                               const std::int32_t* list) {
  const std::int64_t tokens = s.active * p.selection.key_block;
  const bool newest = holds_newest(s, list);
  return newest ? tokens - (s.blocks * p.selection.key_block - s.length) : tokens;
}

}  // namespace versieve::kernels
