// topk: which launches answer a variant.
#include "kernels/launch.h"

#include "kernels/topk/select.h"
#include "kernels/topk/short_rows.h"
#include "kernels/topk/sort.h"
#include "model/launches/topk.h"

namespace versieve::kernels {
namespace {

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
  if (const int items = short_items(p); items > 0) {
    launch_short_rows(p, items, context);
    return;
  }
  TopkParams<T> call = p;
  if (topk_is_short(p.length, p.rows)) {
    call.hint = nullptr;  // looking at it takes what it saves
  }
  launch_select(call, select_shape(call), context);
}

template std::size_t topk_scratch_bytes<float>(const TopkParams<float>&);
template std::size_t topk_scratch_bytes<Bf16>(const TopkParams<Bf16>&);
template void launch_topk<float>(const TopkParams<float>&, const LaunchContext&);
template void launch_topk<Bf16>(const TopkParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
