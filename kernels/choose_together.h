// The ops by which sequences choose what their layers read, and ReSA's attention, of several
// sequences: calls of which none reads what another writes, in one launch for up to 64 (a launch a
// kernel of the form) where the device has such launches, else one after the other. Each call has
// the bits that it has alone.
#pragma once

#include <span>

#include "kernels/ops.h"

namespace versieve::kernels {

// All of one model; any number, none too. T = double, float or Bf16.
template <class T>
void block_keys_together(Ops<T>& ops, std::span<const BlockKeysParams<T>> calls);
template <class T>
void index_keys_together(Ops<T>& ops, std::span<const IndexKeysParams<T>> calls);
template <class T>
void index_query_together(Ops<T>& ops, std::span<const IndexQueryParams<T>> calls);
template <class T>
void index_scores_together(Ops<T>& ops, std::span<const IndexScoresParams<T>> calls);
// Sorts (TopkVariant::kSort, and rows that only a sort takes) have launches of their own.
template <class T>
void topk_together(Ops<T>& ops, std::span<const TopkParams<T>> calls);
// The shares and lists of SpecAttn. Calls whose rows take as many blocks share the launch of their
// thresholds; the other launches are all calls'.
template <class T>
void top_p_together(Ops<T>& ops, std::span<const TopPParams<SumOf<T>>> calls);
template <class T>
void token_list_together(Ops<T>& ops, std::span<const TokenListParams> calls);
// Those whose caches are one pool's and whose blocks of keys are alike share launches.
template <class T>
void resa_decode_together(Ops<T>& ops, std::span<const ResaDecodeParams<T>> calls);

}  // namespace versieve::kernels
