// The fused launches of spec_sample for logits in f32.
#include "kernels/spec_sample/fused.cuh"

namespace versieve::kernels {

template std::size_t spec_fused_scratch_bytes<float>(const SpecSampleParams<float>&);
template void launch_spec_fused<float>(const SpecSampleParams<float>&, const float*,
                                       const LaunchContext&);

}  // namespace versieve::kernels
