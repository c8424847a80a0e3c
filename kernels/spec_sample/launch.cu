// spec_sample on CUDA: from a variant and a shape to its launches.
#include "kernels/launch.h"
#include "model/launches/spec_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
bool is_fused(const SpecSampleParams<T>& p) {
  return p.variant != SpecSampleVariant::kBaseline && chain_in_one_launch(p.vocab);
}

// Temperature 0 keeps one token, whatever is cut.
template <class T>
bool cuts_rows(const SpecSampleParams<T>& p) {
  return p.truncation.cuts() && p.temperature > 0.0;
}

// A cut a row, before what the launches themselves need.
template <class T>
std::size_t cut_bytes(const SpecSampleParams<T>& p) {
  const std::size_t rows = static_cast<std::size_t>(p.batch * (2 * p.gamma + 1));
  return cuts_rows(p) ? (rows * sizeof(float) + 255) / 256 * 256 : 0;
}

}  // namespace

template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p) {
  return cut_bytes(p) +
         (is_fused(p) ? spec_fused_scratch_bytes(p) : spec_baseline_scratch_bytes(p));
}

template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.gamma >= 0 && p.vocab >= 1 && p.batch >= 1,
                  "spec_sample needs a vocabulary");
  VERSIEVE_ASSERT(p.vocab < (1 << 30) && p.gamma < (1 << 20) && p.batch < (1 << 16) &&
                      p.batch * (p.gamma + 1) < (1LL << 30) && p.batch * p.samples < (1LL << 31),
                  "device indices are 32-bit");
  VERSIEVE_ASSERT(
      p.variant != SpecSampleVariant::kSigmoid || (p.temperature > 0.0 && p.alpha < p.beta),
      "sigmoids need a temperature and alpha below beta");
  LaunchContext rest = context;
  const float* cuts = nullptr;
  if (cuts_rows(p)) {
    float* const at = static_cast<float*>(context.scratch);
    launch_row_cuts<T>({.first = p.target_logits,
                        .second = p.draft_logits,
                        .rows = p.batch * (p.gamma + 1),
                        .more = p.batch * p.gamma,
                        .vocab = p.vocab,
                        .temperature = p.temperature,
                        .truncation = p.truncation,
                        .cuts = at},
                       context);
    cuts = at;
    rest.scratch = static_cast<char*>(context.scratch) + cut_bytes(p);
    rest.scratch_bytes -= cut_bytes(p);
  }
  is_fused(p) ? launch_spec_fused(p, cuts, rest) : launch_spec_baseline(p, cuts, rest);
}

template std::size_t spec_sample_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_sample_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template std::size_t spec_sample_scratch_bytes<F16>(const SpecSampleParams<F16>&);
template void launch_spec_sample<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_sample<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);
template void launch_spec_sample<F16>(const SpecSampleParams<F16>&, const LaunchContext&);

}  // namespace versieve::kernels
