// The fused launches of spec_sample for logits in bf16.
#include "kernels/spec_sample/fused.cuh"

namespace versieve::kernels {

template std::size_t spec_fused_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_fused<Bf16>(const SpecSampleParams<Bf16>&, const float*,
                                      const LaunchContext&);

}  // namespace versieve::kernels
