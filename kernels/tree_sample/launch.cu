// tree_sample on CUDA: from a variant and a shape to its launches.
#include "kernels/launch.h"

#include <algorithm>

#include "model/launches/tree_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// Samples a launch: the grid's second dimension, and a counter a node (fused.cu).
std::int64_t slice_samples(std::int64_t num_nodes) {
  return std::max<std::int64_t>(1, kLaunchCounters / num_nodes);
}

template <class T>
bool is_fused(const TreeSampleParams<T>& p) {
  return p.variant == TreeSampleVariant::kExact && tree_in_one_launch(p.num_nodes, p.vocab);
}

template <class T>
TreeSampleParams<T> slice_of(const TreeSampleParams<T>& p, std::int64_t sample) {
  TreeSampleParams<T> slice = p;
  slice.samples = std::min(slice_samples(p.num_nodes), p.samples - sample);
  slice.token += sample * p.num_nodes;
  slice.uniforms += sample * p.num_nodes;
  slice.accepted += sample;
  slice.tokens += sample * p.num_nodes;
  slice.path += sample * p.num_nodes;
  slice.tau += sample * p.num_nodes;
  return slice;
}

// A cut a node's row. Temperature 0 keeps one token, whatever is cut.
template <class T>
bool cuts_rows(const TreeSampleParams<T>& p) {
  return p.truncation.cuts() && p.temperature > 0.0;
}

}  // namespace

template <class T>
std::size_t tree_sample_scratch_bytes(const TreeSampleParams<T>& p) {
  return cuts_rows(p) ? static_cast<std::size_t>(p.num_nodes) * sizeof(float) : 0;
}

template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.num_nodes >= 1 && p.vocab >= 1, "a tree has a root");
  VERSIEVE_ASSERT(p.vocab < (1 << 30), "device indices are 32-bit");
  VERSIEVE_ASSERT(context.scratch_bytes >= tree_sample_scratch_bytes(p),
                  "tree_sample's scratch is reserved before");
  const float* cuts = nullptr;
  if (cuts_rows(p)) {
    float* const at = static_cast<float*>(context.scratch);
    launch_row_cuts<T>({.first = p.target_logits,
                        .rows = p.num_nodes,
                        .vocab = p.vocab,
                        .temperature = p.temperature,
                        .truncation = p.truncation,
                        .cuts = at},
                       context);
    cuts = at;
  }
  for (std::int64_t sample = 0; sample < p.samples; sample += slice_samples(p.num_nodes)) {
    const TreeSampleParams<T> slice = slice_of(p, sample);
    is_fused(p) ? launch_tree_fused(slice, cuts, context)
                : launch_tree_baseline(slice, cuts, context);
  }
}

template std::size_t tree_sample_scratch_bytes<float>(const TreeSampleParams<float>&);
template std::size_t tree_sample_scratch_bytes<Bf16>(const TreeSampleParams<Bf16>&);
template std::size_t tree_sample_scratch_bytes<F16>(const TreeSampleParams<F16>&);
template void launch_tree_sample<float>(const TreeSampleParams<float>&, const LaunchContext&);
template void launch_tree_sample<Bf16>(const TreeSampleParams<Bf16>&, const LaunchContext&);
template void launch_tree_sample<F16>(const TreeSampleParams<F16>&, const LaunchContext&);

}  // namespace versieve::kernels
