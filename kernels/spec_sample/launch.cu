// spec_sample on CUDA: from a variant and a shape to its launches.
#include "kernels/launch.h"

#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
bool is_fused(const SpecSampleParams<T>& p) {
  return p.variant != SpecSampleVariant::kBaseline && spec_fused_takes(p);
}

}  // namespace

template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p) {
  return is_fused(p) ? spec_fused_scratch_bytes(p) : spec_baseline_scratch_bytes(p);
}

template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.gamma >= 0 && p.vocab >= 1, "spec_sample needs a vocabulary");
  VERSIEVE_ASSERT(p.vocab < (1 << 30) && p.gamma < (1 << 20), "device indices are 32-bit");
  VERSIEVE_ASSERT(
      p.variant != SpecSampleVariant::kSigmoid || (p.temperature > 0.0 && p.alpha < p.beta),
      "sigmoids need a temperature and alpha below beta");
  is_fused(p) ? launch_spec_fused(p, context) : launch_spec_baseline(p, context);
}

template std::size_t spec_sample_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_sample_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_sample<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_sample<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
