// topk: which launches answer a variant.
#include <algorithm>
#include <vector>

#include "kernels/launch.h"
#include "kernels/topk/select.h"
#include "kernels/topk/short_rows.h"
#include "kernels/topk/sort.h"
#include "kernels/topk/together.h"
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

template <class T>
std::size_t topk_together_scratch_bytes(std::span<const TopkParams<T>> calls) {
  std::size_t bytes = 0;
  for (const TopkParams<T>& p : calls) {
    bytes = std::max(bytes, topk_scratch_bytes(p));  // sorts follow each other
  }
  return bytes;
}

// No bit depends on which launch takes a row.
template <class T>
void launch_topk_together(std::span<const TopkParams<T>> calls, const LaunchContext& context) {
  std::int64_t rows = 0;
  for (const TopkParams<T>& p : calls) {
    rows += p.rows;
  }
  std::vector<TopkParams<T>> of_a_block, of_clusters;
  int items = 8;
  for (TopkParams<T> p : calls) {
    if (!selects(p)) {
      launch_topk_sort(p, context);
    } else if (topk_takes_one_block(p.length, rows, p.k) && short_rows_hold(p, 16)) {
      items = short_rows_hold(p, 8) ? items : 16;
      of_a_block.push_back(p);
    } else {
      p.hint = topk_is_short(p.length, rows) ? nullptr : p.hint;
      of_clusters.push_back(p);
    }
  }
  if (!of_a_block.empty()) {
    launch_short_rows_together<T>(of_a_block, items, context);
  }
  if (!of_clusters.empty()) {
    launch_select_together<T>(of_clusters, context);
  }
}

template std::size_t topk_scratch_bytes<float>(const TopkParams<float>&);
template std::size_t topk_scratch_bytes<Bf16>(const TopkParams<Bf16>&);
template void launch_topk<float>(const TopkParams<float>&, const LaunchContext&);
template void launch_topk<Bf16>(const TopkParams<Bf16>&, const LaunchContext&);
template std::size_t topk_together_scratch_bytes<float>(std::span<const TopkParams<float>>);
template std::size_t topk_together_scratch_bytes<Bf16>(std::span<const TopkParams<Bf16>>);
template void launch_topk_together<float>(std::span<const TopkParams<float>>, const LaunchContext&);
template void launch_topk_together<Bf16>(std::span<const TopkParams<Bf16>>, const LaunchContext&);

}  // namespace versieve::kernels
