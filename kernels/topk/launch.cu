// topk: which launches answer a variant.
#include "kernels/launch.h"

#include "kernels/topk/select.h"
#include "kernels/topk/sort.h"
#include "model/launches/topk.h"

namespace versieve::kernels {
namespace {

template <class T>
TopkParams<T> with_paying_variant(TopkParams<T> p) {
  if (p.variant == TopkVariant::kGvr && topk_is_short(p.length, p.rows)) {
    p.variant = TopkVariant::kRadix;
  }
  return p;
}

template <class T>
bool selects(const TopkParams<T>& p) {
  return p.variant != TopkVariant::kSort && select_takes(p);
}

}  // namespace

template <class T>
std::size_t topk_scratch_bytes(const TopkParams<T>& p) {
  return selects(p) ? 0 : topk_sort_scratch_bytes(p);
}

template <class T>
void launch_topk(const TopkParams<T>& p, const LaunchContext& context) {
  if (!selects(p)) {
    launch_topk_sort(p, context);
    return;
  }
  const TopkParams<T> call = with_paying_variant(p);
  launch_select(call, select_shape(call), context);
}

template std::size_t topk_scratch_bytes<float>(const TopkParams<float>&);
template std::size_t topk_scratch_bytes<Bf16>(const TopkParams<Bf16>&);
template void launch_topk<float>(const TopkParams<float>&, const LaunchContext&);
template void launch_topk<Bf16>(const TopkParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
