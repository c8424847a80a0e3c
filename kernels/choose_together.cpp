#include "kernels/choose_together.h"

#include <cstddef>
#include <type_traits>

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/block_keys/together.h"
#include "kernels/context_launch.h"
#include "kernels/index_keys/together.h"
#include "kernels/index_scores/launch.h"
#include "kernels/resa_decode/together.h"
#include "kernels/token_list/together.h"
#include "kernels/top_p/together.h"
#include "kernels/topk/together.h"
#endif

namespace versieve::kernels {
namespace {

// launch(calls, context) where the ops are CUDA's and there are several, with bytes(calls) of
// scratch; else alone(call) of each. What is only for CUDA is never looked at in a build without.
template <class T, class Call, class Bytes, class Launch, class Alone>
void run([[maybe_unused]] Ops<T>& ops, std::span<const Call> calls,
         [[maybe_unused]] const Bytes& bytes, [[maybe_unused]] const Launch& launch,
         const Alone& alone) {
#ifdef VERSIEVE_HAS_CUDA
  if constexpr (!std::is_same_v<T, double>) {
    if (calls.size() > 1 && has_launches(ops)) {
      launch_with_scratch<T>(ops, bytes(calls), [&calls, &launch](const LaunchContext& context) {
        launch(calls, context);
      });
      return;
    }
  }
#endif
  for (const Call& call : calls) {
    alone(call);
  }
}

constexpr auto kNoScratch = [](const auto&) { return std::size_t{0}; };

}  // namespace

template <class T>
void block_keys_together(Ops<T>& ops, std::span<const BlockKeysParams<T>> calls) {
  run(
      ops, calls, kNoScratch,
      [](const auto& all, const auto& context) { launch_block_keys_together(all, context); },
      [&](const auto& p) { ops.block_keys(p); });
}
template <class T>
void index_keys_together(Ops<T>& ops, std::span<const IndexKeysParams<T>> calls) {
  run(
      ops, calls, kNoScratch,
      [](const auto& all, const auto& context) { launch_index_keys_together(all, context); },
      [&](const auto& p) { ops.index_keys(p); });
}
template <class T>
void index_query_together(Ops<T>& ops, std::span<const IndexQueryParams<T>> calls) {
  run(
      ops, calls, kNoScratch,
      [](const auto& all, const auto& context) { launch_index_query_together(all, context); },
      [&](const auto& p) { ops.index_query(p); });
}
template <class T>
void index_scores_together(Ops<T>& ops, std::span<const IndexScoresParams<T>> calls) {
  run(
      ops, calls, kNoScratch,
      [](const auto& all, const auto& context) { launch_index_scores_together(all, context); },
      [&](const auto& p) { ops.index_scores(p); });
}
template <class T>
void topk_together(Ops<T>& ops, std::span<const TopkParams<T>> calls) {
  run(
      ops, calls, [](const auto& all) { return topk_together_scratch_bytes(all); },
      [](const auto& all, const auto& context) { launch_topk_together(all, context); },
      [&](const auto& p) { ops.topk(p); });
}
template <class T>
void top_p_together(Ops<T>& ops, std::span<const TopPParams<SumOf<T>>> calls) {
  run(
      ops, calls, [](const auto& all) { return top_p_together_scratch_bytes(all); },
      [](const auto& all, const auto& context) { launch_top_p_together(all, context); },
      [&](const auto& p) { ops.top_p(p); });
}
template <class T>
void token_list_together(Ops<T>& ops, std::span<const TokenListParams> calls) {
  run(
      ops, calls, [](const auto& all) { return token_list_together_scratch_bytes(all); },
      [](const auto& all, const auto& context) { launch_token_list_together(all, context); },
      [&](const auto& p) { ops.token_list(p); });
}
template <class T>
void resa_decode_together(Ops<T>& ops, std::span<const ResaDecodeParams<T>> calls) {
  run(
      ops, calls, [](const auto& all) { return resa_together_scratch_bytes(all); },
      [](const auto& all, const auto& context) { launch_resa_together(all, context); },
      [&](const auto& p) { ops.resa_decode(p); });
}

#define VERSIEVE_INSTANTIATE(T)                                                        \
  template void block_keys_together(Ops<T>&, std::span<const BlockKeysParams<T>>);     \
  template void index_keys_together(Ops<T>&, std::span<const IndexKeysParams<T>>);     \
  template void index_query_together(Ops<T>&, std::span<const IndexQueryParams<T>>);   \
  template void index_scores_together(Ops<T>&, std::span<const IndexScoresParams<T>>); \
  template void topk_together(Ops<T>&, std::span<const TopkParams<T>>);                \
  template void top_p_together(Ops<T>&, std::span<const TopPParams<SumOf<T>>>);        \
  template void token_list_together(Ops<T>&, std::span<const TokenListParams>);        \
  template void resa_decode_together(Ops<T>&, std::span<const ResaDecodeParams<T>>);
VERSIEVE_INSTANTIATE(double)
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
