// tree_sample on CUDA: from a variant and a shape to its launches.
#include "kernels/tree_sample/launch.h"

#include <algorithm>

#include "model/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kSlice = kLaunchCounters;  // samples a launch

template <class T>
bool is_fused(const TreeSampleParams<T>& p) {
  return p.variant == TreeSampleVariant::kExact && tree_fused_takes(p);
}

template <class T>
TreeSampleParams<T> slice_of(const TreeSampleParams<T>& p, std::int64_t sample) {
  TreeSampleParams<T> slice = p;
  slice.samples = std::min(kSlice, p.samples - sample);
  slice.token += sample * p.num_nodes;
  slice.uniforms += sample * p.num_nodes;
  slice.accepted += sample;
  slice.tokens += sample * p.num_nodes;
  slice.path += sample * p.num_nodes;
  slice.tau += sample * p.num_nodes;
  return slice;
}

}  // namespace

template <class T>
std::size_t tree_sample_scratch_bytes(const TreeSampleParams<T>& p) {
  const std::int64_t cells = std::min(kSlice, p.samples) * p.num_nodes;
  return is_fused(p) ? static_cast<std::size_t>(2 * cells) * sizeof(std::int32_t) : 0;
}

template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.num_nodes >= 1 && p.vocab >= 1, "a tree has a root");
  VERSIEVE_ASSERT(p.vocab < (1 << 30), "device indices are 32-bit");
  VERSIEVE_ASSERT(context.scratch_bytes >= tree_sample_scratch_bytes(p),
                  "tree_sample's scratch is reserved before");
  for (std::int64_t sample = 0; sample < p.samples; sample += kSlice) {
    const TreeSampleParams<T> slice = slice_of(p, sample);
    is_fused(p) ? launch_tree_fused(slice, context) : launch_tree_baseline(slice, context);
  }
}

template std::size_t tree_sample_scratch_bytes<float>(const TreeSampleParams<float>&);
template std::size_t tree_sample_scratch_bytes<Bf16>(const TreeSampleParams<Bf16>&);
template void launch_tree_sample<float>(const TreeSampleParams<float>&, const LaunchContext&);
template void launch_tree_sample<Bf16>(const TreeSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
