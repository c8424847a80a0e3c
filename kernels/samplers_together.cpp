#include "kernels/samplers_together.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "model/words/assert.h"

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/context_launch.h"
#include "kernels/gumbel_top/rows.h"
#include "kernels/spec_sample/together.h"
#include "kernels/tree_sample/together.h"
#endif

namespace versieve::kernels {
namespace {

// A call a run of rows that have one draw, of so many where they are perturbed in memory of its
// own. `p`: in memory of the host.
constexpr std::int64_t kOwnRows = 16;

template <class T>
void gumbel_run_by_run(Ops<T>& ops, const GumbelRowsParams<T>& p) {
  const bool own = p.perturbed == nullptr;
  const std::int64_t most = own ? kOwnRows : p.rows;
  std::vector<SumOf<T>> memory(own ? static_cast<std::size_t>(kOwnRows * p.vocab) : 0);
  for (std::int64_t first = 0, end = 0; first < p.rows; first = end) {
    const RowDraw draw = p.draw[first];
    end = first + 1;
    while (end < std::min(p.rows, first + most) && p.draw[end] == draw) {
      ++end;
    }
    SumOf<T>* const perturbed = own ? memory.data() : p.perturbed + first * p.vocab;
    const T* const logits = p.logits + first * p.vocab;
    float* const score = p.log_probability == nullptr ? nullptr : p.log_probability + first * p.k;
    if (draw.temperature == 0.0) {
      ops.top_logits({.rows = end - first,
                      .vocab = p.vocab,
                      .k = p.k,
                      .logits = logits,
                      .index = p.index + first * p.k,
                      .log_probability = score});
      continue;
    }
    ops.gumbel_top({.rows = end - first,
                    .vocab = p.vocab,
                    .k = p.k,
                    .temperature = draw.temperature,
                    .seed = draw.seed,
                    .logits = logits,
                    .position = p.position + first,
                    .token = p.token,
                    .perturbed = perturbed,
                    .index = p.index + first * p.k,
                    .log_probability = score});
  }
}

#ifdef VERSIEVE_HAS_CUDA
// The calls of a launch, in order.
template <class Params, class Launch>
void launch_groups(const std::vector<Params>& calls, const Launch& launch) {
  for (std::size_t first = 0; first < calls.size(); first += kMostSampled) {
    launch(std::span(calls).subspan(first, std::min(kMostSampled, calls.size() - first)));
  }
}
#endif

}  // namespace

template <class T>
void gumbel_rows(Ops<T>& ops, const GumbelRowsParams<T>& p) {
  VERSIEVE_ASSERT(p.perturbed != nullptr || (p.k == 1 && p.log_probability == nullptr),
                  "lists are made of perturbed rows in memory");
#ifdef VERSIEVE_HAS_CUDA
  if constexpr (!std::is_same_v<T, double>) {
    if (launch_with_scratch<T>(
            ops, 0, [&p](const LaunchContext& context) { launch_gumbel_rows(p, context); })) {
      return;
    }
  }
#endif
  gumbel_run_by_run(ops, p);
}

template <class T>
void spec_sample_together(Ops<T>& ops, std::span<const SpecSampleParams<T>> calls) {
  std::vector<SpecSampleParams<T>> alone(calls.begin(), calls.end());
#ifdef VERSIEVE_HAS_CUDA
  if constexpr (!std::is_same_v<T, double>) {
    if (calls.size() > 1 && has_launches(ops)) {
      for (const SpecSampleVariant variant :
           {SpecSampleVariant::kExact, SpecSampleVariant::kSigmoid}) {
        std::vector<SpecSampleParams<T>> group;
        std::copy_if(alone.begin(), alone.end(), std::back_inserter(group),
                     [&](const auto& p) { return p.variant == variant && goes_together(p); });
        std::erase_if(alone,
                      [&](const auto& p) { return p.variant == variant && goes_together(p); });
        launch_groups(group, [&ops](std::span<const SpecSampleParams<T>> some) {
          launch_with_scratch<T>(
              ops, spec_together_scratch_bytes(some),
              [some](const LaunchContext& context) { launch_spec_together(some, context); });
        });
      }
    }
  }
#endif
  for (const SpecSampleParams<T>& p : alone) {
    ops.spec_sample(p);
  }
}

template <class T>
void tree_sample_together(Ops<T>& ops, std::span<const TreeSampleParams<T>> calls) {
  std::vector<TreeSampleParams<T>> alone(calls.begin(), calls.end());
#ifdef VERSIEVE_HAS_CUDA
  if constexpr (!std::is_same_v<T, double>) {
    if (calls.size() > 1 && has_launches(ops)) {
      std::vector<TreeSampleParams<T>> group;
      std::copy_if(alone.begin(), alone.end(), std::back_inserter(group),
                   [](const auto& p) { return goes_together(p); });
      std::erase_if(alone, [](const auto& p) { return goes_together(p); });
      launch_groups(group, [&ops](std::span<const TreeSampleParams<T>> some) {
        launch_with_scratch<T>(
            ops, tree_together_scratch_bytes(some),
            [some](const LaunchContext& context) { launch_tree_together(some, context); });
      });
    }
  }
#endif
  for (const TreeSampleParams<T>& p : alone) {
    ops.tree_sample(p);
  }
}

#define VERSIEVE_INSTANTIATE(T)                                                      \
  template void gumbel_rows(Ops<T>&, const GumbelRowsParams<T>&);                    \
  template void spec_sample_together(Ops<T>&, std::span<const SpecSampleParams<T>>); \
  template void tree_sample_together(Ops<T>&, std::span<const TreeSampleParams<T>>);
VERSIEVE_INSTANTIATE(double)
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
