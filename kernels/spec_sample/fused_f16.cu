// The fused launches of spec_sample for logits in f16.
#include "kernels/spec_sample/fused.cuh"

namespace versieve::kernels {

template std::size_t spec_fused_scratch_bytes<F16>(const SpecSampleParams<F16>&);
template void launch_spec_fused<F16>(const SpecSampleParams<F16>&, const float*,
                                     const LaunchContext&);

}  // namespace versieve::kernels
